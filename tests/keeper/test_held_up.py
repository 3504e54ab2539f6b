"""Commands that stop the keeper's processes (SIGSTOP): what is stopped is continued, and nothing is held up.

Any process of the user may do that, an `open` command to its own shim first of all.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlive.cli.server.keeper import stop_keeper
from outlive.kernel.lock_proof import rouse_keeper
from outlive.protocols.keeper import CauseCode, Phase
from tests.keeper.client import until
from tests.keeper.house import House, is_paused, sh
from tests.support.processes import Gate, end, is_alive, is_stopped, of_state_folder, stat

# It goes on when its shim is stopped indeed, or was continued already.
_STOPS_ITS_SHIM = (
    "kill -STOP $PPID; for n in 1 2 3 4 5 6 7 8 9; do grep -q '^State:.T' /proc/$PPID/status && break; done; "
)


def _stop(*pids: int) -> None:
    """Stop processes, and see each of them stopped: on a busy machine one may be continued before that."""
    for pid in pids:
        until(lambda pid=pid: _stop_one(pid), f"{pid} to be stopped")  # type: ignore[misc] # a bound pid


def _stop_one(pid: int) -> bool:
    os.kill(pid, signal.SIGSTOP)
    return is_stopped(pid)


def _cancel(house: House, process_id: str, *, grace_s: float) -> None:
    house.client.ask_surely("stop", id=process_id, cause=int(CauseCode.CANCEL), grace_s=grace_s, note="")


def test_a_command_that_stops_its_shim_is_cancelled(house: House) -> None:
    process_id = house.start(*sh(_STOPS_ITS_SHIM + "sleep 1000"))
    shim = house.shim_of(process_id)
    _cancel(house, process_id, grace_s=20.0)
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) == -15
    assert is_alive(shim), "it was continued, not replaced"


def test_the_end_of_a_command_that_stops_its_shim_is_reported(house: House) -> None:
    process_id = house.start(*sh(_STOPS_ITS_SHIM + "exit 3"))
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) == 3


def test_a_command_that_stops_its_shim_is_paused_resumed_and_signalled(house: House) -> None:
    process_id = house.start(
        *sh(f"trap 'exit 5' USR1; {_STOPS_ITS_SHIM} echo up; while :; do sleep 0.02; done")
    )
    house.wait_output(process_id, len("up\n"))
    house.client.ask("pause", id=process_id)
    assert is_paused(house.pid(process_id))
    house.client.ask("resume", id=process_id)
    house.client.ask("signal", id=process_id, signal=int(signal.SIGUSR1))
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) == 5


def test_idle_shims_that_are_stopped_start_commands(own_house: House) -> None:
    own_house.wait_redundant()
    idle = own_house.shims()
    _stop(*idle)
    for number in range(len(idle) + 2):
        assert own_house.run(*sh(f"exit {number}"))[0] == number
    assert all(map(is_alive, idle))


@pytest.mark.parametrize("victims", ["shims", "all"])
def test_a_keeper_that_is_stopped_ends_when_it_is_told(own_house: House, victims: str) -> None:
    for _ in range(3):
        own_house.start(*sh(_STOPS_ITS_SHIM + "sleep 1000"))
    own_house.wait_redundant()
    both = [own_house.supervisor(), own_house.guardian()]
    _stop(*own_house.shims(), *(both if victims == "all" else []))
    own_house.client.close()
    assert stop_keeper(own_house.layout, kill=True)
    until(lambda: not of_state_folder(own_house.state_dir), "nothing to be left")


@contextmanager
def _stopped_in_a_loop(pid: int) -> Iterator[None]:
    line = "import os, sys, signal\nwhile True: os.kill(int(sys.argv[1]), signal.SIGSTOP)"
    with subprocess.Popen([sys.executable, "-S", "-c", line, str(pid)], stderr=subprocess.DEVNULL) as loop:
        try:
            until(lambda: is_stopped(pid), "it to be stopped")
            yield
        finally:
            loop.kill()


def test_a_shim_that_is_stopped_again_and_again_keeps_no_command_from_its_end(own_house: House) -> None:
    """What stops it lives outside of its tree, so that killing the tree does not end that."""
    process_id = own_house.start(*sh("trap '' TERM; sleep 1000 & wait; wait"))
    with _stopped_in_a_loop(own_house.shim_of(process_id)):
        _cancel(own_house, process_id, grace_s=0.0)
        own_house.client.wait_done(process_id)
    assert own_house.wire_code(process_id) == -9


def test_a_shim_that_is_stopped_again_and_again_is_not_killed_for_that(own_house: House, gate: Gate) -> None:
    process_id = own_house.start(*sh(f"{gate.wait}; exit 4"))
    shim = own_house.shim_of(process_id)
    with _stopped_in_a_loop(shim):
        _cancel(own_house, process_id, grace_s=1000.0)
        gate.open()
        own_house.run(*sh("sleep 7"))  # longer than a kill would leave it
        assert is_alive(shim)
    own_house.client.wait_done(process_id)
    assert own_house.shim_of(process_id) == shim


@pytest.mark.parametrize("victim", ["supervisor", "guardian"])
def test_one_that_is_stopped_is_continued_by_the_other(own_house: House, victim: str) -> None:
    own_house.wait_redundant()
    pid = getattr(own_house, victim)()
    _stop(pid)
    until(lambda: not is_stopped(pid), "it to be continued")
    assert own_house.run(*sh("exit 3"))[0] == 3
    assert getattr(own_house, victim)() == pid


def test_both_that_are_stopped_are_continued_by_a_server(own_house: House) -> None:
    own_house.wait_redundant()
    both = [own_house.supervisor(), own_house.guardian()]
    _stop(*both)
    rouse_keeper(own_house.layout)
    until(lambda: not any(map(is_stopped, both)), "both to be continued")
    assert [own_house.supervisor(), own_house.guardian()] == both


def test_a_stopped_guardian_whose_supervisor_is_dead_starts_another(own_house: House) -> None:
    own_house.wait_redundant()
    guardian, supervisor = own_house.guardian(), own_house.supervisor()
    _stop(guardian)
    own_house.kill(supervisor)
    assert own_house.run(*sh("exit 3"))[0] == 3
    assert own_house.guardian() == guardian


def test_a_guardian_that_is_alone_ends_when_the_keeper_is_told_to(own_house: House) -> None:
    """Where supervisors could not begin, as on a full disk, it waits for some seconds before the next."""
    own_house.wait_redundant()
    supervisor = own_house.supervisor()
    _stop(own_house.guardian())
    own_house.client.close()
    own_house.kill(supervisor)
    assert stop_keeper(own_house.layout, kill=True)
    until(lambda: not of_state_folder(own_house.state_dir), "nothing to be left")


def test_stopped_shims_of_a_keeper_that_was_killed_are_gone(own_house: House) -> None:
    """They see that their links have ended only if they run."""
    own_house.wait_redundant()
    shims, both = own_house.shims(), [own_house.supervisor(), own_house.guardian()]
    _stop(*shims, *both)  # both: neither starts the other again
    for pid in both:
        end(pid)
    until(lambda: not any(map(is_alive, shims)), "the shims to be gone")


def test_a_new_supervisor_continues_a_shim_that_is_stopped(own_house: House, gate: Gate) -> None:
    process_id = own_house.start(*sh(f"{_STOPS_ITS_SHIM} {gate.wait}; exit 6"))
    shim = own_house.shim_of(process_id)
    own_house.kill(own_house.supervisor())
    own_house.wait_redundant()
    assert own_house.shim_of(process_id) == shim
    gate.open()
    own_house.client.wait_done(process_id)
    assert own_house.wire_code(process_id) == 6


def test_a_paused_command_whose_shim_is_dead_stays_paused(build_house: Callable[..., House]) -> None:
    """The guardian has adopted it, and continues only what is the keeper's own."""
    house = build_house()
    process_id = house.start(*sh("while :; do sleep 0.02; done"))
    pid = house.pid(process_id)
    house.kill_shim_of(process_id)
    until(lambda: (found := stat(pid)) is not None and found.ppid != 0, "it to be adopted")
    house.client.ask("pause", id=process_id)
    house.run(*sh("sleep 2.5"))  # two looks of guardian and supervisor
    assert is_paused(pid)
    house.client.wait_bell(process_id, lambda bell: bell.phase == Phase.PAUSED, "the pause")


