"""A command connects in a child, lets it die, and asks when a process outside of outlive has the child's pid.

Runs as the first process of a pid namespace (`unshare --pid --fork --mount-proc`), where the next pid can be
chosen, and prints what the command got. Its first word is the kernel: "old" says nothing of SO_PEERPIDFD, as
before Linux 6.5, and "oldest" has no sock_diag either, so that when a process began is all there is to go by.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from outlive.core.layout import Layout
from outlive.kernel.locks import holder_of
from tests.attacks.attacking import Requests
from tests.support.server import OutliveServer

DOORS = ("server", "server stopped", "keeper", "keeper stopped")
KERNELS = {"new": "", "old": "peer_pidfd", "oldest": "peer_pidfd,unix_diag"}  # what each is without
_PATIENCE_S = 60.0
_NEXT_PID = Path("/proc/sys/kernel/ns_last_pid")

# The command. The child is the one that connects; the parent holds the connection and asks later.
_COMMAND = """
import http.client, json, os, signal, socket, sys, time
from pathlib import Path
folder, path, stopped = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
is_keeper = path.endswith("keeper.sock")
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET if is_keeper else socket.SOCK_STREAM)
link.settimeout(20)
if stopped:
    os.kill(stopped, signal.SIGSTOP)
child = os.fork()
if child == 0:
    link.connect(path)
    os._exit(0)
os.waitpid(child, 0)
(folder / "new").write_text(str(child))
(folder / "new").rename(folder / "free")
while not (folder / "taken").exists():
    time.sleep(0.01)
if is_keeper:
    link.send(b'J{"op": "stop", "id": "%s", "cause": 1, "grace_s": 0, "req": 1}' % sys.argv[4].encode())
    got = json.loads(link.recv(1 << 18)[1:].partition(b"\\0")[0]).get("error", "obeyed")
else:
    link.sendall(b"GET /v1/processes HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
    got = link.recv(1 << 16).split()[1].decode()
(folder / "got").write_text(got)
(folder / "got").rename(folder / "answer")
"""


def _wait_for(path: Path) -> str:
    deadline = time.monotonic() + _PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.005)
    return path.read_text()


@contextlib.contextmanager
def _process_with(pid: int) -> Iterator[None]:
    """Start a process that has this pid, which is free; the ones of other numbers are ended at once."""
    for _ in range(1000):
        _NEXT_PID.write_text(str(pid - 1))
        stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
        is_it = stranger.pid == pid
        try:
            if is_it:
                yield
                return
        finally:
            stranger.kill()
            stranger.wait()
    raise AssertionError("somebody else has taken the pid again and again")


def _attack(server: OutliveServer, folder: Path, door: str) -> str:
    folder.mkdir()
    mine = Requests(server)
    victim = mine.start("sleep 60")["process_id"]
    name, _, stopped = door.partition(" ")
    # Not asked of the keeper: on the oldest kernel it does not know a command line tool, which has just
    # begun.
    pids = {"server": server.pid, "keeper": holder_of(Layout(str(server.state_dir)).supervisor_lock)}
    words: list[Any] = [sys.executable, "-I", "-S", "-c", _COMMAND, folder]
    words += [server.state_dir / f"{name}.sock", pids[name] if stopped else 0, victim]
    mine("POST", "/v1/processes", body={"argv": list(map(str, words)), "profile": "open"})
    pid = int(_wait_for(folder / "free"))
    with _process_with(pid):
        if stopped:
            os.kill(pids[name] or 0, signal.SIGCONT)
        (folder / "taken").touch()
        answer = _wait_for(folder / "answer")
    state = mine("GET", f"/v1/processes/{victim}").body["state"]
    mine("POST", f"/v1/processes/{victim}/control", body={"action": "cancel", "grace": 0})
    return answer if state == "running" else f"{answer}, and the victim is {state}"


def main() -> None:
    """Attack each door, and print what each said."""
    kernel, folder = sys.argv[1], Path(sys.argv[2])
    server = OutliveServer(folder / "state", env={"OUTLIVE_DEGRADE": KERNELS[kernel]}).start()
    found = {door: _attack(server, folder / door.replace(" ", "-"), door) for door in DOORS}
    found["own"] = _own(server, tries=20 if kernel == "oldest" else 1)
    # The oldest kernel's keeper does not know `outlive keeper stop`, which has just begun; all ends with us,
    # the namespace's init.
    if kernel != "oldest":
        server.close()
    print(json.dumps(found))


# A process outside. One that has just begun counts as gone on the oldest kernel, and is known when it comes
# again.
_OWN = """
import socket, sys, time
for turn in range(int(sys.argv[2])):
    time.sleep(min(turn, 1) * 0.2)
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(20)
        link.connect(sys.argv[1])
        link.sendall(b"GET /v1/processes HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
        status = link.recv(1 << 16).split()[1].decode()
    if status == "200":
        break
print(status)
"""


def _own(server: OutliveServer, *, tries: int) -> str:
    """Return what a process outside gets over the Unix socket, while a command lives."""
    Requests(server).start("sleep 60")
    words = [sys.executable, "-I", "-S", "-c", _OWN, str(server.state_dir / "server.sock"), str(tries)]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


if __name__ == "__main__":
    main()
