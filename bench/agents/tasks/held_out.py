"""Tasks of other kinds, which the texts of no server here were written for: they show what is tuned to the
others.
"""

from bench.agents.steps import Do, Follow, Halt, Switch, Task

_FAULTY_C = """#include <stdio.h>
#include "ledger.h"

int main(void) {
    struct ledger book = open_ledger("q3");
    printf("%d\\n", book.total);
    return close_ledger(&book, 1);
}
"""

_TRACEBACK = """#!/usr/bin/env python3
import json

def load(path):
    with open(path) as file:
        return json.load(file)["customers"]

def main():
    for number in range(400):
        print(f"INFO row {number}: {'ab' * (number % 9)}")
    rates = {name: 100 / entry["orders"] for name, entry in load("customers.json").items()}
    print(rates)

main()
"""

_CARGO = """#!/bin/bash
for n in $(seq 1 180); do echo "   Compiling crate-$n v0.$n.1"; done
cat >&2 <<'TEXT'
error[E0382]: borrow of moved value: `orders`
  --> src/report.rs:57:20
   |
52 |     let orders = load_orders()?;
   |         ------ move occurs because `orders` has type `Vec<Order>`, which does not implement the `Copy` trait
57 |     println!("{}", orders.len());
   |                    ^^^^^^ value borrowed here after move
TEXT
for n in $(seq 1 90); do echo "warning: unused variable: \\`tmp_$n\\`" >&2; echo "  --> src/gen/file_$n.rs:$n:9" >&2; done
echo "error: could not compile \\`shop\\` (bin \\"shop\\") due to 1 previous error; 90 warnings emitted" >&2
exit 101
"""  # noqa: E501 -- lines of a table, or of another language

_LINK = """#!/bin/bash
set -e
printf 'int audit(int);\\nint main(void) { return audit(3); }\\n' > main.c
gcc -c main.c -o main.o
for n in $(seq 1 200); do echo "cc -c gen/part_$n.c -o gen/part_$n.o"; done
gcc main.o -o shop
"""

_MAKE = """#!/bin/bash
echo "cc -c parser.c"
echo "parser.y:88: fatal: rule 'expr' is never reduced" >&2
for n in $(seq 1 120); do echo "note: conflict $n resolved as shift"; done
exit 2
"""

_UNLOCK = """#!/usr/bin/env python3
import getpass
if getpass.getpass("Passphrase for backup key: ") == "correct horse":
    print("backup unlocked: 3 snapshots")
else:
    raise SystemExit("wrong passphrase")
"""

_PORT = """#!/usr/bin/env python3
import socket, sys
with socket.socket() as taken:
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    port = taken.getsockname()[1]
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError as error:
            print(f"server: cannot listen on 127.0.0.1:{port}: {error.strerror}", file=sys.stderr)
            print("server: held by process 4182 (old-server)", file=sys.stderr)
            sys.exit(98)
"""

_JSON = """#!/usr/bin/env python3
import json
rows = [{"id": n, "sku": f"A-{n:05}", "stock": n * 7 % 50} for n in range(40000)]
rows[31416]["note"] = "RECALLED batch 77"
print(json.dumps({"rows": rows, "status": "partial"}))
"""

_UNICODE = """#!/usr/bin/env python3
for n in range(40):
    print("✓", "größe", n, "日本語テスト", "🧪" * (n % 4), "Привет")
print("✗ größentabelle: erwartet 42 €, bekommen 41,99 € 💥")
raise SystemExit(1)
"""

_LOG = """#!/usr/bin/env python3
import json
for n in range(6000):
    level = "error" if n == 3777 else "info"
    message = "payment gateway timeout, order 99812" if n == 3777 else f"request {n} served in {n % 37} ms"
    print(json.dumps({"ts": f"2026-01-01T00:{n // 100:02}:{n % 60:02}Z", "level": level, "msg": message}))
"""

_DISK = """#!/bin/bash
for n in $(seq 1 900); do echo "unpacking layer $n: ok"; done
echo "tar: ./data/index.db: Cannot write: No space left on device" >&2
echo "tar: Exiting with failure status due to previous errors" >&2
for n in $(seq 1 300); do echo "cleanup: removed temporary file $n"; done
exit 2
"""

