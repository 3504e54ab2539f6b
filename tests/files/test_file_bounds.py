"""Attacks on what copies share at the server: threads, memory of pieces that came early, and places."""

import asyncio
import contextlib
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outlive.core.errors import InvalidState, LimitExceeded
from outlive.core.file_words import PIECE_BYTES
from outlive.core.process import Owner
from outlive.engine.commands.containers import ContainerSettings
from outlive.engine.file_bounds import EarlyBytes, FileThreads
from outlive.engine.files import Copies
from outlive.operations.files import FileLook, FileOpen


@pytest.mark.promise("S0.19.copy_bounds")
async def test_a_principal_whose_disk_stands_still_takes_no_thread_of_the_others() -> None:
    threads, stands = FileThreads(), threading.Event()
    try:
        stuck = [asyncio.create_task(threads.run("a", stands.wait)) for _ in range(20)]
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            assert await threads.run("b", lambda: "b") == "b"
        for one in stuck:  # a caller that goes away ends no thread, so that it gets none back
            one.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        more = [asyncio.create_task(threads.run("a", stands.wait)) for _ in range(20)]
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            assert await threads.run("b", lambda: "b") == "b"
        stands.set()
        async with asyncio.timeout(10):
            assert all(await asyncio.gather(*more))
    finally:
        stands.set()
        threads.close()


@pytest.mark.promise("S0.19.copy_bounds")
async def test_what_stands_still_is_not_waited_for_at_the_end() -> None:
    threads, stands, begun = FileThreads(), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        stands.wait(60)

    stuck = asyncio.create_task(threads.run("a", wait))
    await asyncio.to_thread(begun.wait, 10)
    before = time.monotonic()
    threads.close()
    assert time.monotonic() - before < 10
    assert not stuck.done()
    stands.set()
    with contextlib.suppress(asyncio.CancelledError):
        await stuck


@pytest.mark.promise("S0.19.copy_bounds")
def test_pieces_that_come_early_are_held_up_to_a_bound() -> None:
    early = EarlyBytes()
    with contextlib.ExitStack() as held:
        for copy in range(5):
            for _ in range(24):
                held.enter_context(early.held(str(copy), PIECE_BYTES))
            with pytest.raises(LimitExceeded) as refusal:
                held.enter_context(early.held(str(copy), 1))
            assert refusal.value.code == "copy_limit"
        for _ in range(8):
            held.enter_context(early.held("last", PIECE_BYTES))
        with pytest.raises(LimitExceeded):
            held.enter_context(early.held("other", 1))
    with early.held("other", 24 * PIECE_BYTES):
        pass


class Permissive:
    """What copies ask about callers, lists and nodes: all may, and there are none."""

    async def check_copy(self, *_: object, **__: object) -> None:
        """Let it pass."""

    async def check_led_to(self, *_: object, **__: object) -> None:
        """Let it pass."""

    def publish(self, _: object) -> None:
        """Tell nobody."""


@pytest.mark.promise("S0.19.copy_bounds")
async def test_all_principals_together_keep_a_bound_and_the_greediest_pays(tmp_path: Path) -> None:
    passes: Any = Permissive()
    settings: Any = SimpleNamespace(
        state_dir=str(tmp_path / "state"), own_files=(), environment={}, containers=ContainerSettings()
    )
    copies = Copies(settings, passes, lookup=passes, lines=passes, events=passes)
    asked = FileOpen(path=str(tmp_path))

    def owner(number: int) -> Owner:
        return Owner(principal=f"token:{number}", connection_id="c")

    async def live(number: int, names: list[str]) -> int:
        found = 0
        for name in names:
            with contextlib.suppress(InvalidState):
                await copies.ask(owner(number), FileLook(copy=name))
                found += 1
        return found

    try:
        before = len(os.listdir("/proc/self/fd"))
        first = (await copies.open(owner(0), asked))["copy"]
        names: dict[int, list[str]] = {}
        for number in range(1, 6):
            opening = [copies.open(owner(number), asked) for _ in range(60)]
            names[number] = [one["copy"] for one in await asyncio.gather(*opening)]
        assert len(os.listdir("/proc/self/fd")) - before <= 256
        assert await live(0, [first]) == 1  # one that asks for little loses nothing
        assert 1 + sum([await live(number, names[number]) for number in names]) == 256
    finally:
        await copies.close()
    assert len(os.listdir("/proc/self/fd")) <= before
