"""Pause, resume, signals, stops and timeouts, also while nobody is connected or the supervisor has just
died.
"""

import json
import time
from pathlib import Path

import pytest

from outlive.kernel.files import is_written
from outlive.protocols.keeper import CauseCode, Phase
from tests.keeper.client import KeeperRefused, until
from tests.keeper.house import House, is_paused, sh
from tests.support.processes import Gate, Marker

_STUBBORN = "trap '' TERM HUP INT; echo up; while :; do sleep 0.05; done"


def _stop(house: House, process_id: str, *, grace_s: float) -> None:
    house.client.ask_surely(
        "stop", id=process_id, cause=int(CauseCode.CANCEL), grace_s=grace_s, note="by a test"
    )


def test_pause_stops_the_tree_and_resume_continues_it(house: House, tmp_path: Path) -> None:
    ticks = tmp_path / "ticks"
    process_id = house.start(*sh(f"(while :; do echo x >> {ticks}; sleep 0.01; done) & wait"))
    until(ticks.exists, "the first tick")
    for _ in range(2):  # repeating a control is a success
        house.client.ask("pause", id=process_id)
    assert is_paused(house.pid(process_id))
    assert (house.folder(process_id) / "paused").exists()
    house.client.wait_bell(process_id, lambda bell: bell.phase == Phase.PAUSED, "the pause")
    size = ticks.stat().st_size
    time.sleep(0.1)  # nothing can tell that nothing happens but time
    assert ticks.stat().st_size == size
    for _ in range(2):
        house.client.ask("resume", id=process_id)
    until(lambda: ticks.stat().st_size > size, "the next tick")
    assert not (house.folder(process_id) / "paused").exists()
    _stop(house, process_id, grace_s=0.0)
    house.client.wait_done(process_id)


def test_a_stop_is_a_term_and_its_cause_is_kept(house: House) -> None:
    process_id = house.start("/bin/sleep", "60")
    _stop(house, process_id, grace_s=20.0)
    bell = house.client.wait_done(process_id)
    assert (house.wire_code(process_id), bell.cause) == (-15, CauseCode.CANCEL)
    done = house.done(process_id)
    assert (done["cause"], done["note"], done["descendants"]) == (CauseCode.CANCEL, "by a test", 0)


def test_a_stop_of_a_paused_process_ends_it(house: House) -> None:
    process_id = house.start(*sh("trap 'exit 5' TERM; echo up; while :; do sleep 0.02; done"))
    house.wait_output(process_id, 3)
    house.client.ask("pause", id=process_id)
    _stop(house, process_id, grace_s=20.0)
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) == 5


def test_what_ignores_term_is_killed_after_the_grace(house: House) -> None:
    process_id = house.start(*sh(_STUBBORN))
    house.wait_output(process_id, 3)
    _stop(house, process_id, grace_s=0.2)
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) == -9


def test_repeating_a_stop_with_a_shorter_grace_shortens_it(house: House) -> None:
    process_id = house.start(*sh(_STUBBORN))
    house.wait_output(process_id, 3)
    _stop(house, process_id, grace_s=3600.0)
    _stop(house, process_id, grace_s=7200.0)
    house.client.wait_bell(process_id, lambda bell: bell.phase == Phase.STOPPING, "the stop")
    with pytest.raises(KeeperRefused, match="process_ended"):
        house.client.ask("pause", id=process_id)
    _stop(house, process_id, grace_s=0.0)
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) == -9


def test_a_stop_goes_on_when_the_supervisor_dies(own_house: House) -> None:
    process_id = own_house.start(*sh(_STUBBORN))
    own_house.wait_output(process_id, 3)
    _stop(own_house, process_id, grace_s=1.0)
    own_house.kill(own_house.supervisor())
    bell = own_house.client.wait_done(process_id)
    assert (own_house.wire_code(process_id), bell.cause) == (-9, CauseCode.CANCEL)
    assert own_house.done(process_id)["note"] == "by a test"


def test_a_stop_goes_on_when_the_shim_dies(own_house: House, marker: Marker) -> None:
    process_id = own_house.start(*sh(f"{_STUBBORN[:-5]} {marker.sleep}; done"))
    own_house.wait_output(process_id, 3)
    _stop(own_house, process_id, grace_s=1.0)
    own_house.kill_shim_of(process_id)
    own_house.client.wait_done(process_id)
    assert own_house.wire_code(process_id) == -9
    until(lambda: not marker.pids(), "an empty tree")


@pytest.mark.thorough
def test_a_stop_goes_on_when_shim_and_supervisor_die_at_once(own_house: House, marker: Marker) -> None:
    """The stated exception is about the last bytes in the pipe, not about control."""
    process_id = own_house.start(*sh(f"trap '' TERM; echo up; {marker.sleep} & {marker.sleep} & wait"))
    own_house.wait_output(process_id, 3)
    _stop(own_house, process_id, grace_s=2.0)
    own_house.kill(own_house.shim_of(process_id), own_house.supervisor())
    own_house.client.wait_done(process_id)
    until(lambda: not marker.pids(), "an empty tree")


