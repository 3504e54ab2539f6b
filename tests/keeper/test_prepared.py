"""Folders made ahead: how many are kept ready."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.keeper.loop import Loop
from outlive.keeper.prepared import PreparedFolder, PreparedFolders

_BURST = 60
_PATIENCE_S = 20.0


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


def test_after_a_burst_as_many_are_kept_ready_as_it_took_and_no_more(house: _House) -> None:
    """Ends in between make some anew, so that a burst may never find the shelf empty, and still make many in it."""
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
