#!/usr/bin/env bash
# Install xterm.js, with and without a screen, and its addons into .xterm (needs npm). tests/xterm uses them.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v npm >/dev/null || {
    echo "xterm: npm is missing (Debian: apt-get install npm)" >&2
    exit 1
}
mkdir -p .xterm
cp tests/xterm/package.json tests/xterm/package-lock.json .xterm/
# A lock without addresses holds hashes: whichever registry serves, the bytes are these.
npm ci --prefix .xterm --ignore-scripts --no-audit --no-fund --loglevel=error