_WATCHER = """#!/usr/bin/env python3
import os, time
print("watching src for changes", flush=True)
last, build = None, 0
while True:
    now = os.stat("src/app.txt").st_mtime_ns
    if now != last:
        last, build = now, build + 1
        word = open("src/app.txt").read().strip()
        print(f"build {build}: {'ok' if word != 'broken' else 'FAILED: unexpected token in src/app.txt'}", flush=True)
    time.sleep(0.05)
"""  # noqa: E501 -- lines of a table, or of another language

_DIGITS = """#!/usr/bin/env python3
for n in range(2500):
    value = 912 if n == 1800 else 40 + n % 3
    print(f"sample {n:05} latency {value} ms cpu {n % 7} % queue {n % 5}")
print("worst latency: 912 ms at sample 01800")
"""

_MEMORY = """#!/bin/bash
echo "indexing: allocating 16 shards"
python3 - <<'PY'
import os, signal
print("indexing shard 11", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
PY
code=$?
echo "indexer ended with code $code"
exit $code
"""

_RELEASE = """#!/bin/bash
echo "released @NAME@ to ${REGION:-nowhere}"
"""

_PREVIEW = """#!/bin/bash
cd "$(dirname "$0")/.."
echo "preview of @NAME@ is ready"
until [ -e requested ]; do sleep 0.1; done
echo "preview of @NAME@: page requested"
exec sleep 3600
"""

_REQUEST = """#!/bin/bash
touch "$(dirname "$0")/../requested"
sleep 0.5
echo "page requested"
"""


def _projects(*names: str) -> dict[str, str]:
    """Return the files of projects that have the same programs, each of which says whose it is."""
    programs = {"release": _RELEASE, "preview": _PREVIEW, "request": _REQUEST}
    return {
        f"{name}/bin/{program}": text.replace("@NAME@", name)
        for name in names
        for program, text in programs.items()
    }


def _preview(name: str) -> Do:
    ready = f"preview of {name} is ready"
    return Do(
        command="preview", kind="service", until=ready, facts=(ready,), name="preview", lasts=True, clue=""
    )


