"""Who lives below a POSIX session, told from /proc: real processes."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Collection, Iterator

import pytest

from outlive.kernel.callers import Ancestry
from tests.attacks.attacking import NOBODY, needs_second_user

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
    return Ancestry(lambda asked: set(sessions) & set(asked), of=os.getpid())


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

    kinship = Ancestry(note, of=os.getpid())
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
    kinship = Ancestry(known.intersection, of=os.getpid())
    with _below(3, apart=True) as (leader, pid):
        assert kinship.judge(pid).is_inside is False
        known.add(leader)
        kinship.forget_all()
        assert kinship.judge(pid).is_inside is True


# As a shim does: it takes its command's name, and starts it.
_SHIM = """
import ctypes, os, sys
os.setuid(int(sys.argv[2]))
take_name = lambda name: ctypes.CDLL(None).prctl(15, name, 0, 0, 0)  # PR_SET_NAME
take_name(sys.argv[1].encode())
if (child := os.fork()) == 0:
    os.setsid()
    take_name(b"sh")
    print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.mark.promise("A.inside", "A.inside.own")
def test_below_a_shim_of_any_keeper_a_process_is_inside_for_whoever_is_not_below_it_too() -> None:
    for name, command in (("outlive:v2fzez", "v2fzez"), ("outlive-shim", ""), ("outlive-copier", "")):
        words = [sys.executable, "-c", _SHIM, name, str(os.getuid())]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shim:
            assert shim.stdout is not None
            pid = int(shim.stdout.readline())
            verdict = _of().judge(pid)
            assert (verdict.is_inside, verdict.is_ours, verdict.command) == (bool(command), False, command)
            for enclosed in (pid, shim.pid):
                beside = Ancestry(lambda _sessions: (), of=enclosed)
                assert beside.judge(pid).is_inside is False
                assert beside.commands == ({command} - {""} if enclosed == pid else set())
            shim.communicate()


@needs_second_user
@pytest.mark.promise("A.inside")
def test_a_shim_of_another_users_keeper_encloses_nobody_here() -> None:
    words = [sys.executable, "-c", _SHIM, "outlive:v2fzez", str(NOBODY)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shim:
        assert shim.stdout is not None
        assert _of().judge(int(shim.stdout.readline())).is_inside is False
        shim.communicate()


def test_of_a_process_that_is_gone_or_of_another_namespace_nothing_is_said() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for pid in (ended.pid, 0, -1):
        assert _of().judge(pid).is_inside is None
