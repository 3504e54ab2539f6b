#!/usr/bin/env bash
# Add Ray to .venv, which tests/extensions/ray leases places from (pip, 285 MB installed). It is apart from the rest since it is larger than that.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python

[ -x "$python" ] || {
    echo "ray: $python is missing: make setup" >&2
    exit 1
}
"$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/ray.txt
