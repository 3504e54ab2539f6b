"""Which process holds a socket, found a little in each turn of the loop, on real sockets and processes."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlive.server.access.peers import Holders, is_held_by

_HOLDER = """
import os, socket, sys
ours = [socket.socket() for _ in range(100)]
print(os.fstat(ours[0].fileno()).st_ino, os.fstat(ours[-1].fileno()).st_ino, flush=True)
sys.stdin.read()
"""
_NOBODYS = 0xFFFF_FFFF  # the kernel counts from below


def _inode(one: socket.socket) -> int:
    return os.fstat(one.fileno()).st_ino


@contextlib.contextmanager
def _another_process() -> Iterator[tuple[int, int, int]]:
    """Yield a process, and the inodes of the first and the last of its hundred sockets."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        first, last = map(int, process.stdout.readline().split())
        try:
            yield process.pid, first, last
        finally:
            process.kill()


@pytest.mark.parametrize("each_turn", [1, 3, 100_000])
async def test_the_holder_is_found_whoever_is_likely(each_turn: int) -> None:
    with socket.socket() as ours, _another_process() as (pid, first, last):
        for inode, holder in ((_inode(ours), os.getpid()), (first, pid), (last, pid)):
            for likely in ([], [1, os.getpid()], [pid], [0, -1, 1 << 30]):
                async with asyncio.timeout(20):
                    assert await Holders(each_turn=each_turn).find(inode, likely) == holder
        assert is_held_by(first, pid)
        assert not is_held_by(last, pid)  # behind the first sixty-four
        assert not is_held_by(first, os.getpid())


@pytest.mark.parametrize("each_turn", [7, 100_000])
async def test_a_socket_that_nobody_to_be_seen_holds_has_no_process(each_turn: int) -> None:
    async with asyncio.timeout(20):
        assert await Holders(each_turn=each_turn).find(_NOBODYS, [os.getpid(), 0]) is None


async def test_the_loop_turns_while_a_search_goes_on() -> None:
    search = asyncio.create_task(Holders(each_turn=1).find(_NOBODYS, [os.getpid()]))
    turns = 0
    async with asyncio.timeout(20):
        while not search.done():
            await asyncio.sleep(0)
            turns += 1
    assert turns > 20  # there are more descriptors on every machine


@pytest.mark.parametrize("is_passed", [False, True])
async def test_all_who_ask_meanwhile_are_answered_by_the_same_walk(is_passed: bool) -> None:
    """Thirty connections of a client at once must not cost thirty walks through /proc.

    Nor two: whether the walk has still to come to them, or has passed them before they asked.
    """
    walks = 0
    listdir = os.listdir

    def counted(path: str) -> list[str]:
        nonlocal walks
        walks += path == "/proc"
        return listdir(path)

    holders = Holders(each_turn=1)
    with contextlib.ExitStack() as stack:
        ours = [stack.enter_context(socket.socket()) for _ in range(30)]
        patch = pytest.MonkeyPatch()
        stack.callback(patch.undo)
        patch.setattr(os, "listdir", counted)
        first = asyncio.create_task(holders.find(_NOBODYS, [os.getpid()] if is_passed else []))
        await asyncio.sleep(0)
        for _ in range(is_passed * 2 * len(os.listdir("/proc/self/fd"))):
            await asyncio.sleep(0)
        others = [asyncio.create_task(holders.find(_inode(one), [])) for one in ours]
        async with asyncio.timeout(20):
            assert await first is None
            assert await asyncio.gather(*others) == [os.getpid()] * len(ours)
    assert walks == 1


@pytest.mark.thorough
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["ours", "nobody's", "turn", "give up"]), st.integers(0, 4)), max_size=25
    ),
    each_turn=st.integers(1, 300),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_everybody_gets_the_right_answer_whoever_asks_and_gives_up_when(
    steps: list[tuple[str, int]], each_turn: int
) -> None:
    async def walk() -> None:
        holders = Holders(each_turn=each_turn)
        asked: list[tuple[asyncio.Task[int | None], int | None]] = []
        with contextlib.ExitStack() as stack:
            ours = [stack.enter_context(socket.socket()) for _ in range(5)]
            for step, number in steps:
                match step:
                    case "ours":
                        search = holders.find(_inode(ours[number]), [os.getpid()] * (number % 2))
                        asked.append((asyncio.create_task(search), os.getpid()))
                    case "nobody's":
                        asked.append((asyncio.create_task(holders.find(_NOBODYS + number, [])), None))
                    case "give up" if asked:
                        asked[number % len(asked)][0].cancel()
                    case _:
                        await asyncio.sleep(0)
            async with asyncio.timeout(30):
                await asyncio.wait([task for task, _ in asked] or [asyncio.create_task(asyncio.sleep(0))])
                await holders.find(_NOBODYS, [])  # nobody is in its way who gave up
        for task, holder in asked:
            assert task.cancelled() or task.result() == holder

    asyncio.run(walk())
