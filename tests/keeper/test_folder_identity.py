"""A copy of a state folder lets the original's commands alone; a folder that was moved keeps them."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.keeper.common.spawn import keeper_argv
from outlive.kernel.files import is_written
from outlive.kernel.folder_identity import claim_folder
from outlive.kernel.lock_proof import open_pid_lock, take_pid_lock
from outlive.kernel.locks import take_lock
from outlive.kernel.sockets import connect_unix, receive
from outlive.kernel.state_files import read_end
from tests.keeper.client import until
from tests.keeper.house import House, sh
from tests.support.processes import Gate, is_alive

pytestmark = pytest.mark.thorough

BuildHouse = Callable[..., House]
_STEPS = ("no_new_privileges",)
_CLAIMS = ("identity.lost", "identity.let_go", "identity.written")


def _copy(house: House, *words: str, to: str = "copy") -> Path:
    copy = house.state_dir.with_name(to)
    subprocess.run(["cp", *(words or ("-a",)), str(house.state_dir), str(copy)], check=True)
    return copy


def _start_both(house: House, gate: Gate) -> list[str]:
    """Start a plain command and one with a step of a sandbox, which end with 7 once the gate opens."""
    line = f"echo early; {gate.wait}; echo late; exit 7"
    started = [house.start(*sh(line), confinement=steps) for steps in (None, _STEPS)]
    for process_id in started:
        house.wait_output(process_id, 6)
    return [str(one) for one in started]


def _see_both_end(house: House, started: list[str], gate: Gate) -> None:
    gate.open()
    for process_id in started:
        house.client.wait_done(process_id)
        assert (house.wire_code(process_id), house.out(process_id)) == (7, b"early\nlate\n")
        assert not house.done(process_id)["holder_lost"]


def _kill_keeper(house: House) -> None:
    house.client.close()
    guardian, supervisor = house.guardian(), house.supervisor()
    house.client.close()
    house.kill(guardian, supervisor)
    while (again := house.supervisor_of_lock()) is not None:  # one of them had started the other again
        house.kill(again, *house.guardians())


@pytest.mark.promise("A.copy")
@pytest.mark.parametrize("words", [("-a",), ("-al",)], ids=["files", "hard links"])
@pytest.mark.parametrize("is_stopped", [False, True], ids=["original serves", "original's keeper is dead"])
def test_a_copy_takes_nothing_over_and_ends_nothing(
    build_house: BuildHouse, gate: Gate, words: tuple[str, ...], *, is_stopped: bool
) -> None:
    """`keeper stop --kill` in the copy, its timeouts and its stops reach no command of the original."""
    house = build_house()
    started = _start_both(house, gate)
    pids = [house.pid(one) for one in started]
    if is_stopped:
        _kill_keeper(house)
    with House(_copy(house, *words)) as copy:
        assert copy.status()["processes"] == 0
        for process_id in started:
            ended = read_end(str(copy.folder(process_id)))
            assert ended is not None
            assert (ended.kind, ended.note) == ("lost", "copied")
        assert copy.run(*sh("exit 3"))[0] == 3, "the copy is a state folder like any other"
        copy.client.ask_surely("end", kill=True)
    assert all(map(is_alive, pids))
    house.client.connect()
    assert house.status()["processes"] == 2
    _see_both_end(house, started, gate)


@pytest.mark.promise("A.copy")
@pytest.mark.parametrize("point", _CLAIMS)
def test_a_kill_while_the_copy_takes_its_identity_changes_nothing(
    build_house: BuildHouse, gate: Gate, tmp_path: Path, point: str
) -> None:
    house = build_house()
    started = _start_both(house, gate)
    pids = [house.pid(one) for one in started]
    copied = _copy(house)
    token = tmp_path / "token"
    token.touch()
    env = {**os.environ, "OUTLIVE_FAILPOINT": f"{point}@{token}"}
    subprocess.run(keeper_argv("guardian", str(copied), "--first"), env=env, check=False)
    until(lambda: not token.exists(), "the kill")
    with House(copied) as copy:
        assert copy.status()["processes"] == 0
    assert all(map(is_alive, pids))
    assert (house.state_dir / "identity").read_text() != (copied / "identity").read_text()
    _see_both_end(house, started, gate)


@pytest.mark.promise("A.copy")
def test_a_shim_serves_no_copy_that_lies_where_its_folder_lay(build_house: BuildHouse, gate: Gate) -> None:
    """Although the copy's `processes` leads to the same socket, and its supervisor holds the lock at the same
    path.
    """
    house = build_house()
    process_id = house.start(*sh(f"echo early; {gate.wait}; exit 7"))
    house.wait_output(process_id, 6)
    _kill_keeper(house)
    original = house.state_dir.with_name("original")
    house.state_dir.rename(original)
    subprocess.run(["cp", "-a", str(original), str(house.state_dir)], check=True)
    lock = take_lock(house.layout.supervisor_lock)
    assert lock is not None
    pid_lock = open_pid_lock(house.layout.supervisor_pid)
    assert take_pid_lock(pid_lock)
    with connect_unix(f"{original}/processes/{process_id}/sock") as link:
        link.settimeout(20)
        assert receive(link) == (b"", []), "it is hung up on"
    os.close(lock)
    os.close(pid_lock)
    shutil.rmtree(house.state_dir)
    with House(original) as moved:
        assert moved.status()["processes"] == 1
        gate.open()
        moved.client.wait_done(process_id)
        assert moved.wire_code(process_id) == 7


@pytest.mark.promise("A.moved")
@pytest.mark.parametrize("is_stopped", [False, True], ids=["keeper runs", "keeper is dead"])
def test_a_moved_folder_keeps_its_commands(build_house: BuildHouse, gate: Gate, *, is_stopped: bool) -> None:
    house = build_house()
    started = _start_both(house, gate)
    name = (house.state_dir / "identity").read_text()
    if is_stopped:
        _kill_keeper(house)
    else:
        house.client.close()
    place = house.state_dir.with_name("elsewhere")
    old = house.supervisor_of_lock()
    house.state_dir.rename(place)
    if old is not None:
        until(lambda: not is_alive(old), "the supervisor to follow")
    with House(place) as moved:
        assert moved.status()["processes"] == 2
        assert moved.run(*sh("exit 3"))[0] == 3
        _see_both_end(moved, started, gate)
        assert (place / "identity").read_text() == name
    assert not house.state_dir.exists()


@pytest.mark.promise("A.moved")
def test_an_end_between_move_and_takeover_is_known(build_house: BuildHouse, gate: Gate) -> None:
    """Its shim finds no place for the record, keeps the end in memory and waits for a supervisor."""
    house = build_house()
    process_id = house.start(*sh(f"echo early; {gate.wait}; echo late; exit 7"))
    pid = house.pid(process_id)
    _kill_keeper(house)
    place = house.state_dir.with_name("elsewhere")
    house.state_dir.rename(place)
    gate.open()
    until(lambda: not is_alive(pid), "the command's end")
    with House(place) as moved:
        until(lambda: is_written(f"{moved.folder(process_id)}/done"), "what is left to be taken over")
        assert (moved.wire_code(process_id), moved.out(process_id)) == (7, b"early\nlate\n")


@pytest.mark.promise("A.copy")
def test_after_a_boot_another_number_of_the_device_makes_no_copy(build_house: BuildHouse) -> None:
    house = build_house()
    _kill_keeper(house)
    words = (house.state_dir / "identity").read_text().split(" ")
    (house.state_dir / "identity").write_text(" ".join([*words[:3], "1", words[4], "an-earlier-boot\n"]))
    house.client.connect()
    assert (house.state_dir / "identity").read_text().split(" ") == words


@pytest.mark.promise("A.copy")
def test_a_copy_goes_on_with_no_services_of_the_original(tmp_path: Path) -> None:
    """Else each of them would run twice."""
    folder = tmp_path / "state"
    folder.mkdir()
    claim_folder(Layout(str(folder)))
    (folder / "services").mkdir()
    (folder / "services" / "one.json").write_text("{}")
    (folder / "server.wanted").touch()
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-al", str(folder), str(copy)], check=True)
    claim_folder(Layout(str(copy)))
    assert os.listdir(copy / "services") == ["one.json.copied"]
    assert not (copy / "server.wanted").exists()
    claim_folder(Layout(str(folder)))
    assert (os.listdir(folder / "services"), (folder / "server.wanted").exists()) == (["one.json"], True)
