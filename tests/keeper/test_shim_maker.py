"""Shims are a program: for plain commands and those with steps of a sandbox.

What a program that is of no use does to starts.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.backends.tree_inspection import observe_trees
from outlive.core.errors import BackendUnavailable
from outlive.core.layout import LIBRARY_MARK
from outlive.keeper.common.spawn import SHIM_VARIABLE
from tests.keeper.client import KeeperRefused, until
from tests.keeper.house import House, sh, shim_program
from tests.support.processes import Gate, Marker, of_state_folder

_STEPS = ("no_new_privileges",)


def _comms(house: House) -> set[str]:
    house.wait_redundant()
    return {Path(f"/proc/{pid}/comm").read_text() for pid in house.shims()}


def test_many_with_steps_and_without_at_once_are_all_served(own_house: House) -> None:
    started = {}
    for number in range(60):
        steps = _STEPS if number % 3 == 0 else None
        started[own_house.start(*sh(f"echo {number}; exit {number}"), confinement=steps)] = number
    for process_id, number in started.items():
        own_house.client.wait_done(process_id)
        assert (own_house.wire_code(process_id), own_house.out(process_id)) == (number, b"%d\n" % number)
    assert _comms(own_house) == {"outlive-shim\n"}


@pytest.mark.parametrize("steps", [None, _STEPS], ids=["plain", "bounded"])
def test_a_shim_is_named_after_its_command_as_long_as_it_serves_it(
    house: House, gate: Gate, steps: tuple[str, ...] | None
) -> None:
    """By that name other keepers of its user know what encloses a caller (decision 219)."""
    line = f"{gate.wait}; echo x >/proc/$PPID/comm"
    process_id = house.start(*sh(line), confinement=steps)
    shim = house.shim_of(process_id)
    comm = Path(f"/proc/{shim}/comm")
    until(lambda: comm.read_text() == f"outlive:{process_id[-6:]}\n", "the name")
    gate.open()
    house.client.wait_done(process_id)
    assert house.wire_code(process_id) != 0  # no command changes it
    until(lambda: comm.read_text() == "outlive-shim\n", "the shim's own name")


@pytest.mark.parametrize("steps", [None, _STEPS])
def test_another_shim_holds_for_one_that_died(own_house: House, gate: Gate, steps: tuple[str, ...]) -> None:
    process_id = own_house.start(*sh(f"echo early; {gate.wait}; echo late; exit 7"), confinement=steps)
    own_house.wait_output(process_id, 6)
    own_house.kill_shim_of(process_id)
    own_house.wait_redundant()
    own_house.kill(own_house.supervisor())
    own_house.wait_redundant()
    gate.open()
    own_house.client.wait_done(process_id)
    assert (own_house.wire_code(process_id), own_house.out(process_id)) == (7, b"early\nlate\n")
    assert not own_house.done(process_id)["holder_lost"]


@pytest.mark.parametrize("steps", [None, _STEPS], ids=["plain", "bounded"])
def test_on_a_kernel_that_names_no_peer_everything_is_taken_over(
    build_house: Callable[..., House], gate: Gate, steps: tuple[str, ...] | None
) -> None:
    """Everybody but the shims is replaced, and nothing is missing."""
    house = build_house(OUTLIVE_DEGRADE="peer_pidfd")
    line = f"echo early; {gate.wait}; echo late; exit 7"
    started = [house.start(*sh(line), confinement=steps) for _ in range(4)]
    for process_id in started:
        house.wait_output(process_id, 6)
    shims = {process_id: house.shim_of(process_id) for process_id in started}
    for role in ("supervisor", "guardian", "supervisor"):
        house.kill(getattr(house, role)())
        house.wait_redundant()
    assert {process_id: house.shim_of(process_id) for process_id in started} == shims
    gate.open()
    for process_id in started:
        house.client.wait_done(process_id)
        assert (house.wire_code(process_id), house.out(process_id)) == (7, b"early\nlate\n")
        assert not house.done(process_id)["holder_lost"]


def test_what_a_command_has_left_is_found_below_its_shim(house: House, marker: Marker) -> None:
    process_id = house.start(*sh(f"(setsid {marker.sleep} &); exit 3"))
    house.client.wait_done(process_id)
    left = until(marker.pids, "what it has left")
    (seen,) = observe_trees([str(house.folder(process_id))], has_stdin=False)
    assert list(seen.pids) == left
    house.client.ask("stop", id=process_id, cause=1, grace_s=0.0)
    until(lambda: not marker.pids(), "its end")


def test_shims_that_are_killed_are_replaced(own_house: House) -> None:
    for _ in range(3):
        own_house.wait_redundant()
        own_house.kill(*own_house.shims())
    assert _comms(own_house) == {"outlive-shim\n"}
    assert "the program of shims is of no use" not in own_house.log()


@pytest.mark.thorough
def test_supervisor_and_guardian_tell_each_other_which_program(own_house: House) -> None:
    for role in ("supervisor", "guardian", "supervisor"):
        own_house.kill(getattr(own_house, role)())
        own_house.wait_redundant()
        own_house.kill(*own_house.shims())
        assert _comms(own_house) == {"outlive-shim\n"}


@pytest.fixture(params=["off", "missing", "not-executable", "another-machines", "another-program"])
def useless(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A path that no shim can be started from."""
    if request.param == "off":
        return "off"
    path = tmp_path / "useless"
    if request.param == "missing":
        return str(path)
    content = {"another-program": "#!/bin/sh\nexit 0\n"}
    path.write_text(content.get(request.param, "\x7fELF\x02\x01\x01 of no machine"))
    path.chmod(0o600 if request.param == "not-executable" else 0o700)
    return str(path)


