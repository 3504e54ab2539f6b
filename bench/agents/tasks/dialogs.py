"""Tasks in which something asks, or waits for input."""

from bench.agents.steps import Do, Task

_QUESTION = """#!/bin/bash
echo "This will reset the database 'shop_dev'."
printf 'Continue? [y/N] '
read -r answer || { echo; echo "aborted: no answer"; exit 1; }
if [ "$answer" = y ]; then echo "database reset: 14 tables created"; else echo aborted; exit 1; fi
"""

_REPL = """#!/usr/bin/env python3
import sys, time
print("calc 1.2: type an expression, or quit")
while True:
    try:
        line = input("calc> ")
    except EOFError:
        break
    if line == "quit":
        break
    if line.startswith("slow"):
        time.sleep(@15@)
        print("=", 6 * 7)
    else:
        print("=", eval(line, {}))
print("bye")
"""

_STDIN = """#!/bin/bash
# Reads records from standard input, as sort and cat do when no file is named.
count=$(cat | wc -l)
echo "imported $count records"
"""

TASKS = (
    Task(
        name="question",
        goal="Reset the development database.",
        files={"reset-db.sh": _QUESTION},
        steps=(
            Do(
                command="./reset-db.sh",
                facts=(r"database reset: 14 tables created",),
                replies=((r"Continue\? \[y/N\]", "y"),),
                clue="",
            ),
        ),
    ),
    Task(
        name="repl",
        goal="In the calculator: what are 6*111 and slow(6, 7)?",
        files={"calc.py": _REPL},
        steps=(
            Do(
                command="./calc.py",
                kind="dialog",
                facts=(r"= 666$", r"= 42$", r"\bbye\b"),
                replies=((r"calc>", "6*111"), (r"= 666", "slow(6, 7)"), (r"= 42$", "quit")),
                clue="",
            ),
        ),
    ),
    Task(
        name="stdin",
        goal="Run the importer.",
        files={"import-records.sh": _STDIN},
        steps=(Do(command="./import-records.sh", facts=(r"imported 0 records",), clue=""),),
    ),
)
