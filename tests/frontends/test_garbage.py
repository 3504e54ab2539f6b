"""Garbage that only a look finds goes in a quiet moment after work."""

import asyncio
import gc
import time
import weakref
from collections.abc import Iterator

import pytest

from outlive.server.http.http_server import Shared
from outlive.server.limiters import ConnectionLimiter


class _Knot:
    """Refers to itself; made in numbers that are worth a look."""

    def __init__(self) -> None:
        self.itself = self
        self.more = [[] for _ in range(2000)]  # type: ignore[var-annotated]


@pytest.fixture
def seldom() -> Iterator[None]:
    """Have the interpreter look for nothing by itself."""
    before = gc.get_threshold()
    gc.set_threshold(1_000_000, 1000, 1000)
    yield
    gc.set_threshold(*before)


def _tie() -> "weakref.ref[_Knot]":
    return weakref.ref(_Knot())


def _shared() -> Shared:
    return Shared(ConnectionLimiter(1, time.monotonic, asyncio.get_running_loop().call_soon))


async def _wait_for_end(knot: "weakref.ref[_Knot]", seconds: float) -> bool:
    until = time.monotonic() + seconds
    while knot() is not None and time.monotonic() < until:  # noqa: ASYNC110 -- no event tells
        await asyncio.sleep(0.01)
    return knot() is None


@pytest.mark.thorough
@pytest.mark.usefixtures("seldom")
async def test_garbage_goes_in_a_quiet_moment() -> None:
    shared = _shared()
    for _ in range(2):
        shared.note_work()
        assert await _wait_for_end(_tie(), 30)
    assert not await _wait_for_end(_tie(), 1), "nothing looks without work"


@pytest.mark.thorough
@pytest.mark.usefixtures("seldom")
async def test_nobody_looks_while_there_is_much_to_do() -> None:
    shared = _shared()
    for _ in range(5):
        if await _spares_garbage_of_a_busy_second(shared):
            return
    raise AssertionError("a machine that gives us a tenth of a core lets it look quiet: not five times")


async def _spares_garbage_of_a_busy_second(shared: Shared) -> bool:
    knot = _tie()
    shared.note_work()
    until = time.thread_time() + 1
    while time.thread_time() < until:  # noqa: ASYNC110 -- it is to be busy
        await asyncio.sleep(0)
    is_spared = knot() is not None
    assert await _wait_for_end(knot, 30)
    return is_spared
