"""Who may talk to the keeper, what it says about itself, and when it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.keeper.common.spawn import keeper_argv, keeper_environment
from outlive.kernel.files import is_written
from outlive.kernel.sockets import connect_unix
from outlive.kernel.state_files import read_journal
from outlive.protocols.keeper import CauseCode
from tests.keeper.client import KeeperGone, KeeperRefused, until
from tests.keeper.house import House, sh
from tests.support.processes import Gate, is_alive, of_state_folder, wait_state_folder_empty

_ASK_AS_SOMEBODY_ELSE = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.settimeout(10)
link.connect(sys.argv[1])
try:
    link.send(b'J{"op": "status", "req": 1}')
    print(link.recv(65536))
except ConnectionError:
    print("closed")
"""


def test_status_tells_who_is_there(house: House, gate: Gate) -> None:
    process_id = house.start(*sh(gate.wait))
    status = house.wait_redundant()
    assert status["processes"] == 1
    assert is_alive(house.supervisor())
    assert is_alive(house.guardian())
    assert house.supervisor() == house.supervisor_of_lock()
    gate.open()
    house.client.wait_done(process_id)


@pytest.mark.root("only root can become somebody else")
@pytest.mark.parametrize("name", ["keeper.sock", "guardian.sock"])
def test_another_user_is_refused(own_house: House, tmp_path: Path, name: str) -> None:
    """Even where the folder's permissions would let them in."""
    own_house.run(*sh("true"))
    path = own_house.state_dir / name
    for folder in [own_house.state_dir, *own_house.state_dir.parents]:
        if folder.owner() == "root" and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    path.chmod(0o777)
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _ASK_AS_SOMEBODY_ELSE, str(path)],
        check=True,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert said.stdout.strip() in {"closed", "b''"}
    assert own_house.status()["ok"]


def test_the_files_of_the_state_folder_are_for_their_owner_only(own_house: House) -> None:
    process_id = own_house.start(*sh("echo secret"))
    own_house.client.wait_done(process_id)
    open_to_others = [
        str(path)
        for path in [own_house.state_dir, *own_house.state_dir.rglob("*")]
        if not path.is_socket() and path.exists() and path.stat().st_mode & 0o077
    ]
    assert open_to_others == []


def test_an_idle_keeper_ends_by_itself(build_house: Callable[..., House]) -> None:
    house = build_house(OUTLIVE_KEEPER_IDLE_S="0.2")
    house.run(*sh("true"))
    house.client.close()
    until(lambda: not of_state_folder(house.state_dir), "the keeper's end")
    assert house.run(*sh("exit 6"))[0] == 6, "and it is started again when it is needed"


@pytest.mark.thorough
def test_a_keeper_with_something_to_keep_stays(build_house: Callable[..., House], gate: Gate) -> None:
    house = build_house(OUTLIVE_KEEPER_IDLE_S="0.2")
    process_id = house.start(*sh(f"{gate.wait}; exit 5"))
    supervisor = house.supervisor()
    house.client.close()
    # The keeper looks once a second: two ends of short commands later it has looked.
    short = House(house.state_dir, env={"OUTLIVE_KEEPER_IDLE_S": "0.2"})
    for _ in range(2):
        with short.client:
            short.run(*sh("sleep 1.1"))
    assert is_alive(supervisor)
    gate.open()
    until(lambda: is_written(f"{house.folder(process_id)}/done"), "the end of the command")
    assert house.wire_code(process_id) == 5


def test_the_end_leaves_no_shim_although_a_stranger_holds_a_stream_open(own_house: House) -> None:
    """What is done is let go of at the end, whatever is left of it; no next supervisor would come and ask."""
    process_id = own_house.start("/bin/sleep", "60")
    with open(f"/proc/{own_house.pid(process_id)}/fd/1", "wb"):
        own_house.client.ask("end", kill=True)
        until(lambda: not of_state_folder(own_house.state_dir), "the keeper's end")
    assert own_house.done(process_id)["cause"] == CauseCode.SHUTDOWN


