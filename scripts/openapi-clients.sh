#!/usr/bin/env bash
# Install two public generators of REST clients into .openapi-clients, an environment of their own (pip, no compiler).
# tests/openapi_clients runs them on /openapi.json; openapi-generator needs Java (Debian: default-jdk-headless).
set -euo pipefail
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python
wanted=requirements/openapi-clients.txt

[ -x "$python" ] || {
    echo "openapi-clients: $python is missing: make setup" >&2
    exit 1
}
if cmp -s "$wanted" .openapi-clients/.installed; then exit; fi
rm -rf .openapi-clients
"$python" -m venv .openapi-clients
.openapi-clients/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$wanted"
cp "$wanted" .openapi-clients/.installed
