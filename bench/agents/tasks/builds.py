"""Tasks about things that are built, tested and installed."""

from bench.agents.steps import Do, Task

# 3,000 lines with the error in the middle, as a large project's build: what fails is not what stands at the
# end.
_BUILD = """#!/bin/bash
for n in $(seq 1 1490); do echo "[$n/3000] CC src/module_$n.o -O2 -Wall -Iinclude"; done
echo "src/module_1491.c: In function 'render_frame':"
echo "src/module_1491.c:214:17: error: 'struct frame' has no member named 'colour_depht'; did you mean 'colour_depth'?"
echo "  214 |     out->depth = in->colour_depht;"
for n in $(seq 1492 2996); do echo "[$n/3000] CC src/module_$n.o -O2 -Wall -Iinclude"; done
echo "make[1]: Target 'all' not remade because of errors."
echo "make: *** [Makefile:12: all] Error 2"
exit 2
"""  # noqa: E501 -- lines of a table, or of another language

_TESTS = """#!/bin/bash
echo "============================= test session starts =============================="
echo "collected 412 items"
echo
for n in $(seq 1 411); do
    printf 'tests/test_orders.py::test_case_%d PASSED [%3d%%]\\n' $n $((n * 100 / 412))
    if [ $n = 205 ]; then echo "tests/test_orders.py::test_discount_is_rounded FAILED [ 50%]"; fi
done
echo
echo "=================================== FAILURES ==================================="
echo "___________________________ test_discount_is_rounded ___________________________"
echo
echo "    def test_discount_is_rounded():"
echo ">       assert discount(19.99, 15) == 3.00"
echo "E       assert 2.9984999999999995 == 3.0"
echo "E        +  where 2.9984999999999995 = discount(19.99, 15)"
echo
echo "tests/test_orders.py:87: AssertionError"
echo "=========================== short test summary info ============================"
echo "FAILED tests/test_orders.py::test_discount_is_rounded - assert 2.9984999999999995 == 3.0"
echo "======================== 1 failed, 411 passed in 4.21s ========================="
exit 1
"""

_INSTALL = """#!/usr/bin/env python3
import sys, time
for name, mb in (("torchlite", 48), ("pandaset", 12), ("numpyish", 18)):
    print(f"Collecting {name}")
    print(f"  Downloading {name}-2.1.0-cp311-manylinux_x86_64.whl ({mb}.0 MB)")
    for step in range(201):
        done = step * 40 // 200
        print(f"\\r     \\x1b[32m{'━' * done}\\x1b[0m{' ' * (40 - done)} {step * mb / 200:.1f}/{mb}.0 MB {20 + step % 7}.1 MB/s eta 0:00:0{(200 - step) // 50}", end="", flush=True)
        time.sleep(0.001)
    print()
print("Installing collected packages: numpyish, pandaset, torchlite")
print("Successfully installed numpyish-2.1.0 pandaset-2.1.0 torchlite-2.1.0")
print("WARNING: torchlite 2.1.0 requires numpyish<2.0, but you have numpyish 2.1.0 which is incompatible.", file=sys.stderr)
"""  # noqa: E501 -- lines of a table, or of another language

_IMAGE = """#!/bin/bash
echo "#1 [internal] load build definition from Dockerfile"
echo "#1 transferring dockerfile: 812B done"
echo "#5 [1/7] FROM docker.io/library/node:20-slim@sha256:8c1ab2f5f0a4"
for layer in a1 b2 c3 d4 e5; do
    for mb in $(seq 1 60); do echo "#5 sha256:${layer}f09d3c $mb.00MB / 60.00MB 0.${mb}s"; done
    echo "#5 sha256:${layer}f09d3c 60.00MB / 60.00MB 6.1s done"
done
echo "#5 extracting sha256:a1f09d3c 2.1s done"
echo "#6 [2/7] WORKDIR /app"
echo "#7 [3/7] COPY package.json package-lock.json ./"
echo "#8 [4/7] RUN npm ci"
for n in $(seq 1 300); do echo "#8 $((n / 30)).$((n % 10)) npm http fetch GET 200 https://registry.example/pkg-$n $((n % 90))ms (cache miss)"; done
echo "#8 9.4 npm ERR! code EINTEGRITY"
echo "#8 9.4 npm ERR! sha512-Kx1 integrity checksum failed when using sha512: wanted sha512-AAA= but got sha512-BBB=. (18211 bytes)"
for n in $(seq 1 40); do echo "#8 9.5 npm timing reify:rollback:$n Completed in ${n}ms"; done
echo "#8 ERROR: process \\"/bin/sh -c npm ci\\" did not complete successfully: exit code: 1"
echo "------"
echo " > [4/7] RUN npm ci:"
echo "------"
echo "Dockerfile:14"
echo "ERROR: failed to solve: process \\"/bin/sh -c npm ci\\" did not complete successfully: exit code: 1"
exit 1
"""  # noqa: E501 -- lines of a table, or of another language

TASKS = (
    Task(
        name="short",
        goal="Which files are here, and what does VERSION say?",
        files={"VERSION": "4.17.2\n", "README": "A project.\n"},
        steps=(Do(command="ls; cat VERSION", facts=(r"4\.17\.2", r"README")),),
    ),
    Task(
        name="build",
        goal="Build it, and say what fails.",
        files={"build.sh": _BUILD},
        steps=(
            Do(command="./build.sh", facts=(r"module_1491\.c:214:17: error: .*colour_depht", r"Error 2")),
        ),
    ),
    Task(
        name="tests",
        goal="Run the tests, and say which one fails and why.",
        files={"run-tests.sh": _TESTS},
        steps=(
            Do(
                command="./run-tests.sh",
                facts=(r"test_discount_is_rounded", r"2\.99849\d* == 3\.0", r"1 failed, 411 passed"),
                clue="FAILED|Error|assert",
            ),
        ),
    ),
    Task(
        name="install",
        goal="Install the dependencies, and report warnings.",
        files={"install.py": _INSTALL},
        steps=(
            Do(
                command="./install.py",
                facts=(r"Successfully installed numpyish-2\.1\.0", r"requires numpyish<2\.0"),
                clue="Success|WARN|ERROR",
            ),
        ),
    ),
    Task(
        name="image",
        goal="Build the image, and say why it fails.",
        files={"build-image.sh": _IMAGE},
        steps=(
            Do(
                command="./build-image.sh",
                facts=(r"npm ERR! code EINTEGRITY", r"integrity checksum failed", r"Dockerfile:14"),
                clue="ERR",
            ),
        ),
    ),
)
