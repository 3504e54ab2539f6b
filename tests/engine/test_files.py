"""Attacks on what callers share at the server: threads, and places."""

import asyncio
import contextlib
import errno
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from outlive.core.errors import InvalidState
from outlive.core.events import AuditEvent
from outlive.core.process import Owner
from outlive.engine.files import OpenFiles
from outlive.files import root as root_module
from outlive.files.denied import DeniedPaths
from outlive.files.root import FileRoot
from outlive.operations.files import FileClose, FileDrop, FileLook, FileOpen, FileWrite


class Permissive:
    """The callers, lists and nodes that files ask about: all may, and there are none."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.judged: list[str] = []

    async def check_copy(self, path: str, *_: object, **__: object) -> None:
        """Let it pass."""
        self.judged.append(path)

    def states(self) -> dict[str, object]:
        """Return no nodes."""
        return {}

    def publish(self, event: AuditEvent) -> None:
        """Remember what it was."""
        self.heard.append(event.what)


def _files(folder: Path, passes: Any) -> OpenFiles:  # noqa: ANN401 -- it stands for four things
    settings: Any = SimpleNamespace(
        state_dir=str(folder / "state"),
        own_files=(),
        environment={"HOME": str(folder)},
        containers=None,
        remote_files=None,
    )
    return OpenFiles(settings, passes, lookup=passes, lines=passes, events=passes)


def _by(principal: str) -> Owner:
    return Owner(principal=principal, connection_id="c")


@pytest.mark.promise("S0.19.copy_callers")
async def test_a_path_is_judged_as_it_was_asked_for_and_as_what_it_leads_to(tmp_path: Path) -> None:
    """A pattern of the lists has no slash at the end of the home folder."""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    passes = Permissive()
    files = _files(tmp_path, passes)
    try:
        for path in ("", "there", "link"):
            await files.open(_by("a"), FileOpen(path=path))
    finally:
        await files.close()
    assert passes.judged == [str(tmp_path / name) for name in ("", "there", "link", "there")]


class StandingDisk:
    """Looks that stand still until they may go on, below one folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.goes_on, self.begun = threading.Event(), threading.Event()
        look = FileRoot.look

        def stand(root: FileRoot, name: str = "") -> Mapping[str, Any]:
            if name == "f" and root.path == str(folder):
                self.begun.set()
                self.goes_on.wait(60)
            return look(root, name)

        monkeypatch.setattr("outlive.files.root._METHODS", {**root_module._METHODS, "file_look": stand})


@pytest.mark.promise("S0.19.copy_bounds")
async def test_a_principal_whose_disk_stands_still_takes_no_thread_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow").mkdir()
    disk, files = StandingDisk(tmp_path / "slow", monkeypatch), _files(tmp_path, Permissive())
    try:
        slow = (await files.open(_by("a"), FileOpen(path=f"{tmp_path}/slow")))["copy"]
        before = threading.active_count()
        for _ in range(2):  # a caller that goes away ends no thread, so that it gets none back
            stuck = [
                asyncio.create_task(files.ask(_by("a"), FileLook(copy=slow, name="f"))) for _ in range(20)
            ]
            await _until(disk.begun.is_set)
            async with asyncio.timeout(10):
                await files.open(_by("b"), FileOpen(path=str(tmp_path)))
            for one in stuck:
                one.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
        assert threading.active_count() <= before + 3
        more = asyncio.create_task(files.ask(_by("a"), FileLook(copy=slow)))
        disk.goes_on.set()
        async with asyncio.timeout(10):
            await more
    finally:
        disk.goes_on.set()
        await files.close()


@pytest.mark.promise("S0.19.copy_bounds")
async def test_a_principals_threads_end_with_what_it_has_open(tmp_path: Path) -> None:
    files = _files(tmp_path, Permissive())

    def threads() -> int:
        return sum(one.name.startswith("files") for one in threading.enumerate())

    try:
        opened = [await files.open(_by(name), FileOpen(path=str(tmp_path))) for name in "ab"]
        assert threads() >= 2
        for name, one in zip("ab", opened, strict=True):
            await files.end(_by(name), FileClose(copy=one["copy"]))
        await _until(lambda: not threads())
    finally:
        await files.close()


@pytest.mark.promise("S0.19.copy_bounds")
async def test_what_stands_still_is_not_waited_for_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, files = StandingDisk(tmp_path, monkeypatch), _files(tmp_path, Permissive())
    copy = (await files.open(_by("a"), FileOpen(path=str(tmp_path))))["copy"]
    stuck = asyncio.create_task(files.ask(_by("a"), FileLook(copy=copy, name="f")))
    await _until(disk.begun.is_set)
    async with asyncio.timeout(10):
        await files.close()
    assert not stuck.done()
    disk.goes_on.set()
    with contextlib.suppress(asyncio.CancelledError, InvalidState):
        await stuck


