"""Bounds: of the output that is kept, of processor time and open files."""

import functools
import signal

import pytest

from outlive.client import Gap, Output
from tests.contract.places import Asker
from tests.extensions.docker.tools import PYTHON
from tests.extensions.fleet.pairs import PATIENCE_S, wait_until


@functools.cache
def _whole() -> bytes:
    """Return what the command writes; made at the first call: every worker of every run imports this file."""
    return b"".join(b"%d\n" % i for i in range(1, 400_001))


def test_truncate_keeps_head_and_tail(asker: Asker) -> None:
    """What was released is told as a gap; offsets stay true."""
    process = asker.start("seq 1 400000", output_limit=200_000)
    info = process.wait(PATIENCE_S)
    assert (info.exit_code, info.cursor.stdout) == (0, len(_whole()))
    position = missing = 0
    for item in process.follow():
        if isinstance(item, Output):
            assert _whole()[position : position + len(item.data)] == item.data
        else:
            assert isinstance(item, Gap)
            missing += item.end - item.start
        position = item.cursor.stdout
    assert position == len(_whole())
    assert missing > 1_000_000
    assert process.info().has_gaps


def test_kill_ends_who_writes_too_much(asker: Asker) -> None:
    """The cause is named."""
    process = asker.start("yes", output_limit=300_000, on_limit="kill", grace_s=0.2)
    info = process.wait(PATIENCE_S)
    assert info.cause == "output_limit"
    assert info.exit_code is None
    assert info.cursor.stdout >= 300_000


def test_block_waits_for_the_reader(asker: Asker) -> None:
    """Until what was delivered is released."""
    line = "yes 0123456789 | head -c 3000000; echo >&2 done"
    process = asker.start(line, on_limit="block", output_limit=1_000_000)
    total = 0
    for item in process.follow():
        assert isinstance(item, Output)
        total += len(item.data)
        process.release(item.cursor)
    assert total == 3_000_005
    assert process.wait(PATIENCE_S).exit_code == 0


def test_block_holds_the_process_while_nobody_releases(asker: Asker) -> None:
    """It neither ends nor loses anything."""
    process = asker.start("seq 1 400000; exit 2", on_limit="block", output_limit=500_000)
    wait_until(lambda: process.info().cursor.stdout >= 400_000)
    assert not process.wait(0.3).is_complete
    process.release(process.info().cursor, unbound=True)
    info = process.wait(PATIENCE_S)
    assert (info.exit_code, info.cursor.stdout) == (2, len(_whole()))


@pytest.mark.thorough
def test_processor_time_is_bounded(asker: Asker) -> None:
    """`limits.cpu`: seconds, then SIGXCPU or SIGKILL."""
    info = asker.start("while :; do :; done", limits={"cpu": 1}).wait(PATIENCE_S)
    assert info.exit_signal in {signal.SIGXCPU, signal.SIGKILL}


def test_open_files_are_bounded(asker: Asker) -> None:
    """`limits.files`."""
    line = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    process = asker.start([PYTHON, "-I", "-S", "-c", line], limits={"files": 77})
    process.wait(PATIENCE_S)
    assert [item.data for item in process.read("0").items if isinstance(item, Output)] == [b"(77, 77)\n"]


@pytest.mark.parametrize("name", ["cpu", "files"])
def test_a_limit_shows_in_nothing_that_was_started_without(asker: Asker, name: str) -> None:
    """The next command is bounded by nothing of it."""
    asker.start("true", limits={name: 50}).wait(PATIENCE_S)
    flag = {"cpu": "-t", "files": "-n"}[name]
    process = asker.start(f"ulimit {flag}")
    process.wait(PATIENCE_S)
    assert [item.data for item in process.read("0").items if isinstance(item, Output)] != [b"50\n"]