def test_a_keeper_without_its_program_does_not_start_and_says_what_to_do(
    tmp_path: Path, useless: str
) -> None:
    house = House(tmp_path / "state", env={SHIM_VARIABLE: useless})
    house.state_dir.mkdir(mode=0o700)
    with pytest.raises(BackendUnavailable) as refused:
        house.ensure()
    assert refused.value.code == "keeper_unavailable"
    assert refused.value.message.startswith("The keeper cannot be started: ")
    assert useless in refused.value.message
    assert refused.value.hint == f"Unset {SHIM_VARIABLE}."
    assert not (house.state_dir / "keeper.log").exists()


def test_a_keeper_runs_the_program_that_was_opened_when_it_was_launched(
    own_house: House, tmp_path: Path
) -> None:
    (copy,) = Path(own_house.layout.programs).iterdir()
    copy.unlink()
    copy.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    copy.chmod(0o555)
    for role in ("guardian", "supervisor", "guardian"):
        own_house.kill(getattr(own_house, role)())
        own_house.wait_redundant()
        own_house.kill(*own_house.shims())
        assert own_house.run(*sh("exit 4"), confinement=_STEPS)[0] == 4
    assert json.loads(str(own_house.client.ask("offers")["found"]))["obstacles"]["guarded"] == ""
    assert not (tmp_path / "ran").exists()


def _has_ended(house: House) -> bool:
    house.end()
    return not of_state_folder(house.state_dir)


@pytest.mark.parametrize("change", ["content", "mode", "link", "folder"])
def test_a_copy_that_was_changed_is_made_anew(own_house: House, tmp_path: Path, change: str) -> None:
    (copy,) = Path(own_house.layout.programs).iterdir()
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho outlive-runner 1\n")
    evil.chmod(0o555)
    # The answer to `end` may be lost with the keeper: then the question has started another one, which has no
    # lock yet.
    until(lambda: _has_ended(own_house), "the keeper's end")
    if change == "mode":
        copy.chmod(0o777)
    elif change == "folder":
        copy.unlink()
        copy.mkdir()
    else:
        copy.unlink()
        copy.symlink_to(evil) if change == "link" else shutil.copy(evil, copy)
    if change == "folder":
        with pytest.raises(BackendUnavailable, match="Is a directory"):
            own_house.ensure()
        copy.rmdir()
    half = copy.with_name("unfinished")  # as a launcher leaves it that is killed
    half.unlink(missing_ok=True)
    half.write_bytes(b"\x7fELF")
    half.chmod(0o500)
    own_house.client.connect()
    assert own_house.run(*sh("exit 3"))[0] == 3
    assert os.listdir(own_house.layout.programs) == [copy.name]
    assert not (tmp_path / "ran").exists()
    assert copy.read_bytes() == Path(shim_program()).read_bytes()
    assert not copy.is_symlink()
    assert copy.stat().st_mode & 0o777 == 0o500


@pytest.mark.parametrize("how", ["exit 1", "kill -SEGV $$"])
def test_starts_fail_where_the_program_cannot_begin(
    build_house: Callable[..., House], tmp_path: Path, how: str
) -> None:
    """It says its version, and is of no use as a shim: as where the kernel, or a filter of calls, refuses it
    something.
    """
    path = tmp_path / "cannot-begin"
    script = f"#!/bin/sh\n[ $1 = --version ] && echo outlive-runner 1 && exit\nulimit -c 0; {how}\nexit\n"
    program = Path(shim_program()).read_bytes()
    trailer = 8 + len(LIBRARY_MARK)
    size = int.from_bytes(program[-trailer : -len(LIBRARY_MARK)], "little")
    path.write_bytes(script.encode() + program[-trailer - size :])
    path.chmod(0o700)
    house = build_house(**{SHIM_VARIABLE: str(path)})
    with pytest.raises(KeeperRefused, match="cannot execute its own program"):
        house.run(*sh("exit 5"))
    assert house.log().count("the program of shims is of no use here: it ended with") == 1
