#!/usr/bin/env bash
# agent-peers.sh: install what the benchmark `agents` needs into .agent-peers: the counter of tokens, and other MCP servers
# that run commands (npm and pip, 500 MB). agent-peers.sh counter: the counter alone (100 MB), which is all that tests need.
# Versions are locked by hash; nothing here is part of the product.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${VENV:-.venv}/bin/python

[ -x "$python" ] || {
    echo "agent-peers: $python is missing: make setup" >&2
    exit 1
}
mkdir -p .agent-peers

install_python() { # install_python FOLDER LOCK: an environment with what the lock names, made anew when the lock has changed
    local folder=.agent-peers/$1 lock=requirements/$2.txt
    if cmp -s "$lock" "$folder/.installed"; then return; fi
    rm -rf "$folder"
    "$python" -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
    cp "$lock" "$folder/.installed"
}

install_npm() {
    command -v npm >/dev/null || {
        echo "agent-peers: npm is missing (Debian: apt-get install npm)" >&2
        exit 1
    }
    if cmp -s bench/agents/package-lock.json .agent-peers/.npm-installed; then return; fi
    cp bench/agents/package.json bench/agents/package-lock.json .agent-peers/
    npm ci --prefix .agent-peers --ignore-scripts --no-audit --no-fund --loglevel=error
    cp bench/agents/package-lock.json .agent-peers/.npm-installed
}

install_python counter token-counter
case ${1:-all} in
counter) ;;
all)
    install_npm
    install_python python agent-peers
    ;;
*)
    echo "usage: agent-peers.sh [counter]" >&2
    exit 2
    ;;
esac
