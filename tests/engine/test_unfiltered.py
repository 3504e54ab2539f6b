"""What a final filter hides, kept beside the line: that the line itself notices nothing, and what is kept of
it.
"""

import asyncio
import random
import re
from collections.abc import AsyncIterator

import pytest

from outlive.core.command import Command
from outlive.engine import Engine, Process
from outlive.engine.commands.unfiltered import unfiltered_of
from tests.engine.engines import ME, an_engine, output_of
from tests.keeper.house import House, shim_program

_WRITERS = (
    "seq 5",
    "seq 100000",
    "seq 100000 2>&1",
    "printf 'a\\nb'",
    "true",
    "false",
    "sh -c 'seq 20; exit 3'",
    "sh -c 'echo e >&2; exit 1' 2>&1",
    "sh -c 'echo e >&2; exit 1'",
    "sh -c 'kill -9 $$'",
    "sh -c 'kill -SEGV $$'",
    "no-such-program",
    "cat /no/such/file",
    "head -c 300000 /dev/zero",
    "sh -c 'seq 3; sleep 0.05; seq 3'",
    "env -i A=1 env",
    "cd /usr",
    "readlink /proc/self/fd/0",
    "sh -c 'cat; echo 1'",
)
_FILTERS = (
    "tail",
    "tail -1",
    "tail -n 2",
    "tail -n +3",
    "tail -c 7",
    "tail -f",
    "head -1",
    "head -n 2",
    "head -c 3",
    "head -n -2",
    "grep 1",
    "grep -q 1",
    "grep -c 9",
    "grep -m2 1",
    "grep -l 1",
    "grep nope",
    "grep -vn 1",
    "grep '^9*$'",
    "grep -A2 7",
    "egrep 'a|b'",
    "fgrep -e 1",
    "grep",
    "grep '['",
)
_FORMS = (
    "{a} | {f}",
    "{a}|{f};",
    "set -o pipefail; {a} | {f}",
    "set -euo pipefail; {a} | {f}",
    "set -e; {a} | {f}",
    "set -x; {a} | {f}",
    "cd / && {a} | {f}",
    "cd /nowhere && {a} | {f}",
    "false || {a} | {f}",
    "{a} | cat | {f}",
    "{a} | {f} 2>&1",
    "echo hi; true | true; {a} | {f}",
    "sleep 0.01 & {a} | {f}",
    "set -m; {a} | {f}",
    "shopt -s lastpipe; {a} | {f}",
    "PATH=$PATH:/nowhere; {a} | {f}",
    "TZ=UTC {a} | {f}",
)
# What has to be left alone, or to be seen through.
_LINES = (
    "yes | head -1",
    "set -v; seq 3 | tail -1",
    "cd /nowhere || exit 4; seq 3 | tail -1",
    "export -p | grep -c declare",
    "export A=b && env | grep ^A=",
    "readonly A && seq 3 | tail -1",
    "exec 3>&1; sh -c 'seq 3; echo x >&3' | tail -1",
    "exec 0</dev/null; cat | tail -1",
    "set -u -o posix; seq 3 | tail -1",
    "yes | grep -m1 y",
    "set -o pipefail; yes | head -3",
    "set -o pipefail; yes | grep -q y",
    "seq 1 1000000000 | grep -m5 1",
    "set -o pipefail; seq 17000 | head -1",
    "set -o pipefail; sh -c 'exec seq 16000' | head -1",
    "seq 5 | tail -1 && echo ok",
    "seq 5 | grep -q 3 && echo yes || echo no",
    "seq 5 | tail -1; echo ${PIPESTATUS[@]} $?",
    "false | tail -1; echo ${PIPESTATUS[*]}",
    "(echo a; exit 4) | tail -1",
    "(seq 3; false) 2>&1 | tail -1; exit 3",
    "seq 5 | (head -1; cat)",
    "seq 5 | { head -1; tail -1; }",
    "seq 5 |& tail -2",
    "cat <<X | tail -1\na\nb\nX",
    "seq 3 | tail -1\nseq 4 | tail -1",
    "for i in 1 2 3; do seq $i | tail -1; done | tail -2",
    "seq 9 | tail -3 | tail -1",
    "seq 9 | head -3 | tail -1",
    "tail -1 /etc/passwd | tail -1",
    "echo a | grep a; echo b | grep b",
    "seq 3 | tail -1 # a comment",
    'echo "a | tail -1"',
    "echo 'x' | grep 'a | tail -1'",
    "seq 5 | \\tail -1",
    "seq 5 | 'tail' -1",
    "seq 5 | command tail -1",
    "seq 5 | /usr/bin/tail -1",
    "trap 'echo bye' EXIT; seq 3 | tail -1",
    "trap 'echo err' ERR; false | grep x",
    "trap; seq 3 | tail -1",
    "trap 'echo debug' DEBUG; seq 3 | tail -1",
    "type tail; seq 3 | tail -1",
    "hash; seq 3 | tail -1",
    "tail() { echo mine; }; seq 3 | tail -1",
    "env | grep -c OUTLIVE_FILTER",
    "env | grep BASH",
    "export -p | grep -c FILTER",
    "declare -p | grep -c -e __outlive -e OUTLIVE_FILTER",
    "set | grep -c __outlive",
    "bash -c 'trap; hash; echo $-' | tail -3",
    "echo $$ $LINENO $- $SHLVL $# | tail -1 | tr -d 0-9",
    "echo $? $- $# $LINENO | tail -1",
    "echo $BASH_EXECUTION_STRING | tail -1",
    "ls /proc/self/fd | tail -9",
    "sh -c 'ls /proc/self/fd' | tail -9",
    "seq 3 | tail -1 >/dev/null",
    "seq 3 | tail -1 2>/dev/null",
    "exec 2>&1; no-such-program | tail -1",
    "exec >/dev/null; seq 3 | tail -1",
    "seq 3 | tail -1 </dev/null",
    "kill -TERM $$ | tail -1",
    "sh -c 'sleep 0.1; kill -TERM $PPID; sleep 0.1' | tail -1",
    "sh -c 'sleep 0.1; kill -INT $PPID; sleep 0.1' | tail -1",
    "sh -c 'sleep 0.1; kill -HUP $PPID; sleep 0.1' | tail -1",
    "sh -c 'sleep 0.1; kill -PIPE $PPID; sleep 0.1' | tail -1",
    "sh -c 'sleep 0.1; kill -USR1 $PPID; sleep 0.1' | tail -1",
    "sh -c 'sleep 0.1; kill -QUIT $PPID; sleep 0.1' | tail -1",
    "seq 3 | tail -1 & wait",
    "ulimit -n 20; seq 3 | tail -1",
    "ulimit -f 0; seq 3 | tail -1",
    "umask 777; seq 3 | tail -1",
    "cd /tmp; seq 3 | tail -1; pwd",
    "sleep 0.2 | tail -1",
    "sleep 0.1 | head -1",
    "sh -c 'sleep 0.3 & echo a' | tail -1",
    "printf '\\0\\377x' | tail -c 2",
    "if seq 3 | grep -q 2; then echo found; fi",
    "seq 3 | if true; then tail -1; fi",
    "eval 'seq 3 | tail -1'",
    "echo $(seq 3 | tail -1) | tail -1",
    "x=1; seq 3 | grep $x",
    'seq 3 | grep "$HOME"',
    "seq 3 | tail -$nothing",
)