def test_a_pause_lasts_when_the_supervisor_dies(own_house: House) -> None:
    process_id = own_house.start(*sh("while :; do sleep 0.02; done"))
    own_house.client.ask("pause", id=process_id)
    own_house.kill(own_house.supervisor())
    own_house.wait_redundant()
    own_house.client.wait_bell(process_id, lambda bell: bell.phase == Phase.PAUSED, "the pause")
    assert is_paused(own_house.pid(process_id))
    own_house.client.ask("resume", id=process_id)
    until(lambda: not is_paused(own_house.pid(process_id)), "the resumed command")


def test_a_stop_of_an_orphaned_command_empties_its_tree(own_house: House, marker: Marker) -> None:
    """The command's shim is dead: its tree is found by the id in the environment."""
    process_id = own_house.start(*sh(f"setsid {marker.sleep} & {marker.sleep} & wait"))
    until(lambda: len(marker.pids()) == 2, "the tree")
    own_house.kill_shim_of(process_id)
    own_house.client.ask("pause", id=process_id)
    assert all(map(is_paused, marker.pids()))
    _stop(own_house, process_id, grace_s=0.5)
    own_house.client.wait_done(process_id)
    assert marker.pids() == []


def test_a_signal_reaches_the_main_process_or_the_tree(house: House) -> None:
    line = (
        "trap 'echo main; exit 3' USR1; sh -c \"trap 'echo child; exit' USR1; echo up; while :; do "
        'sleep 0.02; done" & wait; wait'
    )
    process_id = house.start(*sh(line))
    house.wait_output(process_id, 3)
    house.client.ask("signal", id=process_id, signal=10, whole_tree=True)
    house.wait_output(process_id, len("up\nmain\nchild\n"))
    assert sorted(house.out(process_id).split()) == [b"child", b"main", b"up"]
    house.client.wait_done(process_id)
    with pytest.raises(KeeperRefused, match="process_ended"):
        house.client.ask("signal", id=process_id, signal=10)


def test_a_timeout_ends_the_tree(house: House, marker: Marker) -> None:
    process_id = house.start(*sh(f"{marker.sleep} & wait"), timeout_s=0.3, grace_s=5.0)
    bell = house.client.wait_done(process_id)
    assert (house.wire_code(process_id), bell.cause) == (-15, CauseCode.TIMEOUT)
    assert marker.pids() == []


def test_a_timeout_fires_while_nobody_is_connected(own_house: House) -> None:
    process_id = own_house.start("/bin/sleep", "60", timeout_s=0.5)
    own_house.client.close()
    done = own_house.folder(process_id) / "done"
    until(lambda: is_written(str(done)), "the timeout")
    own_house.client.connect()
    assert own_house.wire_code(process_id) == -15
    until(lambda: own_house.done(process_id)["cause"] == CauseCode.TIMEOUT, "its cause")


def test_a_timeout_fires_although_the_supervisor_died(own_house: House) -> None:
    process_id = own_house.start("/bin/sleep", "60", timeout_s=1.0)
    own_house.kill(own_house.supervisor())
    bell = own_house.client.wait_done(process_id)
    assert (own_house.wire_code(process_id), bell.cause) == (-15, CauseCode.TIMEOUT)


def test_a_timeout_fires_although_the_shim_died(own_house: House) -> None:
    process_id = own_house.start("/bin/sleep", "60", timeout_s=1.0)
    own_house.kill_shim_of(process_id)
    bell = own_house.client.wait_done(process_id)
    assert (own_house.wire_code(process_id), bell.cause) == (-15, CauseCode.TIMEOUT)


def test_a_timeout_that_passed_while_the_keeper_was_away_fires_at_once(
    own_house: House,
) -> None:
    process_id = own_house.start("/bin/sleep", "60", timeout_s=0.3)
    own_house.kill(own_house.guardian(), own_house.supervisor())
    time.sleep(0.4)  # the keeper is away for longer than the timeout
    bell = own_house.client.wait_done(process_id)
    assert (own_house.wire_code(process_id), bell.cause) == (-15, CauseCode.TIMEOUT)


def test_a_command_that_ends_in_time_is_not_timed_out(house: House) -> None:
    process_id = house.start(*sh("exit 4"), timeout_s=30.0)
    bell = house.client.wait_done(process_id)
    assert (house.wire_code(process_id), bell.cause) == (4, CauseCode.NONE)


def test_the_stop_is_on_disk_before_it_is_carried_out(house: House, gate: Gate) -> None:
    process_id = house.start(*sh(_STUBBORN))
    house.wait_output(process_id, 3)
    _stop(house, process_id, grace_s=1000.0)
    record = json.loads((house.folder(process_id) / "stop").read_text())
    assert (record["cause"], record["grace_s"], record["note"]) == (CauseCode.CANCEL, 1000.0, "by a test")
    _stop(house, process_id, grace_s=0.0)
    house.client.wait_done(process_id)
