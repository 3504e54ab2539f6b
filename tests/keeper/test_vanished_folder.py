"""A keeper whose state folder somebody deleted: it ends when nothing lives in it, and harms nobody who comes
after it.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.kernel.locks import has_ended
from tests.keeper.client import until
from tests.keeper.house import House, sh
from tests.support.processes import Gate, end, is_alive, of_state_folder

pytestmark = pytest.mark.thorough


def _others(house: House, *not_these: int) -> list[int]:
    return [pid for pid in of_state_folder(house.state_dir) if pid not in not_these]


def _delete(house: House) -> None:
    """Delete a state folder; moved away first, so that nothing is made in it meanwhile."""
    doomed = house.state_dir.with_name("doomed")
    os.rename(house.state_dir, doomed)
    shutil.rmtree(doomed)


def test_it_ends_when_nothing_lives_in_it_although_somebody_is_connected(own_house: House) -> None:
    own_house.run(*sh("true"))
    _delete(own_house)
    until(lambda: not of_state_folder(own_house.state_dir), "the keeper's end")


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
def test_it_lets_its_commands_come_to_their_own_end_first(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    """A deleted folder is nobody's wish to end a command; more output than a pipe holds must not block it."""
    result = tmp_path / "result"
    line = f"{gate.wait}; head -c 300000 /dev/zero; echo whole > {result}; exit 3"
    process_id = own_house.start(*sh(line))
    pid = own_house.pid(process_id)
    supervisor = own_house.supervisor()
    _delete(own_house)
    until(lambda: "deleted" in os.readlink(f"/proc/{supervisor}/fd/2"), "the log to be gone")
    assert own_house.client.ask("status")["processes"] == 1, "who is connected still can ask"
    assert is_alive(pid)
    gate.open()
    until(lambda: not of_state_folder(own_house.state_dir), "the keeper's end")
    assert result.read_text() == "whole\n"


def test_its_timeouts_and_stops_still_work(own_house: House) -> None:
    timed = own_house.start("/bin/sleep", "1000", timeout_s=2.0)
    stopped = own_house.start("/bin/sleep", "1000")
    pids = [own_house.pid(timed), own_house.pid(stopped)]
    _delete(own_house)
    own_house.client.ask("stop", id=stopped, cause=1, grace_s=1.0, note="")
    until(lambda: not any(map(is_alive, pids)), "both ends")
    until(lambda: not of_state_folder(own_house.state_dir), "the keeper's end")


def test_a_new_keeper_in_a_new_folder_of_the_same_name_is_left_alone(own_house: House, gate: Gate) -> None:
    process_id = own_house.start(*sh(gate.wait))
    old = set(_others(own_house))
    pid = own_house.pid(process_id)
    _delete(own_house)
    with House(own_house.state_dir) as new:
        assert new.run(*sh("exit 4"))[0] == 4
        own_house.client.close()
        guardian, supervisor = new.guardian(), new.supervisor()
        gate.open()
        until(lambda: not any(map(is_alive, old - {pid})), "the old keeper's end")
        assert (new.guardian(), new.supervisor()) == (guardian, supervisor)
        assert not has_ended(new.layout.supervisor_lock)
        assert new.run(*sh("exit 5"))[0] == 5
        new.kill(supervisor)
        assert new.run(*sh("exit 6"))[0] == 6, "its guardian still listens"


def test_supervisor_and_guardian_killed_after_that_leave_nobody(
    build_house: Callable[..., House], gate: Gate
) -> None:
    """Whichever dies first: the other one must not start it again in vain for ever."""
    for role in ("supervisor", "guardian"):
        house = build_house()
        process_id = house.start(*sh(gate.wait))
        pid, victim = house.pid(process_id), getattr(house, role)()
        _delete(house)
        house.client.close()
        end(victim)
        gate.open()
        until(lambda house=house: not of_state_folder(house.state_dir), f"the end without {role}")  # type: ignore[misc]
        assert not is_alive(pid)


@pytest.mark.parametrize("folder", ["prepared", "processes"])
def test_a_folder_in_it_that_was_removed_by_hand_is_made_anew(own_house: House, folder: str) -> None:
    assert own_house.run(*sh("exit 3"))[0] == 3
    removed = own_house.state_dir / folder
    while removed.exists():  # the keeper prepares folders in it meanwhile
        shutil.rmtree(removed, ignore_errors=True)
    assert own_house.run(*sh("exit 4"))[0] == 4
    assert own_house.run(*sh("exit 5"))[0] == 5


def test_a_moved_folder_counts_as_gone_too(own_house: House, tmp_path: Path) -> None:
    own_house.run(*sh("true"))
    os.rename(own_house.state_dir, tmp_path / "elsewhere")
    until(lambda: not of_state_folder(own_house.state_dir), "the keeper's end")
    assert "folder" in (tmp_path / "elsewhere" / "keeper.log").read_text()
