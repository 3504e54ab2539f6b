"""Attacks on what copies share at the server: threads, memory of pieces that came early, and places."""

import asyncio
import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outlive.core.errors import InvalidState, LimitExceeded
from outlive.core.events import AuditEvent
from outlive.core.file_words import PIECE_BYTES
from outlive.core.process import Owner
from outlive.engine.file_bounds import EarlyBytes, FileThreads
from outlive.engine.files import Copies
from outlive.files.root import FileRoot
from outlive.files.wall import Wall
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

    def __init__(self) -> None:
        self.heard: list[str] = []

    def publish(self, event: AuditEvent) -> None:
        """Remember what it was."""
        self.heard.append(event.what)


def _copies(folder: Path, passes: Any) -> Copies:  # noqa: ANN401 -- it stands for four things
    settings: Any = SimpleNamespace(
        state_dir=str(folder / "state"), own_files=(), environment={}, open_root=None
    )
    return Copies(settings, passes, lookup=passes, lines=passes, events=passes)


async def _until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not claim():  # noqa: ASYNC110 -- of descriptors and threads, which set no event of the loop
            await asyncio.sleep(0.01)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.promise("S0.19.copy_bounds")
@pytest.mark.parametrize("fails", [False, True])
async def test_what_an_abandoned_caller_has_opened_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """A thread that opens is not ended by that, and what it holds keeps a file system mounted."""
    passes, goes_on, begun = Permissive(), threading.Event(), threading.Event()
    ended = threading.Event()

    def slowly(*_: object, **__: object) -> FileRoot:
        begun.set()
        goes_on.wait(20)
        ended.set()
        if fails:
            raise InvalidState("file_failed", "It stood still for too long.")
        return FileRoot(os.fsencode(tmp_path), Wall(), writes=False)

    monkeypatch.setattr("outlive.engine.files._root_of", slowly)
    copies, asked = _copies(tmp_path, passes), FileOpen(path=str(tmp_path))
    by = Owner(principal="token:1", connection_id="c")
    try:
        opening = asyncio.create_task(copies.open(by, asked))
        await _until(begun.is_set)
        before = _descriptors()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        goes_on.set()
        await _until(ended.is_set)
        await _until(lambda: _descriptors() <= before)
        monkeypatch.undo()
        await copies.open(by, asked)
        assert _descriptors() > before  # it counts at all
    finally:
        goes_on.set()
        await copies.close()


@pytest.mark.promise("S0.19.copy_bounds")
def test_what_is_opened_halfway_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> list[str]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("outlive.files.root.folders_around", fails)
    before = _descriptors()
    with pytest.raises(InvalidState) as refusal:
        FileRoot(os.fsencode(tmp_path), Wall(), writes=True)
    assert (refusal.value.code, _descriptors()) == ("file_failed", before)


@pytest.mark.promise("S0.19.copy_bounds")
async def test_a_copy_that_has_rested_is_closed_though_no_other_one_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlive.engine.open_copies._RESTED_S", 0.5)
    passes = Permissive()
    copies, asked = _copies(tmp_path, passes), FileOpen(path=str(tmp_path))
    by = Owner(principal="token:1", connection_id="c")
    try:
        await copies.open(by, asked)
        used = (await copies.open(by, asked))["copy"]
        before = _descriptors()
        look = FileLook(copy=used)

        async def use() -> None:
            while True:
                await copies.ask(by, look)
                await asyncio.sleep(0.05)

        using = asyncio.create_task(use())
        await _until(lambda: passes.heard == ["copy", "copy", "copied"])
        await copies.ask(by, look)
        assert _descriptors() <= before
        using.cancel()
        await _until(lambda: passes.heard == ["copy", "copy", "copied", "copied"])
        with pytest.raises(InvalidState) as refusal:
            await copies.ask(by, look)
        assert refusal.value.code == "copy_unknown"
        await copies.open(by, asked)
    finally:
        await copies.close()
    # What was to close the last one later is let go of with it.
    await asyncio.sleep(0.6)
    assert passes.heard.count("copied") == 3


@pytest.mark.promise("S0.19.copy_bounds")
async def test_all_principals_together_keep_a_bound_and_the_greediest_pays(tmp_path: Path) -> None:
    copies = _copies(tmp_path, Permissive())
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
