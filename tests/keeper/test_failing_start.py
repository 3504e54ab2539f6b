"""A supervisor that cannot start, for a reason that stays: tried ever more seldom, and told at the doors."""

import os
from pathlib import Path

import pytest

from outlive.core.errors import BackendUnavailable
from outlive.core.layout import Layout
from outlive.kernel.locks import failure_of, note_failure, take_lock
from tests.keeper.client import until
from tests.keeper.house import House, sh
from tests.support.processes import wait_state_folder_empty
from tests.support.server import run_outlive


def test_what_waits_for_it_is_told_why_and_it_starts_once_that_is_mended(tmp_path: Path) -> None:
    house = House(tmp_path / "state")
    house.state_dir.mkdir(mode=0o700)
    with house:
        house.run(*sh("exit 3"))
        house.end()
        assert not wait_state_folder_empty(house.state_dir)
        processes = Path(house.layout.processes)
        processes.rename(tmp_path / "aside")
        processes.touch()  # a file, where the folder of the processes has to be
        with pytest.raises(BackendUnavailable, match="cannot start: FileExistsError") as refused:
            house.ensure()
        assert house.layout.keeper_log in refused.value.hint
        assert "the supervisor cannot start: FileExistsError" in house.log()
        for count, rest_s in ((1, 3), (2, 6)):
            line = f"no supervisor can start, {count} in a row: the next in {rest_s} s"
            until(lambda line=line: line in house.log(), line)  # type: ignore[misc] # a bound line
        processes.unlink()
        (tmp_path / "aside").rename(processes)
        until(house.is_served, "the next supervisor")
        assert failure_of(house.layout.supervisor_lock) is None
        house.client.close()
        house.client.connect()
        assert house.run(*sh("exit 9"))[0] == 9


def test_a_verb_says_why_the_keeper_cannot_start(tmp_path: Path) -> None:
    house = House(tmp_path / "state")
    with house:
        house.end()
        assert not wait_state_folder_empty(house.state_dir)
        Path(house.layout.processes).rename(tmp_path / "aside")
        Path(house.layout.processes).touch()
        told = run_outlive("run", "--", "true", state_dir=house.state_dir)
        assert told.returncode == 125
        assert "cannot start: FileExistsError" in told.stderr
        Path(house.layout.processes).unlink()
        until(house.is_served, "the next supervisor")


def test_a_failure_counts_until_the_lock_is_taken(tmp_path: Path) -> None:
    path = Layout(str(tmp_path)).supervisor_lock
    assert failure_of(path) is None
    lock = take_lock(path)
    assert lock is not None
    note_failure(lock, "no room " + "x" * 1000)
    assert failure_of(path) is None, "it is held"
    os.close(lock)
    found = failure_of(path)
    assert found is not None
    assert found[0] == str(os.getpid())
    assert found[1].startswith("no room x")
    lock = take_lock(path, unless_retired=True)
    assert lock is not None
    os.close(lock)
    assert failure_of(path) is None
