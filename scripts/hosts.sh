#!/usr/bin/env bash
# Install the command lines of MCP hosts that are asked about our entries, and the validator of bundles, into .hosts (needs npm).
# tests/extensions/hosts runs them, and skips what is not there.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v npm >/dev/null || {
    echo "hosts: npm is missing (Debian: apt-get install npm)" >&2
    exit 1
}
mkdir -p .hosts
cp tests/extensions/hosts/package.json tests/extensions/hosts/package-lock.json .hosts/
# A lock without addresses holds hashes: whichever registry serves, the bytes are these.
npm ci --prefix .hosts --ignore-scripts --no-audit --no-fund --loglevel=error
