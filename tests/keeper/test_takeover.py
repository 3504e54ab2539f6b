"""Whoever of the keeper dies or hangs is replaced, and nothing is lost: supervisor, guardian, shims,
upgrade.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.cli.server.keeper_client import KeeperClient as AskingClient
from outlive.core.errors import BackendUnavailable
from outlive.core.identity import id_to_bytes
from outlive.discovery.keeper import ensure_keeper
from outlive.keeper.common.spawn import PROGRAM_FLAG, keeper_argv, keeper_environment
from outlive.kernel.files import is_written
from outlive.kernel.state_files import read_end
from outlive.protocols.keeper import Flags, Phase, encode_spec
from tests.keeper.client import KeeperGone, until
from tests.keeper.house import House, is_paused, sh, shim_program
from tests.support.processes import Gate, end, is_alive, stat

pytestmark = pytest.mark.thorough

_QUICK = {"OUTLIVE_KEEPER_HUNG_TICKS": "2"}


def _waiting(house: House, gate: Gate) -> str:
    process_id = house.start(*sh(f"echo early; {gate.wait}; echo late; exit 21"))
    house.wait_output(process_id, 6)
    return process_id


def _finish(house: House, gate: Gate, process_id: str) -> None:
    gate.open()
    house.client.wait_done(process_id)
    assert house.out(process_id) == b"early\nlate\n"
    assert house.wire_code(process_id) == 21
    assert house.client.completions[id_to_bytes(process_id)] == 1
    assert not house.done(process_id)["holder_lost"]


@pytest.mark.parametrize(
    "victims", [["supervisor"], ["guardian"], ["guardian", "supervisor"], ["supervisor", "guardian"]]
)
def test_nothing_is_lost_when_they_die(own_house: House, gate: Gate, victims: list[str]) -> None:
    process_id = _waiting(own_house, gate)
    for _ in range(3):
        status = own_house.wait_redundant()
        pids = {"supervisor": own_house.supervisor(), "guardian": own_house.guardian()}
        assert status["processes"] == 1
        own_house.kill(*(pids[victim] for victim in victims))
    own_house.wait_redundant()
    _finish(own_house, gate, process_id)


def test_what_was_closed_is_never_told_to_be_open_again(own_house: House) -> None:
    """The tree lives on without the streams: whoever takes over is told of ends that nobody will write
    down.
    """
    for _ in range(30):  # enough for the client to be there before all shims have answered
        process_id = own_house.start(*sh("sleep 300 >/dev/null 2>&1 & exit 3"))
        key = id_to_bytes(process_id)
        own_house.client.wait_done(process_id)
        while own_house.client.bells[key].flags & (Flags.OUT_OPEN | Flags.ERR_OPEN):
            own_house.client.listen(0.1)
    for _ in range(5):
        own_house.wait_redundant()
        end(own_house.supervisor())
        # at once: it is greeted as soon as the next supervisor has asked the shims
        own_house.client.connect()
        own_house.client.listen(0.2)
    assert own_house.client.setbacks == []


def test_nothing_is_lost_when_shims_die_one_after_the_other(own_house: House, gate: Gate) -> None:
    process_id = _waiting(own_house, gate)
    own_house.kill_shim_of(process_id)
    for _ in range(4):
        own_house.wait_redundant()
        own_house.kill(*own_house.shims())
    own_house.wait_redundant()
    own_house.kill(own_house.supervisor())
    own_house.wait_redundant()
    _finish(own_house, gate, process_id)


@pytest.mark.usefixtures("stays_stopped")
@pytest.mark.parametrize("victim", ["supervisor", "guardian"])
def test_a_hung_one_is_replaced(build_house: Callable[..., House], gate: Gate, victim: str) -> None:
    house = build_house(**_QUICK)
    process_id = _waiting(house, gate)
    house.wait_redundant()  # they have met: in a container a command runs before there is a guardian
    pid = getattr(house, victim)()
    os.kill(pid, signal.SIGSTOP)
    for _ in range(
        16 if victim == "guardian" else 0
    ):  # it is asked for shims, and the supervisor waits for them
        house.start("/bin/sleep", "1000")
    until(lambda: not is_alive(pid), f"the end of the hung {victim}")
    house.wait_redundant()
    assert getattr(house, victim)() != pid
    _finish(house, gate, process_id)


@pytest.mark.usefixtures("stays_stopped")
def test_a_supervisor_that_hangs_is_replaced_soon_if_it_is_asked(own_house: House, gate: Gate) -> None:
    """Within five seconds; its guardian's next ping is up to ten away when nothing is asked."""
    process_id = _waiting(own_house, gate)
    own_house.wait_redundant()
    hung = own_house.supervisor()
    with AskingClient(own_house.layout) as asking:
        os.kill(hung, signal.SIGSTOP)
        with pytest.raises(BackendUnavailable) as gone:
            asking.ask({"op": "status"}, timeout_s=9.0)
    assert gone.value.code == "keeper_restarted"
    until(lambda: not is_alive(hung), "the end of the hung supervisor")
    own_house.wait_redundant()
    _finish(own_house, gate, process_id)


