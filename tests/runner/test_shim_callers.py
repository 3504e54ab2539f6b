"""Who a shim listens to: the process that holds the supervisor's lock, and no command, whatever it says (issue 19, 1)."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.keeper import sockets
from outlive.keeper.locks import take_lock
from tests.runner.playing import Supervisor, exec_spec, wait_until
from tests.runner.shims import KINDS, Shim
from tests.support.processes import end

_WAYS = {"pidfd": {}, "older": {"OUTLIVE_DEGRADE": "peer_pidfd"}}
# What a command of the same user does, with nothing of ours: says everything, hands descriptors over, and listens.
_STRANGER = """
import array, json, os, socket, sys
folder, words = sys.argv[1], json.loads(sys.argv[2])
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
print(json.dumps(heard))
"""


@pytest.fixture(params=_WAYS, ids=list(_WAYS))
def way(request: pytest.FixtureRequest) -> dict[str, str]:
    return dict(_WAYS[str(request.param)])


@pytest.fixture(params=KINDS)
def shim(request: pytest.FixtureRequest, shims: Callable[..., Shim], way: dict[str, str]) -> Shim:
    return shims(str(request.param), env=way)


def _said_to(shim: Shim, *words: str) -> list[list[object]]:
    done = subprocess.run(
        [sys.executable, "-S", "-c", _STRANGER, str(shim.folder), json.dumps(words)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers = json.loads(done.stdout)
    assert isinstance(answers, list)
    return answers


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
    shim.give_up_lock()
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


def test_a_lock_that_somebody_made_anew_is_the_one_that_counts(shim: Shim) -> None:
    shim.spawn("/bin/cat")
    shim.spawned()
    lock = shim.folder / "supervisor.lock"
    shim.give_up_lock()
    lock.unlink()
    shim.lock = take_lock(str(lock))
    assert shim.take_over()[0] == "own"


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
