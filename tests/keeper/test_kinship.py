"""Who lives below a POSIX session, told from /proc: real processes."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Collection, Iterator

import pytest

from outlive.keeper.common.callers import Ancestry

# Prints the pid of a process that is N generations below a leader of a POSIX session, and waits there.
_BELOW = """
import os, sys, time
def fall(depth):
    if depth and os.fork():
        os.wait()
        os._exit(0)
    if depth:
        if depth == 1 and sys.argv[2] == "apart":
            os.setsid()
        fall(depth - 1)
    print(os.getpid(), flush=True)
    sys.stdin.read()
    os._exit(0)
fall(int(sys.argv[1]))
"""


@contextlib.contextmanager
def _below(depth: int, *, apart: bool = False) -> Iterator[tuple[int, int]]:
    """Yield a session's leader and a process below it, which made a session of its own if `apart`."""
    words = [sys.executable, "-c", _BELOW, str(depth), "apart" if apart else "together"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as leader:
        assert leader.stdout is not None
        yield leader.pid, int(leader.stdout.readline())
        leader.communicate()


def _of(*sessions: int) -> Ancestry:
    return Ancestry(lambda asked: set(sessions) & set(asked))


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("depth", [1, 3])
def test_a_descendant_is_inside_whatever_session_it_made(depth: int, apart: bool) -> None:
    with _below(depth, apart=apart) as (leader, pid):
        assert _of(leader).judge(pid).is_inside is True
        assert _of(leader).judge(leader).is_inside is True
        assert _of(leader).judge(os.getpid()).is_inside is False


def test_who_is_outside_is_remembered_and_nobody_above_is_asked_about_again() -> None:
    asked: list[Collection[int]] = []

    def note(sessions: Collection[int]) -> Collection[int]:
        asked.append(sessions)
        return ()

    kinship = Ancestry(note)
    with _below(2) as (leader, pid):
        assert not kinship.judge(pid).is_known
        assert kinship.judge(pid).is_known
        assert not kinship.judge(leader).is_known  # its environment has not been read
        assert kinship.judge(leader).is_known
        assert len(asked) == 1
        kinship.forget(pid)
        assert not kinship.judge(pid).is_known


def test_once_a_session_is_known_to_be_the_keepers_who_was_outside_is_judged_anew() -> None:
    known: set[int] = set()
    kinship = Ancestry(known.intersection)
    with _below(3, apart=True) as (leader, pid):
        assert kinship.judge(pid).is_inside is False
        known.add(leader)
        kinship.forget_all()
        assert kinship.judge(pid).is_inside is True


def test_of_a_process_that_is_gone_or_of_another_namespace_nothing_is_said() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for pid in (ended.pid, 0, -1):
        assert _of().judge(pid).is_inside is None