def _lines(count: int) -> list[str]:
    """Return the lines above, and as many of all combinations as make up `count`: the same ones every
    time.
    """
    chosen = random.Random(21)
    made: list[str] = []
    while len(made) < count - len(_LINES):
        writer, kept, form = chosen.choice(_WRITERS), chosen.choice(_FILTERS), chosen.choice(_FORMS)
        made.append(form.format(a=writer, f=kept))
    return [*_LINES, *made]


@pytest.fixture
async def keeping(shared_house: House) -> AsyncIterator[Engine]:
    """An engine that has the native program."""
    async with an_engine(shared_house.state_dir, runner=shim_program()) as opened:
        yield opened


async def _run(engine: Engine, line: str, **options: object) -> Process:
    command = Command(line=line, keeps_unfiltered=True, **options)  # type: ignore[arg-type] # options by name
    process = await engine.starts.start(command, owner=ME)
    async with asyncio.timeout(30):
        await engine.queries.wait(process)
    return process


_Seen = tuple[int | None, int | None, bytes, bytes]


def _comparable(line: str, code: int | None, number: int | None, output: tuple[bytes, bytes]) -> _Seen:
    # Stages write their errors in any order (a trace even in the middle of another one's line), and bash
    # names pids.
    errors = re.sub(rb"\d{3,}", b"N", output[1])
    return (
        code,
        number,
        output[0],
        bytes(sorted(errors)) if "set -x" in line else b"\n".join(sorted(errors.splitlines())),
    )


async def _plainly(engine: Engine, line: str) -> _Seen:
    process = await engine.starts.start(Command(line=line), owner=ME)
    async with asyncio.timeout(30):
        await engine.queries.wait(process)
    record = process.record
    return _comparable(line, record.exit_code, record.exit_signal, await output_of(process))


async def _beside(engine: Engine, line: str) -> tuple[_Seen, bool]:
    process = await _run(engine, line)
    record = process.record
    assert record.command == line
    assert record.descendants == 0 or "sleep" in line or "kill" in line or "&" in line, line
    seen = _comparable(line, record.exit_code, record.exit_signal, await output_of(process))
    kept = await unfiltered_of(process)
    return seen, kept is not None and kept.size is not None


@pytest.mark.thorough
async def test_a_line_does_not_notice_what_is_kept_beside_it(keeping: Engine) -> None:
    """Bytes of both streams and the end, compared with a run without it: over two hundred lines."""
    kept = 0
    different = []
    for line in _lines(280):
        (plain, (beside, is_kept)) = await asyncio.gather(_plainly(keeping, line), _beside(keeping, line))
        kept += is_kept
        if plain != beside:
            different.append((line, plain, beside))
    assert not different, chr(10).join(map(repr, different))
    assert kept >= 120
