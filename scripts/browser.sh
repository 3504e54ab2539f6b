#!/usr/bin/env bash
# Add Playwright to .venv, which drives the Chromium of tests/web, tests/xterm, scripts/screenshots.py and `make bench ARGS=web`.
# It is apart from the rest since it is as large as half of that, and has no wheel for musl (decision 207). It downloads no browser.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python

[ -x "$python" ] || {
    echo "browser: $python is missing: make setup" >&2
    exit 1
}
"$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/browser.txt