def test_ending_is_refused_while_something_lives(own_house: House) -> None:
    process_id = own_house.start("/bin/sleep", "60")
    with pytest.raises(KeeperRefused, match="process_running") as refused:
        own_house.client.ask("end")
    assert refused.value.reply["details"] == {"processes": 1, "ids": [process_id]}
    pid = own_house.pid(process_id)
    own_house.client.ask("end", kill=True)
    until(lambda: not of_state_folder(own_house.state_dir), "the keeper's end")
    assert not is_alive(pid)
    assert own_house.wire_code(process_id) in {-15, -9}
    assert own_house.done(process_id)["cause"] == CauseCode.SHUTDOWN


def test_a_stranger_with_an_ended_commands_output_does_not_keep_its_shim(own_house: House) -> None:
    process_id = own_house.start(*sh("sleep 60"))
    stranger = os.open(f"/proc/{own_house.pid(process_id)}/fd/1", os.O_WRONLY)
    try:
        own_house.client.ask("stop", id=process_id, cause=int(CauseCode.CANCEL), grace_s=0.0)
        own_house.client.wait_done(process_id)
        own_house.client.ask("end")
        own_house.client.close()
        assert not wait_state_folder_empty(own_house.state_dir)
    finally:
        os.close(stranger)


def test_ending_an_empty_keeper_needs_no_force(own_house: House) -> None:
    own_house.run(*sh("true"))
    until(lambda: own_house.status()["processes"] == 0, "an empty keeper")
    own_house.client.ask("end")
    own_house.client.close()
    until(lambda: not of_state_folder(own_house.state_dir), "the keeper's end")


def test_ending_works_just_after_the_guardian_died(own_house: House) -> None:
    own_house.run(*sh("true"))
    own_house.kill(own_house.guardian())
    own_house.client.ask("end", kill=True)
    own_house.client.close()
    # Less than the idle time of a keeper that came up once more.
    until(lambda: not of_state_folder(own_house.state_dir), "the keeper's end", patience_s=8.0)


_LISTEN_AND_NEVER_ACCEPT = """
import sys, time
from outlive.kernel.locks import take_lock
from outlive.kernel.sockets import listen_unix
while take_lock(sys.argv[1] + "/guardian.lock") is None:
    time.sleep(0.002)
listener = listen_unix(sys.argv[1] + "/guardian.sock")
print("listening", flush=True)
time.sleep(60)
"""


