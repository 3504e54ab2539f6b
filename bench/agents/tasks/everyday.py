"""Ten tasks of every day, written before the answers to them were looked at: a start that fails and goes
on watching, tests that are watched, a line that leaves a server behind, an initializer that asks.
"""

from bench.agents.steps import Do, Follow, Halt, Task, Together

_COLLISION = """#!/usr/bin/env python3
import time
print("[nodemon] 3.1.0", flush=True)
print("[nodemon] starting `node server.js`", flush=True)
print("Error: listen EADDRINUSE: address already in use :::3000", flush=True)
print("    at Server.setupListenHandle [as _listen2] (node:net:1872:16)", flush=True)
print("[nodemon] app crashed - waiting for file changes before starting...", flush=True)
time.sleep(3600)
"""

_WATCHED_TESTS = """#!/usr/bin/env python3
import os, time
print(" DEV  v1.6.0  shop", flush=True)
last = None
while True:
    now = os.stat("src/total.txt").st_mtime_ns
    if now != last:
        last = now
        if open("src/total.txt").read().strip() == "40":
            print(" FAIL  src/total.test > adds tax\\nAssertionError: expected 40 to be 42", flush=True)
            print(" Tests  1 failed | 11 passed (12)", flush=True)
        else:
            print(" Tests  12 passed (12)", flush=True)
        print(" PASS  Waiting for file changes...", flush=True)
    time.sleep(0.05)
"""

_BACKGROUND = """#!/bin/bash
(while [ ! -e stop-mock ]; do sleep 0.1; done) >/dev/null 2>&1 &
echo "mock server started in the background"
"""

_FLAKY = """#!/bin/bash
for attempt in 1 2 3; do
    echo "attempt $attempt: connecting to registry.example"
    sleep @10@
    if [ $attempt = 3 ]; then echo "attempt 3: published shop 2.8.1 (sha256 77ac)"; exit 0; fi
    echo "attempt $attempt: 503 Service Unavailable, next in 10 s"
done
"""

_INITIALIZER = """#!/usr/bin/env python3
name = input("package name: (shop) ") or "shop"
version = input("version: (1.0.0) ") or "1.0.0"
licence = input("license: (ISC) ") or "ISC"
print(f"wrote package.json: {name} {version} {licence}")
"""

_BURIED = """#!/bin/bash
for n in $(seq 1 260); do echo "asset js/chunk-$n.js  12.$n kB"; done
echo "WARNING in asset size limit: vendor.js (1.9 MiB) exceeds the recommended 244 KiB"
for n in $(seq 1 260); do echo "asset css/chunk-$n.css  3.$n kB"; done
echo "compiled with 1 warning in 4102 ms"
"""

_LINT = """#!/bin/bash
sleep @$2@
[ "$1" != web ] || { echo "web: src/cart.ts:14:3 no-floating-promises"; exit 1; }
echo "$1: no problems"
"""

_SUITE = """#!/usr/bin/env python3
import time
for n in range(60):
    print(f"test_{n:03} PASSED", flush=True)
    time.sleep(@0.7@)
print("test_061 FAILED: lock of tenant 'acme' was not released")
print("1 failed, 60 passed")
raise SystemExit(1)
"""

_HANGING_TEST = """#!/bin/bash
echo "test_login ... ok"
echo "test_refund ... "
sleep 3600
"""

_LATE = """#!/bin/bash
exec > >(sed -u 's/^/[deploy] /') 2>&1
for n in $(seq 1 40); do echo "step $n done"; done
echo "rollback: health check of pod shop-7c9 failed"
exit 3
"""

TASKS = tuple(
    Task(name=name, goal=goal, files=files, steps=steps, is_held_out=True)
    for name, goal, files, steps in (
        (
            "collision",
            "Start the development server; what is in its way?",
            {"dev.py": _COLLISION},
            (
                Do(
                    command="./dev.py",
                    kind="service",
                    until="ready",
                    facts=(r"EADDRINUSE: address already in use :::3000",),
                    name="dev",
                    lasts=True,
                    clue="",
                ),
                Halt(name="dev"),
            ),
        ),
        (
            "watched-tests",
            "Start the tests in watch mode, mend the total, and see them pass.",
            {"watch-tests.py": _WATCHED_TESTS, "src/total.txt": "40\n"},
            (
                Do(
                    command="./watch-tests.py",
                    kind="service",
                    until="Waiting for file changes",
                    facts=(r"expected 40 to be 42",),
                    name="tests",
                    lasts=True,
                    clue="",
                ),
                Do(command="echo 42 > src/total.txt; sleep 0.3", clue=""),
                Follow(name="tests", facts=(r"Tests  12 passed",), is_news=True),
                Halt(name="tests"),
            ),
        ),
        (
            "left-behind",
            "Start the mock server in the background, and end it by its stop file.",
            {"mock.sh": _BACKGROUND},
            (
                Do(command="./mock.sh", facts=(r"mock server started",), clue=""),
                Do(command="touch stop-mock; echo asked to stop", facts=(r"asked to stop",), clue=""),
            ),
        ),
        (
            "flaky",
            "Publish the package; it may need some attempts.",
            {"publish.sh": _FLAKY},
            (Do(command="./publish.sh", kind="long", facts=(r"published shop 2\.8\.1",), clue="published"),),
        ),
        (
            "initializer",
            "Make a package named till, version 0.1.0, MIT.",
            {"init.py": _INITIALIZER},
            (
                Do(
                    command="./init.py",
                    kind="dialog",
                    facts=(r"wrote package\.json: till 0\.1\.0 MIT",),
                    replies=((r"package name:", "till"), (r"version:", "0.1.0"), (r"license:", "MIT")),
                    clue="",
                ),
            ),
        ),
        (
            "buried",
            "Bundle it: is anything too large?",
            {"bundle.sh": _BURIED},
            (Do(command="./bundle.sh", facts=(r"vendor\.js \(1\.9 MiB\)",), clue="WARNING|warning"),),
        ),
        (
            "lints",
            "Lint api, web and jobs at once.",
            {"lint.sh": _LINT},
            (
                Together(
                    parts=(
                        Do(command="./lint.sh api 1", facts=(r"api: no problems",)),
                        Do(command="./lint.sh web 2", facts=(r"src/cart\.ts:14:3",)),
                        Do(command="./lint.sh jobs 3", facts=(r"jobs: no problems",)),
                    )
                ),
            ),
        ),
        (
            "suite",
            "Run the whole suite: which test fails, and why?",
            {"suite.py": _SUITE},
            (
                Do(
                    command="./suite.py",
                    kind="long",
                    facts=(r"test_061 FAILED: lock of tenant 'acme'",),
                    clue="FAILED",
                ),
            ),
        ),
        (
            "hanging-test",
            "The tests hang: which one?",
            {"tests.sh": _HANGING_TEST},
            (Do(command="./tests.sh", kind="suspect", facts=(r"test_refund",), clue=""),),
        ),
        (
            "late-lines",
            "Deploy: why does it end with an error?",
            {"deploy.sh": _LATE},
            (Do(command="./deploy.sh", facts=(r"health check of pod shop-7c9 failed",), clue="fail"),),
        ),
    )
)
