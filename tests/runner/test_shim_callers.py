"""Who a shim listens to: the process that holds the supervisor's lock, and no command, whatever it says
(issue 19, 1).
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.kernel import sockets
from outlive.kernel.locks import take_lock
from tests.runner.playing import Supervisor, exec_spec, wait_until
from tests.runner.shims import KINDS, Shim
from tests.support.processes import end

_WAYS = {"pidfd": {}, "older": {"OUTLIVE_DEGRADE": "peer_pidfd"}}
# What a command of the same user does, with nothing of ours: says everything, hands descriptors over, and
# listens.
_STRANGER = """
import array, json, os, socket, sys
folder, words, ways = sys.argv[1], json.loads(sys.argv[2]), sys.argv[4:]
sys.path.insert(0, sys.argv[3])
import forging
if "bound" in ways:
    forging.bind_ourselves()
locked = forging.forge(folder, replaces="replace" in ways) if {"write", "replace"} & set(ways) else []
heard = []
for said in words:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.settimeout(20)
        link.connect(folder + "/sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("")
        listener.listen()
        null = os.open("/dev/null", os.O_RDWR)
        fds = array.array("i", [listener.fileno(), null, null, null])
        try:
            link.sendmsg([said.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        except OSError:
            pass
        try:
            message, ancillary, _, _ = link.recvmsg(4096, 1024)
        except ConnectionResetError:
            message, ancillary = b"", []
        heard.append([message.decode(), len(ancillary)])
print(json.dumps([heard, locked]))
"""
_FORGING = Path(__file__).parents[1] / "sandbox"
_NAMES = ["supervisor.lock", "supervisor.pid"]


@pytest.fixture(params=_WAYS, ids=list(_WAYS))
def way(request: pytest.FixtureRequest) -> dict[str, str]:
    return dict(_WAYS[str(request.param)])


@pytest.fixture(params=KINDS)
def shim(request: pytest.FixtureRequest, shims: Callable[..., Shim], way: dict[str, str]) -> Shim:
    return shims(str(request.param), env=way)


def _said_to(shim: Shim, *words: str) -> list[list[object]]:
    heard, locked = _forged_to(shim, "", *words)
    assert locked == []
    return heard


def _forged_to(shim: Shim, way: str, *words: str) -> tuple[list[list[object]], list[str]]:
    """Return what a stranger heard that made itself the holder in such a way, and which locks it got."""
    told = [str(shim.folder), json.dumps(words), str(_FORGING), *way.split()]
    done = subprocess.run(
        [sys.executable, "-S", "-c", _STRANGER, *told],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    heard, locked = json.loads(done.stdout)
    assert isinstance(heard, list)
    assert isinstance(locked, list)
    return heard, locked


@pytest.mark.promise("A.keeper")
def test_a_command_is_told_nothing_and_changes_nothing(shim: Shim, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    run = tmp_path / "it-ran"
    (trap / "spec").write_bytes(exec_spec(("/bin/sh", "-c", f"echo > {run}")))
    shim.spawn("/bin/cat")
    pid, _, _ = shim.spawned()
    record = (shim.folder / "pid").read_bytes()
    words = (
        "",
        "hello 1",
        "release",
        "quit",
        "close ioe",
        f"hold LIOE {trap}",
        f"spawn LIOE {trap}",
        "keep rwp",
    )
    assert _said_to(shim, *words) == [["", 0]] * len(words)
    assert not run.exists()
    assert sorted(os.listdir(trap)) == ["spec"]
    assert (shim.folder / "pid").read_bytes() == record
    # The supervisor's link is the one that it was, and everything is held still.
    assert shim.supervisor.is_silent()
    os.write(shim.held["i"], b"whole\n")
    assert os.read(shim.held["o"], 100) == b"whole\n"
    shim.supervisor.send("close i")
    os.close(shim.held.pop("i"))
    assert shim.ended() == ["exited", "0", "1"]
    assert shim.process.poll() is None
    assert not Path(f"/proc/{pid}").exists()


def test_the_holder_of_the_lock_is_served_after_all_that(shim: Shim) -> None:
    shim.spawn("/bin/cat")
    shim.spawned()
    for _ in range(3):
        assert _said_to(shim, "release") == [["", 0]]
        assert shim.take_over()[:2] == ["own", "ioe"]


def test_without_its_lock_a_supervisor_is_none_and_the_link_lasts(shim: Shim) -> None:
    shim.spawn("/bin/cat")
    shim.spawned()
    shim.give_up_locks()
    other = Supervisor(sockets.connect_unix(str(shim.folder / "sock")))
    assert other.packet() == (b"", [])
    other.close()
    shim.supervisor.send("close i")
    os.close(shim.held.pop("i"))
    assert shim.ended() == ["exited", "0", "1"]


def test_a_state_folder_that_was_moved_is_still_the_same(shim: Shim, tmp_path: Path) -> None:
    shim.spawn("/bin/cat")
    shim.spawned()
    shim.folder = shim.folder.rename(tmp_path / "moved")
    assert shim.take_over()[0] == "own"


@pytest.mark.promise("A.keeper")
@pytest.mark.parametrize("forged", ["write", "replace", "write bound", "replace bound"])
def test_a_command_that_makes_itself_the_holder_in_the_files_is_refused(shim: Shim, forged: str) -> None:
    """It writes its pid and its start time into them, or puts files of its own there, which it locks."""
    shim.spawn("/bin/cat")
    shim.spawned()
    heard, locked = _forged_to(shim, forged, "", "release", "quit")
    assert heard == [["", 0]] * 3
    assert locked == (_NAMES if "replace" in forged else [])
    for name in _NAMES if "replace" in forged else []:
        (shim.folder / f"{name}.aside").rename(shim.folder / name)
    assert shim.supervisor.is_silent()
    assert shim.take_over()[:2] == ["own", "ioe"]


@pytest.mark.promise("A.keeper")
@pytest.mark.parametrize("forged", ["write bound", "replace bound"])
def test_a_guarded_command_is_refused_although_it_has_the_lock(shim: Shim, forged: str) -> None:
    """It has killed the supervisor: nothing it asks a shim for may gain privileges that it cannot gain
    itself.
    """
    shim.spawn("/bin/cat")
    shim.spawned()
    shim.give_up_locks()
    heard, locked = _forged_to(shim, forged, "", "release", "quit")
    assert heard == [["", 0]] * 3
    assert locked == _NAMES
    shim.take_locks()
    assert shim.take_over()[:2] == ["own", "ioe"]


def test_a_lock_that_was_made_anew_counts_while_no_process_holds_the_first(shim: Shim) -> None:
    shim.spawn("/bin/cat")
    shim.spawned()
    shim.give_up_locks()
    for name in _NAMES:
        (shim.folder / name).unlink()
    shim.take_locks()
    assert shim.take_over()[0] == "own"


@pytest.mark.parametrize("kind", KINDS)
def test_a_peer_that_holds_the_other_lock_alone_is_refused(shims: Callable[..., Shim], kind: str) -> None:
    """What an older supervisor holds any command can hold, and write into: such a supervisor is not
    served.
    """
    shim = shims(kind)
    shim.spawn("/bin/cat")
    shim.spawned()
    shim.give_up_locks()
    lock = take_lock(str(shim.folder / "supervisor.lock"))
    assert lock is not None
    other = Supervisor(sockets.connect_unix(str(shim.folder / "sock")))
    assert other.packet() == (b"", [])
    other.close()
    os.close(lock)


@pytest.mark.root("a keeper's memory and descriptors are closed to its user")
@pytest.mark.parametrize("kind", KINDS)
def test_a_shim_without_descriptors_waits_for_one_and_serves_then(
    shims: Callable[..., Shim], kind: str
) -> None:
    """Only the lock's holder gets that far; everybody else is refused without one."""
    shim = shims(kind)
    shim.spawn("/bin/cat")
    pid, _, _ = shim.spawned()
    known = resource.prlimit(shim.process.pid, resource.RLIMIT_NOFILE)
    used = {int(fd) for fd in os.listdir(f"/proc/{shim.process.pid}/fd")}
    free = sorted(set(range(max(used) + 3)) - used)
    try:
        # One for the connection, none for the proof.
        resource.prlimit(shim.process.pid, resource.RLIMIT_NOFILE, (free[1], known[1]))
        assert _said_to(shim, "release") == [["", 0]]
        link = sockets.connect_unix(str(shim.folder / "sock"))
        waiting = Supervisor(link)
        assert waiting.is_silent()
    finally:
        resource.prlimit(shim.process.pid, resource.RLIMIT_NOFILE, known)
    message, fds = waiting.packet()
    assert message.startswith(b"state own ioe %d " % pid)
    for fd in fds:
        os.close(fd)
    waiting.close()
    end(pid)
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
