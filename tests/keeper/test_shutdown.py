"""SIGTERM for everybody at once, as at a machine's shutdown or when a unit's control group is stopped.

Sent by the tests themselves to real processes, in both orders; no service manager is asked.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress

import pytest

from outlive.protocols.keeper import CauseCode
from tests.keeper.client import until
from tests.keeper.house import House, sh
from tests.support.processes import Gate, is_alive, of_state_folder

_DOWN = signal.SIGTERM


def _term_all(house: House, *, keeper_first: bool) -> None:
    keeper = {house.supervisor(), house.guardian()}
    everybody = of_state_folder(house.state_dir)
    house.client.close()
    for pid in sorted(everybody, key=lambda pid: (pid in keeper) is not keeper_first):
        with suppress(ProcessLookupError):  # what the shell runs ends by itself, too
            os.kill(pid, _DOWN)


def _sleepers(house: House) -> int:
    lines = of_state_folder(house.state_dir).values()
    return sum(line.split() in (["sleep", "1000"], ["/bin/sleep", "1000"]) for line in lines)


@pytest.mark.promise("W.lost")
@pytest.mark.parametrize("keeper_first", [True, False])
def test_exit_codes_and_last_words_are_kept_when_everybody_is_told_to_end(
    own_house: House, keeper_first: bool
) -> None:
    plain = own_house.start("/bin/sleep", "1000")
    # Ends by itself, not at once, and says more than a pipe holds.
    speaks = own_house.start(
        *sh("trap 'head -c 200000 /dev/zero; exit 7' TERM; echo ready; while :; do sleep 0.1; done")
    )
    crowd = [own_house.start(*sh("echo here; sleep 1000")) for _ in range(12)]
    own_house.wait_output(speaks, 6)
    for one in crowd:
        own_house.wait_output(one, 5)
    own_house.wait_redundant()
    # One that is about to execute is not found by its environment, would not be told, and would sleep on.
    until(lambda: _sleepers(own_house) == len(crowd) + 1, "everybody asleep")
    _term_all(own_house, keeper_first=keeper_first)
    until(lambda: not of_state_folder(own_house.state_dir), "everybody's end")
    assert own_house.wire_code(plain) == -15
    assert own_house.wire_code(speaks) == 7
    assert own_house.out(speaks) == b"ready\n" + bytes(200_000)
    for one in crowd:
        assert (own_house.wire_code(one), own_house.out(one)) == (-15, b"here\n")
    # Who ended before the keeper was told itself has ended by a signal, and nothing knows why.
    causes = {own_house.done(one)["cause"] for one in (plain, *crowd)}
    assert causes <= ({CauseCode.SHUTDOWN} if keeper_first else {CauseCode.SHUTDOWN, CauseCode.NONE})
    assert own_house.done(speaks)["cause"] == CauseCode.NONE


@pytest.mark.thorough
@pytest.mark.parametrize("role", ["supervisor", "guardian"])
def test_one_that_is_told_alone_is_replaced_and_no_command_notices(
    build_house: Callable[..., House], gate: Gate, role: str
) -> None:
    house = build_house(OUTLIVE_KEEPER_SHUTDOWN_S="0.3")
    process_id = house.start(*sh(f"{gate.wait}; echo late; exit 5"))
    house.wait_redundant()
    told: int = getattr(house, role)()
    os.kill(told, _DOWN)
    until(lambda: not is_alive(told), "its end")
    house.wait_redundant()
    assert getattr(house, role)() != told
    gate.open()
    house.client.wait_done(process_id)
    assert (house.wire_code(process_id), house.out(process_id)) == (5, b"late\n")


def test_a_supervisor_that_was_told_serves_until_its_last_command_has_ended(
    own_house: House, gate: Gate
) -> None:
    process_id = own_house.start(*sh(f"{gate.wait}; exit 5"))
    supervisor = own_house.supervisor()
    os.kill(supervisor, _DOWN)
    until(lambda: "told to end" in own_house.log(), "the word to arrive")
    assert own_house.run(*sh("exit 6"))[0] == 6
    assert own_house.supervisor() == supervisor
    gate.open()
    own_house.client.wait_done(process_id)
    assert own_house.wire_code(process_id) == 5
    until(lambda: not is_alive(supervisor), "its end")


def test_a_shim_that_is_told_alone_stays_with_its_command(own_house: House, gate: Gate) -> None:
    process_id = own_house.start(*sh(f"{gate.wait}; exit 5"))
    shim = own_house.shim_of(process_id)
    os.kill(shim, _DOWN)
    assert own_house.run(*sh("exit 6"))[0] == 6
    gate.open()
    own_house.client.wait_done(process_id)
    assert own_house.wire_code(process_id) == 5
    assert own_house.shim_of(process_id) == shim
    assert "is gone" not in own_house.log()