@pytest.mark.usefixtures("stays_stopped")
def test_a_guardian_that_listens_and_has_not_met_the_supervisor_ends_with_it(own_house: House) -> None:
    """The kernel connects them before the guardian accepts: what it is told then it may never read."""
    supervisor, guardian = own_house.supervisor(), own_house.guardian()
    os.kill(supervisor, signal.SIGSTOP)
    own_house.kill(guardian)
    argv = [sys.executable, "-c", _LISTEN_AND_NEVER_ACCEPT, str(own_house.state_dir)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as unmet:
        assert unmet.stdout is not None
        assert unmet.stdout.readline() == "listening\n"
        os.kill(supervisor, signal.SIGCONT)
        until(lambda: own_house.guardian() == unmet.pid, "the connection to the next guardian")
        own_house.client.ask("end", kill=True)
        own_house.client.close()
        assert unmet.wait(10) == -signal.SIGKILL
    until(lambda: not of_state_folder(own_house.state_dir), "the keeper's end", patience_s=8.0)


@pytest.mark.parametrize("role", ["guardian", "supervisor"])
def test_what_was_still_being_started_when_the_keeper_ended_starts_nothing(
    own_house: House, role: str
) -> None:
    own_house.run(*sh("true"))
    argv = keeper_argv(role, str(own_house.state_dir))
    # A guardian is late by all the time that Python needs to load; a supervisor waits for the lock of the one
    # before.
    late = subprocess.Popen(argv, env=keeper_environment()) if role == "supervisor" else None
    own_house.client.ask_surely("end", kill=True)
    own_house.client.close()
    with late or subprocess.Popen(argv, env=keeper_environment()) as late:
        assert late.wait(10) == 0
    until(lambda: not of_state_folder(own_house.state_dir), "the keeper's end", patience_s=8.0)
    assert own_house.run(*sh("exit 4"))[0] == 4, "and a client's launch starts it again"


@pytest.mark.parametrize(
    "packet", [b"nonsense", b"J[1]", b"J{", b"J\0\0", b"D" + bytes(48), b"J" + b"x" * 60_000]
)
def test_whoever_talks_nonsense_is_disconnected_and_nobody_else(house: House, packet: bytes) -> None:
    link = connect_unix(house.layout.keeper_socket)
    link.settimeout(10.0)
    link.send(packet)
    assert _is_closed(link)
    link.close()
    assert house.run(*sh("exit 3"))[0] == 3


def _is_closed(link: socket.socket) -> bool:
    try:
        return link.recv(65536) == b""
    except ConnectionResetError:
        return True


def test_the_journal_names_what_lives_and_nothing_else(own_house: House) -> None:
    process_id = own_house.start("/bin/sleep", "60")
    for _ in range(5):
        own_house.run(*sh("true"))
    until(lambda: own_house.status()["processes"] == 1, "one process")
    until(lambda: read_journal(own_house.layout.live) == [process_id], "one live process in the journal")


def test_what_a_retired_supervisor_was_asked_is_asked_again(own_house: House) -> None:
    process_id = own_house.start("/bin/sleep", "60")
    own_house.client.ask("retire")
    with pytest.raises(KeeperGone):
        own_house.client.ask("pause", id=process_id)
    own_house.client.ask_surely("stop", id=process_id, cause=1, grace_s=10.0)
    own_house.client.wait_done(process_id)
    assert json.loads((own_house.folder(process_id) / "stop").read_text())["cause"] == 1


_START_WITH_FEW_DESCRIPTORS = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))
from outlive.discovery.keeper import ensure_keeper
ensure_keeper(sys.argv[1])
"""


def test_more_processes_than_descriptors_allow_are_refused_clearly(tmp_path: Path) -> None:
    house = House(tmp_path / "state")
    house.state_dir.mkdir(mode=0o700)
    subprocess.run([sys.executable, "-c", _START_WITH_FEW_DESCRIPTORS, str(house.state_dir)], check=True)
    with house:
        started: list[str] = []
        with pytest.raises(KeeperRefused, match="process_limit") as refused:
            started.extend(house.start("/bin/sleep", "60") for _ in range(200))
        assert f"{len(started)} processes" in str(refused.value)
        for process_id in started[:2]:
            house.client.ask("stop", id=process_id, cause=int(CauseCode.CANCEL), grace_s=0.0)
        until(lambda: house.status()["processes"] == len(started) - 2, "two ends")
        assert house.run(*sh("exit 3"))[0] == 3
        house.kill(house.supervisor())
        assert house.wait_redundant()["processes"] == len(started) - 2


_START_WITH_LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (900, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from outlive.discovery.keeper import ensure_keeper
ensure_keeper(sys.argv[1])
"""


def test_commands_may_open_as_many_files_as_whoever_started_the_keeper_ever_after(tmp_path: Path) -> None:
    """The supervisor allows itself more, and starts a killed guardian again, from which commands come."""
    house = House(tmp_path / "state")
    house.state_dir.mkdir(mode=0o700)
    subprocess.run([sys.executable, "-c", _START_WITH_LIMIT, str(house.state_dir)], check=True)
    with house:
        assert house.run(*sh("ulimit -Sn; ulimit -Hn"))[1].split()[0] == b"900"
        house.kill(house.guardian())
        house.wait_redundant()
        # More than there are idle shims of the old one.
        started = [house.start(*sh("ulimit -Sn; exec sleep 60")) for _ in range(70)]
        for process_id in started:
            until(lambda one=process_id: house.out(one) == b"900\n", "the same limit")  # type: ignore[misc]