@pytest.mark.promise("S0.19.copy_bounds")
async def test_pieces_that_come_out_of_order_wait_for_those_before_them_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is woken by the one before it, and none by looking again."""
    monkeypatch.setattr("outlive.engine.files._LOOK_AGAIN_S", 60.0)
    files, key = _files(tmp_path, Permissive()), "0123456789abcdef"
    pieces = {offset: bytes([offset]) for offset in (3, 5, 1, 0, 4, 2, 7, 6)}
    try:
        copy = (await files.open(_by("a"), FileOpen(path=f"{tmp_path}/f", write=True)))["copy"]
        for _ in range(20):
            writes = [
                files.ask(_by("a"), FileWrite(copy=copy, key=key, offset=offset), data)
                for offset, data in pieces.items()
            ]
            async with asyncio.timeout(10):
                await asyncio.gather(*writes)
            part = tmp_path / f".f.{key}.outlive-part"
            assert part.read_bytes() == bytes(range(8))
            await files.ask(_by("a"), FileDrop(copy=copy, key=key))
    finally:
        await files.close()


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
        return FileRoot(os.fsencode(tmp_path), DeniedPaths(), writes=False)

    monkeypatch.setattr("outlive.engine.files.OpenFiles._root_of", slowly)
    files, asked = _files(tmp_path, passes), FileOpen(path=str(tmp_path))
    by = Owner(principal="token:1", connection_id="c")
    try:
        opening = asyncio.create_task(files.open(by, asked))
        await _until(begun.is_set)
        before = _descriptors()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        goes_on.set()
        await _until(ended.is_set)
        await _until(lambda: _descriptors() <= before)
        monkeypatch.undo()
        await files.open(by, asked)
        assert _descriptors() > before  # it counts at all
    finally:
        goes_on.set()
        await files.close()


@pytest.mark.promise("S0.19.copy_bounds")
def test_what_is_opened_halfway_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> list[str]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("outlive.files.root.folders_around", fails)
    before = _descriptors()
    with pytest.raises(InvalidState) as refusal:
        FileRoot(os.fsencode(tmp_path), DeniedPaths(), writes=True)
    assert (refusal.value.code, _descriptors()) == ("file_failed", before)


@pytest.mark.promise("S0.19.copy_bounds")
async def test_a_copy_that_has_rested_is_closed_though_no_other_one_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlive.engine.files._RESTED_S", 0.5)
    passes = Permissive()
    files, asked = _files(tmp_path, passes), FileOpen(path=str(tmp_path))
    by = Owner(principal="token:1", connection_id="c")
    try:
        await files.open(by, asked)
        used = (await files.open(by, asked))["copy"]
        before = _descriptors()
        look = FileLook(copy=used)

        async def use() -> None:
            while True:
                await files.ask(by, look)
                await asyncio.sleep(0.05)

        using = asyncio.create_task(use())
        await _until(lambda: passes.heard == ["copy", "copy", "copied"])
        await files.ask(by, look)
        assert _descriptors() <= before
        using.cancel()
        await _until(lambda: passes.heard == ["copy", "copy", "copied", "copied"])
        with pytest.raises(InvalidState) as refusal:
            await files.ask(by, look)
        assert refusal.value.code == "copy_unknown"
        await files.open(by, asked)
    finally:
        await files.close()
    # What was to close the last one later is let go of with it.
    await asyncio.sleep(0.6)
    assert passes.heard.count("copied") == 3


@pytest.mark.promise("S0.19.copy_bounds")
async def test_all_principals_together_keep_a_bound_and_the_greediest_pays(tmp_path: Path) -> None:
    files = _files(tmp_path, Permissive())
    asked = FileOpen(path=str(tmp_path))

    def owner(number: int) -> Owner:
        return Owner(principal=f"token:{number}", connection_id="c")

    async def live(number: int, names: list[str]) -> int:
        found = 0
        for name in names:
            with contextlib.suppress(InvalidState):
                await files.ask(owner(number), FileLook(copy=name))
                found += 1
        return found

    try:
        before = len(os.listdir("/proc/self/fd"))
        first = (await files.open(owner(0), asked))["copy"]
        names: dict[int, list[str]] = {}
        for number in range(1, 6):
            opening = [files.open(owner(number), asked) for _ in range(60)]
            names[number] = [one["copy"] for one in await asyncio.gather(*opening)]
        assert len(os.listdir("/proc/self/fd")) - before <= 256
        assert await live(0, [first]) == 1  # one that asks for little loses nothing
        assert 1 + sum([await live(number, names[number]) for number in names]) == 256
    finally:
        await files.close()
    assert len(os.listdir("/proc/self/fd")) <= before
