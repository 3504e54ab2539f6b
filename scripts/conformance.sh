#!/usr/bin/env bash
# Install the official MCP conformance suite, with a Node new enough for it, into .conformance (needs npm).
# tests/conformance/test_conformance.py runs it; elsewhere than on x86-64 it takes the `node` of the PATH (22 or newer).
set -euo pipefail
cd "$(dirname "$0")/.."

command -v npm >/dev/null || {
    echo "conformance: npm is missing (Debian: apt-get install npm)" >&2
    exit 1
}
mkdir -p .conformance
cp tests/conformance/package.json tests/conformance/package-lock.json .conformance/
# A lock without addresses holds hashes: whichever registry serves, the bytes are these.
npm ci --prefix .conformance --ignore-scripts --no-audit --no-fund --loglevel=error
