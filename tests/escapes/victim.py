"""What an attack is aimed at: one process of the same user with files, sockets, keys and System V IPC.

Standard library only.

`victim.py FOLDER` makes all of it, prints one line of JSON that says where it is, and for each line it reads
prints how things stand with it. At the end of its input it leaves nothing.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import Any

_SECRET = ctypes.create_string_buffer(b"secret", 7)
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
_LIBC.shmat.restype = ctypes.c_void_p
_KEYCTL, _ADD_KEY, _HANDLE = {"x86_64": (250, 248, 303), "aarch64": (219, 217, 264)}[os.uname().machine]
_USER_KEYRING = -4
_RIGHTS = 0x3F3F0000  # whoever has it, and its user: everything
_SPARE = 2  # of each kind: one that is looked at, one to be removed


class Victim:
    """Everything that one process has."""

    def __init__(self, folder: str) -> None:
        self._signals = 0
        for number in (signal.SIGURG, signal.SIGTERM, signal.SIGXCPU):
            signal.signal(number, self._count)
        self._ipc_key = os.getpid() | 0x0F000000
        self._folder = folder
        self._sockets: list[socket.socket] = []
        self._terminal = os.openpty()
        self._shm = [_LIBC.shmget(key, 64, 0o1600) for key in (self._ipc_key, 0, 0)]
        for shm in self._shm:
            ctypes.memmove(_LIBC.shmat(shm, None, 0), b"secret", 6)
        self._sem = [_LIBC.semget(key, 1, 0o1600) for key in (self._ipc_key, 0)]
        self._msg = [_LIBC.msgget(key, 0o1600) for key in (self._ipc_key, 0)]
        _LIBC.msgsnd(self._msg[0], struct.pack("<q", 1) + b"secret", 6, 0)
        self._queues = [b"outlive-victim-%d-%d" % (os.getpid(), turn) for turn in range(_SPARE)]
        # One small message each: of the usual size a user may have nine queues (RLIMIT_MSGQUEUE), and there
        # are several victims.
        attributes = struct.pack("<8q", 0, 1, 16, 0, 0, 0, 0, 0)
        for name in self._queues:
            if _LIBC.mq_open(b"/" + name, os.O_CREAT | os.O_RDWR, 0o600, attributes) < 0:
                raise OSError(ctypes.get_errno(), "no message queue can be made")
        self._key_names = [f"outlive-{name}-{os.getpid()}" for name in ("victim", "spare")]
        self._keys = [self._add_key(name.encode()) for name in self._key_names]

    def _count(self, *_: object) -> None:
        self._signals += 1

    def _add_key(self, name: bytes) -> int:
        key = int(_LIBC.syscall(_ADD_KEY, b"user", name, _SECRET, ctypes.c_size_t(6), _USER_KEYRING))
        if key > 0:
            _LIBC.syscall(_KEYCTL, 5, key, _RIGHTS)
        return max(0, key)

    def _listen(self, kind: int, name: str) -> str:
        each = socket.socket(socket.AF_UNIX, kind)
        each.bind(name)
        if kind != socket.SOCK_DGRAM:
            each.listen(64)
        self._sockets.append(each)
        return name.removeprefix("\0")

    def _network(self) -> dict[str, int]:
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        if not os.fork():  # answers
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            while True:
                udp.sendto(b"heard", udp.recvfrom(64)[1])
        self._sockets += [tcp, udp]
        ports = {"tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1], "tcp6": 9}
        with contextlib.suppress(OSError):
            tcp6 = socket.create_server(("::1", 0), family=socket.AF_INET6)
            self._sockets.append(tcp6)
            ports["tcp6"] = tcp6.getsockname()[1]
        return ports

    def _handle(self, path: str) -> str:
        buffer = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0), 136)
        mount = ctypes.c_int()
        if _LIBC.syscall(_HANDLE, -100, path.encode(), buffer, ctypes.byref(mount), 0) < 0:
            return ""
        return buffer.raw.hex()

    def told(self) -> dict[str, Any]:
        """Return where everything is."""
        mark = f"outlive-escape-{os.getpid()}"
        kinds = {
            "stream": socket.SOCK_STREAM,
            "seqpacket": socket.SOCK_SEQPACKET,
            "datagram": socket.SOCK_DGRAM,
        }
        return {
            "pids": {"victim": os.getpid()},
            "secret_at": ctypes.addressof(_SECRET),
            "outside": self._folder,
            "handle": self._handle(f"{self._folder}/kept"),
            **{f"abstract_{name}": self._listen(kind, f"\0{mark}-{name}") for name, kind in kinds.items()},
            "path_socket": self._listen(socket.SOCK_STREAM, f"{self._folder}/socket"),
            **self._network(),
            "terminal": os.ttyname(self._terminal[1]),
            "ipc_key": self._ipc_key,
            "shm": self._shm[0],
            "private_shm": self._shm[1],
            "spare_shm": self._shm[2],
            "sem": self._sem[0],
            "spare_sem": self._sem[1],
            "msg": self._msg[0],
            "spare_msg": self._msg[1],
            "queue": self._queues[0].decode(),
            "spare_queue": self._queues[1].decode(),
            "key_name": self._key_names[0],
            "key": self._keys[0],
            "spare_key": self._keys[1],
        }

    def state(self) -> dict[str, Any]:
        """Return how things stand."""
        with open("/proc/self/oom_score_adj", encoding="ascii") as file:
            oom = file.read()
        held = ctypes.create_string_buffer(64)
        size = _LIBC.syscall(_KEYCTL, 11, self._keys[0], held, ctypes.c_size_t(64))
        return {
            "limits": [resource.getrlimit(number) for number in range(16)],
            "nice": os.getpriority(os.PRIO_PROCESS, 0),
            "affinity": sorted(os.sched_getaffinity(0)),
            "policy": os.sched_getscheduler(0),
            "oom": oom,
            "group": os.getpgid(0),
            "signals": self._signals,
            "memory": _SECRET.value.decode(),
            "shm": [ctypes.string_at(_LIBC.shmat(shm, None, 0o10000), 6).decode() for shm in self._shm],
            "sem": [_LIBC.semctl(sem, 0, 12) for sem in self._sem],
            "msg": [_LIBC.msgctl(msg, 2, ctypes.create_string_buffer(256)) for msg in self._msg],
            "queues": [_LIBC.mq_open(b"/" + name, os.O_RDONLY) >= 0 for name in self._queues],
            "keys": [bool(_LIBC.syscall(_KEYCTL, 6, key, None, 0) > 0) for key in self._keys],
            "key": held.raw[: max(0, size)].decode(),
            "files": sorted(os.listdir(self._folder)),
            "kept": _content(f"{self._folder}/kept"),
            "datagrams": self._heard(),
        }

    def _heard(self) -> int:
        found = 0
        for each in self._sockets:
            if each.family == socket.AF_UNIX and each.type == socket.SOCK_DGRAM:
                each.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    while each.recv(64):
                        found += 1
        return found

    def clean(self) -> None:
        """Leave nothing."""
        buffer = ctypes.create_string_buffer(256)
        for shm in self._shm:
            _LIBC.shmctl(shm, 0, buffer)
        for sem in self._sem:
            _LIBC.semctl(sem, 0, 0)
        for msg in self._msg:
            _LIBC.msgctl(msg, 0, buffer)
        for name in self._queues:
            _LIBC.mq_unlink(b"/" + name)
        for key in self._keys:
            _LIBC.syscall(_KEYCTL, 9, key, _USER_KEYRING)
        os.killpg(0, signal.SIGKILL)


def _content(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()


def main() -> None:
    """Live until the end of the input."""
    os.setsid()
    folder = sys.argv[1]
    os.mkdir(folder)
    for name, text in (("kept", "kept"), ("empty", ""), ("spare", "spare")):
        with open(f"{folder}/{name}", "w", encoding="ascii") as file:
            file.write(text)
    os.mkdir(f"{folder}/spare-folder")
    victim = Victim(folder)
    sys.stdout.write(json.dumps(victim.told()) + "\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(victim.state()) + "\n")
        sys.stdout.flush()
    victim.clean()


if __name__ == "__main__":
    main()