TASKS = tuple(
    Task(name=name, goal=goal, files=files, prepare=prepare, steps=steps, is_held_out=True)
    for name, goal, files, prepare, steps in (
        (
            "gcc",
            "Compile it: what is wrong?",
            {
                "main.c": _FAULTY_C,
                "ledger.h": "struct ledger { int sum; };\nstruct ledger open_ledger(const char *);\n",
            },
            "",
            (
                Do(
                    command="gcc -Wall main.c -o main",
                    facts=(r"has no member named .total.", r"close_ledger"),
                ),
            ),
        ),
        (
            "traceback",
            "Run the report: why does it fail?",
            {
                "report.py": _TRACEBACK,
                "customers.json": '{"customers": {"ada": {"orders": 4}, "bob": {"orders": 0}}}',
            },
            "",
            (Do(command="./report.py", facts=(r"ZeroDivisionError", r"line 11, in"), clue="Error|line"),),
        ),
        (
            "cargo",
            "Build it: what is the error?",
            {"build.sh": _CARGO},
            "",
            (
                Do(
                    command="./build.sh",
                    facts=(r"error\[E0382\]: borrow of moved value", r"src/report\.rs:57:20"),
                ),
            ),
        ),
        (
            "linker",
            "Link it: what is missing?",
            {"link.sh": _LINK},
            "",
            (Do(command="./link.sh", facts=(r"undefined reference to .audit",), clue="undefined|error"),),
        ),
        (
            "tail",
            "Build it, the last lines will do: did it work, and if not, why?",
            {"build.sh": _MAKE},
            "",
            (
                Do(
                    command="./build.sh 2>&1 | tail -30",
                    facts=(r"fatal: rule 'expr' is never reduced",),
                    clue="fatal|error",
                ),
            ),
        ),
        (
            "password",
            "Unlock the backup; the passphrase is: correct horse",
            {"unlock.py": _UNLOCK},
            "",
            (
                Do(
                    command="./unlock.py",
                    kind="dialog",
                    facts=(r"backup unlocked: 3 snapshots",),
                    replies=((r"Passphrase for backup key:", "correct horse"),),
                    clue="",
                ),
            ),
        ),
        (
            "port",
            "Start the server: why does it not start?",
            {"server.py": _PORT},
            "",
            (
                Do(
                    command="./server.py",
                    kind="service",
                    until="listening",
                    facts=(r"Address already in use", r"process 4182"),
                    clue="",
                ),
            ),
        ),
        (
            "json",
            "What does the stock service say of recalled batches?",
            {"stock.py": _JSON},
            "",
            (Do(command="./stock.py", facts=(r"RECALLED batch 77",), clue='.RECALLED[^"]*'),),
        ),
        (
            "unicode",
            "Run the checks: which one fails?",
            {"checks.py": _UNICODE},
            "",
            (
                Do(
                    command="./checks.py",
                    facts=(r"✗ größentabelle: erwartet 42 €, bekommen 41,99 €",),
                    clue="✗",
                ),
            ),
        ),
        (
            "log",
            "Find the error in the service's log.",
            {"dump-log.py": _LOG},
            "",
            (Do(command="./dump-log.py", facts=(r"payment gateway timeout, order 99812",), clue='"error"'),),
        ),
        (
            "disk",
            "Unpack the data: did it work?",
            {"unpack.sh": _DISK},
            "",
            (
                Do(
                    command="./unpack.sh",
                    facts=(r"index\.db: Cannot write: No space left",),
                    clue="Cannot|fail|error",
                ),
            ),
        ),
        (
            "watcher",
            "Start the watcher, break the source, and see what the build says.",
            {"watch.py": _WATCHER, "src/app.txt": "fine\n"},
            "",
            (
                Do(
                    command="./watch.py",
                    kind="service",
                    until="build 1",
                    facts=(r"build 1: ok",),
                    name="watch",
                    lasts=True,
                    clue="",
                ),
                Do(command="echo broken > src/app.txt; sleep 0.3", clue=""),
                Follow(name="watch", facts=(r"build 2: FAILED: unexpected token",), is_news=True),
                Halt(name="watch"),
            ),
        ),
        (
            "digits",
            "Run the load test: what is the worst latency, and at which sample?",
            {"load.py": _DIGITS},
            "",
            (
                Do(
                    command="./load.py",
                    facts=(r"worst latency: 912 ms", r"sample 01800\b"),
                    clue="worst|9[0-9]{2} ms",
                ),
            ),
        ),
        (
            "memory",
            "Build the index: why does it end?",
            {"index.sh": _MEMORY},
            "",
            (Do(command="./index.sh", facts=(r"indexing shard 11", r"code 137"), clue=""),),
        ),
        (
            "variable",
            "Set STAGE=canary for this session, and show that it holds.",
            {"show.sh": '#!/bin/bash\necho "stage is ${STAGE:-unset}"\n'},
            "",
            (
                Do(command="export STAGE=canary", goes_on=True, clue=""),
                Do(command="./show.sh", goes_on=True, facts=(r"stage is canary",), clue=""),
            ),
        ),
        (
            "diff",
            "What has changed in the last commit?",
            {"app.cfg": "retries = 3\ntimeout = 10\n"},
            (
                "git init -q . && git add . && git commit -q -m first && sed -i 's/retries = 3/retries = "
                "7/' app.cfg && git commit -qam second"
            ),
            (Do(command="git show", facts=(r"^\+retries = 7",), clue=""),),
        ),
        (
            "projects",
            "Two agents, each in its own host, release and preview their own projects under the same names.",
            _projects("shop", "blog"),
            "git init -q shop; git init -q blog",
            (
                Switch(folder="shop", env={"REGION": "paris"}),
                Do(command="export STAGE=canary; cd bin", goes_on=True, clue=""),
                Do(command="release", once="release", facts=(r"released shop to paris",), clue=""),
                _preview("shop"),
                Switch(folder="blog", env={"REGION": "oslo"}),
                Do(
                    command="pwd; echo stage ${STAGE:-unset}",
                    goes_on=True,
                    facts=(r"/blog$", r"stage unset"),
                    clue="",
                ),
                Do(command="release", once="release", facts=(r"released blog to oslo",), clue=""),
                _preview("blog"),
                # Its number is that of the other project's, which goes on.
                Halt(name="preview"),
                Switch(folder="shop"),
                Do(command="request", facts=(r"page requested",), clue=""),
                Follow(name="preview", facts=(r"preview of shop: page requested",), is_news=True),
                Halt(name="preview"),
            ),
        ),
    )
)