@pytest.mark.usefixtures("stays_stopped")
def test_one_that_hangs_before_it_has_met_its_guardian_is_replaced(
    build_house: Callable[..., House], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never answered a ping that could be missed now."""
    monkeypatch.setenv("OUTLIVE_KEEPER_HUNG_TICKS", "1")
    house = build_house()
    process_id = _waiting(house, gate)
    house.wait_redundant()
    hung, guardian = house.supervisor(), house.guardian()
    os.kill(hung, signal.SIGSTOP)
    end(guardian)
    root = str(house.state_dir)
    with open(shim_program(), "rb") as program:
        subprocess.run(
            keeper_argv("guardian", root, "--first", f"{PROGRAM_FLAG}{program.fileno()}"),
            env=keeper_environment(),
            pass_fds=(program.fileno(),),
            stdin=subprocess.DEVNULL,
            timeout=30,
            check=True,
        )
    until(lambda: not is_alive(hung), "the end of the hung supervisor")
    house.wait_redundant()
    assert house.supervisor() != hung
    _finish(house, gate, process_id)


def test_one_that_is_killed_before_it_has_met_its_guardian_is_replaced_at_once(
    build_house: Callable[..., House], gate: Gate, tmp_path: Path
) -> None:
    """No link tells of its end, but its parent hears of it.

    Else the next one would come three ticks later.
    """
    house = build_house(OUTLIVE_FAILPOINT=f"recovery.asked@{tmp_path / 'token'}")
    process_id = _waiting(house, gate)
    house.wait_redundant()
    for _ in range(3):
        (tmp_path / "token").touch()
        began = time.monotonic()
        end(house.supervisor())
        until(lambda: not (tmp_path / "token").exists(), "the next one's end")
        house.wait_redundant()
        assert time.monotonic() - began < 2.9
    _finish(house, gate, process_id)


@pytest.mark.usefixtures("stays_stopped")
def test_a_stopped_shim_does_not_keep_the_others_from_being_recovered(own_house: House, gate: Gate) -> None:
    process_id = _waiting(own_house, gate)
    other = _waiting(own_house, gate)
    shim = own_house.shim_of(process_id)
    os.kill(shim, signal.SIGSTOP)
    # More deaths than connections fit the shim's backlog: a full backlog is no dead shim.
    for _ in range(8):
        own_house.kill(own_house.supervisor())  # asked for its pid, it has recovered as far as it can
    os.kill(shim, signal.SIGCONT)
    own_house.wait_redundant()
    assert is_alive(shim)
    for each in (process_id, other):
        _finish(own_house, gate, each)
    assert own_house.shim_of(process_id) == shim


@pytest.mark.promise("F.control")
@pytest.mark.parametrize("control", ["pause", "signal", "stop", "kill", "timeout", "end"])
def test_the_next_command_of_a_shim_that_was_taken_over_as_a_holder_obeys(
    own_house: House, gate: Gate, tmp_path: Path, control: str
) -> None:
    """A shim dies, another holds its descriptors; that one is taken over, and serves the next command."""
    process_id = _waiting(own_house, gate)
    own_house.kill_shim_of(process_id)
    own_house.wait_redundant()
    own_house.kill(own_house.supervisor())
    own_house.wait_redundant()
    _finish(own_house, gate, process_id)
    until(lambda: not own_house.status()["processes"], "the holder to be released")
    ticks = tmp_path / "ticks"
    timeout_s = 0.3 if control == "timeout" else 3600.0
    line = f"trap '' TERM; while :; do echo x >> {ticks}; sleep 0.01; done"
    victim = own_house.start(*sh(line), timeout_s=timeout_s, grace_s=0.0)
    until(ticks.exists, "the first tick")
    match control:
        case "pause":
            own_house.client.ask("pause", id=victim)
            assert is_paused(own_house.pid(victim))
            own_house.client.ask("resume", id=victim)
            until(lambda: not is_paused(own_house.pid(victim)), "it to go on")
            own_house.client.ask("stop", id=victim, cause=1, grace_s=0.0)
        case "signal":
            own_house.client.ask("signal", id=victim, signal=signal.SIGKILL, whole_tree=True)
        case "stop" | "kill":
            own_house.client.ask("stop", id=victim, cause=1, grace_s=0.1 if control == "stop" else 0.0)
        case "end":
            assert own_house.client.ask("end", kill=True, within_s=20.0)["ok"]
    until(lambda: read_end(str(own_house.folder(victim))), "its end")
    assert own_house.exit_record(victim).kind == "signaled"


@pytest.mark.usefixtures("stays_stopped")
def test_redundant_is_told_only_while_everything_is_held_twice(own_house: House, gate: Gate) -> None:
    process_id = _waiting(own_house, gate)
    assert own_house.wait_redundant()["redundant"]
    guardian = own_house.guardian()
    os.kill(guardian, signal.SIGSTOP)  # nobody can fork a new holder now
    own_house.kill(*(pid for pid in own_house.shims() if pid != own_house.shim_of(process_id)))
    until(lambda: not own_house.status()["idle_shims"], "the end of the idle shims")
    own_house.kill(own_house.shim_of(process_id))
    until(lambda: not own_house.status()["redundant"], "the keeper to notice")
    os.kill(guardian, signal.SIGCONT)
    own_house.wait_redundant()
    own_house.kill(own_house.supervisor())
    _finish(own_house, gate, process_id)


def test_an_upgrade_is_a_retirement_and_a_new_start(own_house: House, gate: Gate) -> None:
    process_id = _waiting(own_house, gate)
    terminal = own_house.start(*sh(f"{gate.wait}; echo on; exit 3"), stdio="pty")
    before = {own_house.supervisor(), own_house.guardian()}
    own_house.client.ask("retire")
    until(lambda: not any(map(is_alive, before)), "the old ones to leave")
    assert is_alive(own_house.pid(process_id))
    own_house.client.connect()
    assert own_house.supervisor() not in before
    assert own_house.guardian() not in before
    _finish(own_house, gate, process_id)
    own_house.client.wait_done(terminal)
    assert (own_house.wire_code(terminal), own_house.out(terminal)) == (3, b"on\r\n")


def test_starting_the_keeper_again_and_again_starts_one(own_house: House) -> None:
    pids = (own_house.supervisor(), own_house.guardian())
    for _ in range(5):
        ensure_keeper(str(own_house.state_dir))
    assert (own_house.supervisor(), own_house.guardian()) == pids


def test_output_of_descendants_survives_the_shim_and_the_supervisor(own_house: House, gate: Gate) -> None:
    """After completion streams may stay open: they are held twice, too."""
    process_id = own_house.start(*sh(f"({gate.wait}; echo later) & echo now; exit 4"))
    assert own_house.client.wait_done(process_id).flags & Flags.OUT_OPEN
    own_house.kill_shim_of(process_id)
    own_house.wait_redundant()
    own_house.kill(own_house.supervisor())
    own_house.wait_redundant()
    gate.open()
    own_house.wait_output(process_id, 10)
    own_house.client.wait_closed(process_id)
    assert own_house.out(process_id) == b"now\nlater\n"
    assert own_house.done(process_id)["out"] == 4
    until(lambda: own_house.status()["processes"] == 0, "the keeper to let go")


def test_the_supervisor_leaves_no_zombies(own_house: House) -> None:
    """Guardians that it started are its children."""
    supervisor = own_house.supervisor()
    for _ in range(5):
        own_house.kill(own_house.guardian())
        own_house.wait_redundant()
    assert own_house.supervisor() == supervisor

    def zombies() -> list[str]:
        tasks = Path(f"/proc/{supervisor}/task").glob("*/children")
        children = [child for task in tasks for child in task.read_text().split()]
        return [child for child in children if (found := stat(int(child))) and found.state == "Z"]

    until(lambda: not zombies(), "the zombies to be reaped")


def test_nothing_runs_twice_when_the_supervisor_dies_during_many_starts(
    own_house: House, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    started = []
    for number in range(40):
        process_id, spec = own_house.spec(*sh(f"echo {number} >> {ran}; exit {number}"))
        started.append(process_id)
        if number % 5 == 2:
            end(own_house.supervisor_of_lock() or 0)
        own_house.client.start(spec, process_id=process_id)
    for number, process_id in enumerate(started):
        own_house.client.wait_done(process_id)
        assert own_house.wire_code(process_id) == number
    assert sorted(map(int, ran.read_text().split())) == list(range(40))


def test_a_client_that_does_not_read_does_not_hold_up_anybody(own_house: House) -> None:
    deaf = House(own_house.state_dir)
    deaf.client.connect()
    started = [own_house.start(*sh("for n in $(seq 200); do echo $n; done")) for _ in range(30)]
    for process_id in started:
        own_house.client.wait_done(process_id)
    for _ in range(3000):
        deaf.client.send("status")
    assert own_house.run(*sh("exit 9"))[0] == 9
    deaf.client.close()


def test_a_retired_keeper_closes_its_connections(own_house: House) -> None:
    own_house.client.ask("retire")
    assert _is_closed(own_house)
    own_house.client.connect()
    assert own_house.run(*sh("exit 8"))[0] == 8


def _is_closed(house: House) -> bool:
    try:
        while True:
            house.client.take_in(10.0)
    except KeeperGone:
        return True


def test_a_failed_start_is_answered_after_the_supervisor_died(own_house: House) -> None:
    process_id, spec = own_house.spec("/nonexistent")
    raw = encode_spec(spec)
    number = own_house.client.send("start", payload=raw, id=process_id, spec_bytes=len(raw))
    end(own_house.supervisor_of_lock() or 0)
    try:
        reply = own_house.client.reply(number)
    except KeeperGone:
        own_house.client.connect()
        reply = own_house.client.reply(
            own_house.client.send("start", payload=raw, id=process_id, spec_bytes=len(raw))
        )
    assert reply["error"] == "not_found"
    until(lambda: is_written(f"{own_house.folder(process_id)}/done"), "the end of the start")
    assert own_house.exit_record(process_id).kind == "failed"
    # The next supervisor may be through with it before anybody connects: then there is the answer, and no
    # doorbell.
    bell = own_house.client.bell(process_id)
    assert bell is None or own_house.client.wait_done(process_id).phase == Phase.DONE


def test_a_guardian_that_dies_while_it_prepares_is_replaced(own_house: House) -> None:
    for _ in range(3):
        own_house.guardian()
        known = set(own_house.guardians())
        own_house.kill(own_house.guardian())
        # The next one is killed as soon as it can be seen, long before it serves.
        young = until(lambda known=known: set(own_house.guardians()) - known, "the next guardian")  # type: ignore[misc]
        own_house.kill(*young)
        own_house.wait_redundant()
    assert own_house.run(*sh("exit 5"))[0] == 5
