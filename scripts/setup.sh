#!/usr/bin/env bash
# Make .venv hold exactly the locked packages, and outlive itself installed in place.
# Needs Python >= 3.11 with the venv module; no root, no compiler (without one zig is fetched). `PYTHON=...` picks another interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=${VENV:-.venv}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# Run a command; at a terminal say what it does, a dot a second, and how long it took: some of them take a minute.
step() {
    local text=$1 begun=$SECONDS dots
    shift
    if ! [ -t 2 ]; then
        "$@"
        return
    fi
    printf 'setup: %s ' "$text" >&2
    # They end with this script, however that ends.
    while sleep 1 && kill -0 $$ 2>/dev/null; do printf . >&2; done &
    dots=$!
    if "$@"; then
        kill "$dots"
        wait "$dots" 2>/dev/null || true
        echo " $((SECONDS - begun)) s" >&2
    else
        kill "$dots"
        wait "$dots" 2>/dev/null || true
        echo " failed" >&2
        return 1
    fi
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14}; do
        if command -v "$candidate" >/dev/null && is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    echo "setup: Python 3.11 or newer is needed and was not found (looked for: ${PYTHON:-python3, python3.11 .. python3.14})." >&2
    echo "       Install it (Debian: apt-get install python3 python3-venv) or say where it is: make setup PYTHON=/path/to/python" >&2
    return 1
}

if ! { [ -x "$venv/bin/python" ] && is_new_enough "$venv/bin/python"; }; then
    python=$(find_python)
    rm -rf "$venv"
    if ! step "making $venv" "$python" -m venv "$venv"; then
        rm -rf "$venv"
        echo "setup: $python cannot make a virtual environment (Debian: apt-get install python3-venv)." >&2
        exit 1
    fi
fi

if ! [ -x "$venv/bin/uv" ]; then
    step "installing uv" "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --require-hashes -r requirements/bootstrap.txt
fi

# uv wants a cache folder; an account without a usable home folder goes without.
uv_flags=(--quiet --python "$venv/bin/python")
cache_home=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}
if [ -z "${UV_CACHE_DIR:-}" ] && ! mkdir -p "$cache_home" 2>/dev/null || [ -z "${UV_CACHE_DIR:-}" ] && ! [ -w "$cache_home" ]; then
    uv_flags+=(--no-cache)
fi
# Compiled now, also where PYTHONDONTWRITEBYTECODE is set: the first start should be as quick as every other one.
locks=(requirements/dev.txt)
# What scripts/browser.sh, scripts/ray.sh and the end of this script have added stays.
if [ -e "$venv/bin/playwright" ]; then locks+=(requirements/browser.txt); fi
if [ -e "$venv/bin/ray" ]; then locks+=(requirements/ray.txt); fi
if compgen -G "$venv/lib/python*/site-packages/ziglang" >/dev/null; then locks+=(requirements/zig.txt); fi
step "installing what outlive needs" "$venv/bin/uv" pip sync "${uv_flags[@]}" --compile-bytecode --require-hashes "${locks[@]}"
step "installing outlive" "$venv/bin/uv" pip install "${uv_flags[@]}" --no-deps --no-build-isolation --editable .
step "compiling the modules" "$venv/bin/python" -m compileall -q src
# What shims and containers run: a checkout has no wheel's. It lies beside its sources, and is compiled once for these.
program() { # program needs-zig | program compile
    "$venv/bin/python" -c 'import os, sys
from pathlib import Path
from outlive.discovery.runner_build import has_compiler, present_runner, runner_binary
from outlive.core.errors import OutliveError
machine = os.uname().machine
try:
    spare = Path("/nonexistent") # this user has just written the checkout
    if sys.argv[1] == "needs-zig":
        sys.exit(has_compiler() or present_runner(machine, spare) is not None)
    runner_binary(machine, spare)
except OutliveError as error:
    sys.exit(f"setup: {error}")' "$1" </dev/null
}
if program needs-zig; then
    echo "setup: no C compiler is here: zig is fetched from PyPI (ziglang: 100 MB, and 400 MB of disk in $venv) to compile one file" >&2
    step "installing zig" "$venv/bin/uv" pip install "${uv_flags[@]}" --no-deps --require-hashes -r requirements/zig.txt || true
fi
if ! step "compiling outlive's program" program compile; then
    echo "setup: outlive starts nothing without its program: install a C compiler with a static C library (Debian: gcc libc6-dev, or" \
        "musl-tools), or let pip reach PyPI's ziglang, and run make setup again." >&2
    exit 1
fi
touch "$venv/.ready"
