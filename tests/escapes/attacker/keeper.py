"""Ways out by the keeper: its sockets, asked by a process that makes itself the supervisor in the lock files,
and lost bounds.
"""

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.escapes.attacker.calling import Kept, Told
from tests.sandbox.forging import forge, restore

_PATIENCE_S = 8.0
_WAYS = ("plain", "written", "replaced")


def _ask(told: Told, *, path: str, said: bytes, kind: int, served: bytes, way: str) -> None:
    """Say something to a socket; served is what its answer has in it, "" for any answer at all."""
    state = str(told["state_dir"])
    if way != "plain":
        forge(state, replaces=way == "replaced")
    try:
        with socket.socket(socket.AF_UNIX, kind) as link:
            link.settimeout(_PATIENCE_S)
            link.connect(path)
            try:
                link.send(said)
                answer = link.recv(65536)
            except (BrokenPipeError, ConnectionResetError):
                answer = b""
    finally:
        if way == "replaced":
            restore(state)
    if not answer or served not in answer:
        raise Kept("it hung up" if not answer else "it refused")


def _gain_privileges(_told: Told) -> None:
    """Stay a process to which a program with the set-user-ID bit gives its owner's rights."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        if "\nNoNewPrivs:\t1\n" in file.read():
            raise Kept("no program gives more rights")


def attempts(told: dict[str, Any]) -> dict[str, Callable[[Told], None]]:
    """Return all ways by name."""
    ways: dict[str, Callable[[Told], None]] = {"gain_privileges": _gain_privileges}
    for name, path, said, kind, served in told["sockets"]:
        ask = partial(_ask, path=path, said=bytes.fromhex(said), kind=int(kind), served=served.encode())
        ways |= {f"{name}_{way}": partial(ask, way=way) for way in _WAYS}
    return ways
