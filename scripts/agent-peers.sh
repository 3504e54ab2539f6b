#!/usr/bin/env bash
# Install what the benchmark `agents` needs into .agent-peers: the counter of tokens and other MCP servers that run
# commands (npm and pip). Their versions are locked by hash; nothing here is part of the product.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python
wanted=requirements/agent-peers.txt

command -v npm >/dev/null || {
    echo "agent-peers: npm is missing (Debian: apt-get install npm)" >&2
    exit 1
}
[ -x "$python" ] || {
    echo "agent-peers: $python is missing: make setup" >&2
    exit 1
}
mkdir -p .agent-peers
if ! cmp -s bench/agents/package-lock.json .agent-peers/.npm-installed; then
    cp bench/agents/package.json bench/agents/package-lock.json .agent-peers/
    npm ci --prefix .agent-peers --ignore-scripts --no-audit --no-fund --loglevel=error
    cp bench/agents/package-lock.json .agent-peers/.npm-installed
fi
if ! cmp -s "$wanted" .agent-peers/.pip-installed; then
    rm -rf .agent-peers/python
    "$python" -m venv .agent-peers/python
    .agent-peers/python/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r "$wanted"
    cp "$wanted" .agent-peers/.pip-installed
fi
