"""Folders made ahead: how many are kept ready."""

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.starts import prepared_folders as prepared
from outlive.keeper.supervisor.starts.prepared_folders import PreparedFolder, PreparedFolders

_BURST = 60
_PATIENCE_S = 60.0


class _House:
    """Prepared folders in a state folder of their own, with a loop that turns as long as the test wants."""

    def __init__(self, state_dir: Path) -> None:
        self.layout = Layout(str(state_dir))
        self.loop = Loop(print)
        self.folders = PreparedFolders(self.loop, self.layout)

    def ready(self) -> int:
        shelves = Path(self.layout.prepared).iterdir()
        return sum(len(os.listdir(shelf)) for shelf in shelves)

    def turn_until_ready(self, wanted: int) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while self.ready() < wanted:
            assert time.monotonic() < deadline, f"{self.ready()} of {wanted} folders"
            self.loop.turn()

    def use(self, folder: PreparedFolder) -> None:
        """Do with one what a start does: it is no longer on its shelf."""
        self.folders.give_back(folder)

    def turn_for(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self.loop.later(seconds, lambda: None)
        while time.monotonic() < deadline:
            self.loop.turn()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[_House]:
    """Prepared folders, none of which stays open."""
    house = _House(tmp_path)
    yield house
    while house.ready():
        house.use(house.folders.take())


def _shelves_of(house: _House, *, taken: int) -> list[int]:
    """Take so many folders; return how many came from each shelf, in turn."""
    folders = [house.folders.take() for _ in range(taken)]
    shelves = [os.path.dirname(folder.path) for folder in folders]
    for folder in folders:
        house.use(folder)
    return [len(list(group)) for _, group in itertools.groupby(shelves)]


def _make_slowly(path: str) -> PreparedFolder:
    time.sleep(0.001)
    return PreparedFolder(path)


def test_after_a_burst_as_many_are_kept_ready_as_it_took_and_no_more(house: _House) -> None:
    """Ends in between make some anew, so that a burst may never find the shelf empty, and still make many in
    it.
    """
    house.turn_until_ready(48)
    for number in range(_BURST):
        house.use(house.folders.take())
        if number % 2:
            house.folders.replace_one()
    house.turn_until_ready(_BURST)
    house.turn_for(0.1)
    assert house.ready() == _BURST


def test_a_start_finds_a_folder_though_none_is_ready(house: _House) -> None:
    """Whole, as one that was made ahead."""
    folder = house.folders.take()
    assert {"idx", "out", "sock", "spec"} <= set(os.listdir(folder.path))
    assert os.fstat(folder.out).st_size == os.fstat(folder.idx).st_size == 0
    house.use(folder)


def test_what_an_earlier_supervisor_left_is_cleared_even_if_it_had_the_same_pid(tmp_path: Path) -> None:
    """In a container each supervisor has the pid of the one before: its folders must not be in the way."""
    names = ["0", "1", "512"]
    left = [Path(Layout(str(tmp_path)).prepared, f"{os.getpid()}.{name}", "7") for name in names]
    for folder in left:
        folder.mkdir(parents=True)
        (folder / "out").touch()
    house = _House(tmp_path)
    house.use(house.folders.take())
    deadline = time.monotonic() + _PATIENCE_S
    while any(folder.parent.exists() for folder in left):
        assert time.monotonic() < deadline, [folder for folder in left if folder.exists()]
        house.loop.turn()
    while house.ready():
        house.use(house.folders.take())


def test_a_shelf_on_which_folders_are_slow_is_left_for_another_one(
    house: _House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Freed inodes nearby are what makes it slow; the next one is elsewhere on the disk.

    A slow disk has no shelf for each.
    """
    monkeypatch.setattr(prepared, "PreparedFolder", _make_slowly)
    assert _shelves_of(house, taken=20) == [8, 8, 4]


def test_a_shelf_holds_many_folders_and_goes_once_all_of_them_are_gone(
    house: _House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor that made it removes it when it leaves the next one, and does not wait for its
    successor.
    """
    monkeypatch.setattr(prepared, "_SHELF_FOLDERS", 5)
    monkeypatch.setattr(prepared, "_SLOW_S", 60.0)
    assert _shelves_of(house, taken=12) == [5, 5, 2]
    for _ in range(6):
        assert _shelves_of(house, taken=5) == [3, 2]
    assert len(os.listdir(house.layout.prepared)) == 2
