"""Tasks about output: too much of it, none that can be read, one page at a time."""

from bench.agents.steps import Do, Recall, Restart, Task

_FLOOD = """#!/bin/bash
yes 'DEBUG worker 17 polled queue orders: nothing to do, sleeping' | head -c 100000000; echo
echo "FATAL checksum of segment 4711 does not match: disk sdb1"
yes 'DEBUG worker 17 polled queue orders: nothing to do, sleeping' | head -c 100000000; echo
echo "stopped after 200 MB"
"""

_BINARY = """#!/usr/bin/env python3
import random, sys
random.seed(21)
print("writing thumbnail to stdout", flush=True)
sys.stdout.buffer.write(bytes([0x89, 0x50, 0x4E, 0x47, 0, 0]) + random.randbytes(20000))
sys.stdout.buffer.flush()
print("\\nthumbnail: 20006 bytes, 64x64", file=sys.stderr)
"""

_QUOTES = """#!/bin/bash
name="O'Brien \\"Bob\\""
cat > note.json <<'JSON'
{"owner": "O'Brien", "price": "$5 & up", "path": "C:\\\\temp"}
JSON
python3 - "$name" <<'PY'
import json, sys
note = json.load(open("note.json"))
print("owner:", note["owner"], "| price:", note["price"], "| length:", len(note["path"]), "| name:", sys.argv[1])
PY
"""  # noqa: E501 -- lines of a table, or of another language

_HISTORY = """for n in $(seq 1 48); do
    echo "line $n" >> notes.txt; git add notes.txt; git commit -q -m "Change number $n of the notes"
done"""

TASKS = (
    Task(
        name="flood",
        goal="Run the importer, and say what it died of.",
        files={"import.sh": _FLOOD},
        steps=(
            Do(
                command="./import.sh",
                facts=(r"FATAL checksum of segment 4711", r"stopped after 200 MB"),
                clue="FATAL|stopped",
            ),
        ),
    ),
    Task(
        name="binary",
        goal="Run the thumbnailer: how large is the picture?",
        files={"thumbnail.py": _BINARY},
        steps=(Do(command="./thumbnail.py", facts=(r"thumbnail: 20006 bytes, 64x64",), clue="thumbnail"),),
    ),
    Task(
        name="pager",
        goal="What was the first commit, and what the last?",
        prepare="git init -q .\n" + _HISTORY,
        steps=(
            Do(
                command="git log --stat",
                facts=(r"Change number 48 of the notes", r"Change number 1 of the notes"),
                clue="Change number (1|48) ",
            ),
        ),
    ),
    Task(
        name="quotes",
        goal="Run this script: it has quotes of every kind.",
        steps=(
            Do(
                command=_QUOTES,
                is_script=True,
                facts=(r"owner: O'Brien \| price: \$5 & up \| length: 7 \| name: O'Brien \\?\"Bob",),
                clue="owner",
            ),
        ),
    ),
    Task(
        name="folder",
        goal="Go into packages/web, and work there.",
        files={"packages/web/package.json": '{"name": "shop-front", "version": "0.9.3"}\n'},
        steps=(
            Do(command="cd packages/web", goes_on=True),
            Do(command="cat package.json", goes_on=True, facts=(r"shop-front",), clue=""),
            Do(command="pwd", goes_on=True, facts=(r"packages/web",), clue=""),
        ),
    ),
    Task(
        name="history",
        goal="The host was closed yesterday: what was run, and what failed?",
        files={"migrate.sh": "#!/bin/bash\necho migrating\nexit 3\n"},
        steps=(
            Do(command="./migrate.sh --to 42", facts=(r"migrating",), clue=""),
            Do(command="ls", clue=""),
            Restart(is_new=True),
            Recall(facts=(r"migrate\.sh --to 42",)),
        ),
    ),
)
