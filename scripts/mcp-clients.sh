#!/usr/bin/env bash
# Install the official MCP clients in JavaScript, with a Node new enough for them, into .mcp-clients (needs npm).
# tests/mcp_clients and the benchmark `mcp_echo` use them; elsewhere than on x86-64 with the `node` of the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v npm >/dev/null || {
    echo "mcp-clients: npm is missing (Debian: apt-get install npm)" >&2
    exit 1
}
mkdir -p .mcp-clients
cp tests/mcp_clients/package.json tests/mcp_clients/package-lock.json .mcp-clients/
# A lock without addresses holds hashes: whichever registry serves, the bytes are these.
npm ci --prefix .mcp-clients --ignore-scripts --no-audit --no-fund --loglevel=error
