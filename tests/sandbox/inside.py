"""Run inside a sandbox: tries what a profile may forbid, and prints as JSON what happened.

Standard library only.

Arguments: a JSON object of names (see `_ATTEMPTS`). "ok" stands for success, else the name of the errno.
"""

import ctypes
import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

_PTRACE_ATTACH, _PTRACE_DETACH = 16, 17
_BLOCK_DEVICE = 0o060600


def _write_new(path: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write("x")


def _read(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def _truncate(path: str) -> None:
    os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))


def _connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=5).close()


def _send(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"from inside", ("127.0.0.1", port))


def _connect_abstract(name: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + name)


def _attach(pid: int) -> None:
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    if ptrace(_PTRACE_ATTACH, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")
    os.waitpid(pid, 0x40000000)  # __WALL
    ptrace(_PTRACE_DETACH, pid, None, None)


def _become_root(program: str) -> None:
    if subprocess.run([program, "-u"], capture_output=True, check=True).stdout.strip() != b"0":
        raise PermissionError(errno.EPERM, "still nobody")


def _mount(folder: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", folder.encode(), b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")


_ATTEMPTS: dict[str, Callable[[Any], None]] = {
    "write_here": lambda _told: _write_new("made-inside"),
    "write_temporary": lambda _told: _write_new(f"/dev/shm/outlive-test-{os.getpid()}"),
    "write_outside": lambda told: _write_new(f"{told['outside']}/made-inside"),
    "truncate_outside": lambda told: _truncate(f"{told['outside']}/kept"),
    "remove_outside": lambda told: os.unlink(f"{told['outside']}/kept"),
    "read_outside": lambda _told: _read("/etc/passwd"),
    "read_state": lambda told: _read(told["state_file"]),
    "read_home": lambda told: _read(told["home_file"]),
    "tcp": lambda told: _connect(told["tcp"]),
    "udp": lambda told: _send(told["udp"]),
    "abstract": lambda told: _connect_abstract(told["abstract"]),
    "signal": lambda told: os.kill(told["victim"], 0),
    "environ": lambda told: _read(f"/proc/{told['victim']}/environ"),
    "ptrace": lambda told: _attach(told["victim"]),
    "setuid": lambda told: _become_root(told["setuid"]),
    "block_device": lambda _told: os.mknod("disk", _BLOCK_DEVICE, os.makedev(7, 0)),
    "mount": lambda _told: _mount("."),
    "null": lambda _told: _write_new("/dev/null"),
    "stdout": lambda _told: _write_new("/dev/stdout"),
}


def main() -> None:
    """Try everything that was named."""
    told = json.loads(sys.argv[1])
    found = {}
    for name in told["attempts"]:
        try:
            _ATTEMPTS[name](told)
            found[name] = "ok"
        except OSError as error:
            found[name] = errno.errorcode[error.errno or 0]
        except subprocess.SubprocessError:
            found[name] = "failed"
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