@contextmanager
def _frozen(folder: Path) -> Iterator[None]:
    """Freeze a file system: each write to it waits in state D."""
    subprocess.run(["fsfreeze", "-f", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "-u", str(folder)], check=True)


@pytest.fixture
def real_disk(tmp_path: Path) -> Iterator[Path]:
    """An ext4 of the test's own, which can be frozen."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(64 << 20)
    for words in (["mkfs.ext4", "-q", "-F", str(image)], ["mount", "-o", "loop", str(image), str(folder)]):
        done = subprocess.run(words, check=False, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no file system can be made here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.thorough
@pytest.mark.root("only root may mount and freeze")
def test_a_frozen_disk_loses_nothing_and_ends_no_shim(real_disk: Path, gate: Gate) -> None:
    """Shims are silent then for as long as it takes, in state D: that is no reason to end one."""
    with House(real_disk / "state") as house:
        started = [house.start(*sh(f"{gate.wait}; echo whole; exit 7")) for _ in range(5)]
        shims = [house.shim_of(process_id) for process_id in started]
        pids = [house.pid(process_id) for process_id in started]
        house.wait_redundant()
        with _frozen(real_disk):
            gate.open()
            until(lambda: all(found.state == "Z" for pid in pids if (found := stat(pid))), "their ends")
            time.sleep(9)  # longer than guardian and supervisor wait for each other
            assert all(map(is_alive, shims))
        for process_id in started:
            house.client.wait_done(process_id)
            assert (house.wire_code(process_id), house.out(process_id)) == (7, b"whole\n")
            assert not house.done(process_id)["holder_lost"]
