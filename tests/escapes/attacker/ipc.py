"""Ways to what others have in the kernel under a number or a name: keys, System V IPC, POSIX message
queues.
"""

import ctypes
import os
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.escapes.attacker.calling import Kept, Missing, Told, call

_PROCESS, _SESSION, _USER, _USER_SESSION = -2, -3, -4, -5
_IPC_RMID, _IPC_STAT, _SHM_STAT, _SEM_STAT, _MSG_STAT = 0, 2, 13, 18, 11
_GETVAL, _SETVAL = 12, 16
_KEYCTL = {
    "update": 2, "revoke": 3, "chown": 4, "setperm": 5, "describe": 6, "clear": 7, "read": 11, "instantiate": 12, "negate": 13,  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "set_timeout": 15, "assume_authority": 16, "get_security": 17, "invalidate": 21, "pkey_query": 24, "restrict_keyring": 29,  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "move": 30, "capabilities": 31, "watch_key": 32,
}  # fmt: skip


def _key(told: dict[str, Any]) -> int:
    if not told.get("key"):
        raise Missing("the kernel keeps no keys here")
    return int(told["key"])


def _ask(operation: str, told: dict[str, Any]) -> None:
    """Do something to the victim's key that leaves it as it is, or that must fail for another reason than
    being denied.
    """
    number, key = _KEYCTL[operation], _key(told)
    buffer = ctypes.create_string_buffer(256)
    arguments: dict[str, tuple[object, ...]] = {
        "update": (key, b"secret of the victim", 20),
        "revoke": (told["spare_key"],),
        "chown": (key, -1, -1),
        "setperm": (key, 0x3F3F0000),
        "clear": (key,),  # it is no keyring: ENOTDIR
        "read": (key, buffer, 256),
        "describe": (key, buffer, 256),
        "get_security": (key, buffer, 256),
        "set_timeout": (key, 0),
        "invalidate": (told["spare_key"],),
        "assume_authority": (0,),
        "capabilities": (buffer, 256),
    }
    try:
        call("keyctl", number, *arguments.get(operation, (key, 0, 0, 0)))
    except OSError as error:
        if error.errno not in {20, 22, 95, 126, 128}:  # the kernel looked at what was asked for
            raise
        if operation not in {
            "clear",
            "move",
            "restrict_keyring",
            "watch_key",
            "pkey_query",
            "instantiate",
            "negate",
        }:
            raise


def _search(ring: int, name: str) -> None:
    call("keyctl", 10, ring, b"user", name.encode(), 0)


def _link(ring: int, told: dict[str, Any]) -> None:
    call("keyctl", 8, _key(told), ring)


def _join() -> None:
    call("keyctl", 1, b"outlive-escape")


def _session_keyring() -> None:
    """See what is in the session keyring: the one of the user who has started all this."""
    call("keyctl", 0, _SESSION, 0)


def _add(ring: int) -> None:
    call("add_key", b"user", b"outlive-inside", b"x", 1, ring)


def _request(ring: int, name: str) -> None:
    call("request_key", b"user", name.encode(), 0, ring)


def _attach(shm: int) -> None:
    """Read the secret through an attached segment."""
    address = call("shmat", shm, 0, 0o10000)
    found = ctypes.string_at(address & (1 << 64) - 1, 6)
    if found != b"secret":
        raise Kept("another segment has that number here")


def _attach_by_index() -> None:
    """As ipcs(1) does: all segments there are, without knowing any."""
    buffer = ctypes.create_string_buffer(256)
    found = False
    for index in range(64):
        try:
            shm = call("shmctl", index, _SHM_STAT, buffer)
        except OSError as error:
            if error.errno in {1, 38}:
                raise
            continue
        found = True
        try:
            _attach(shm)
        except OSError:
            continue
        else:
            return
    if not found:
        raise Kept("there are no segments")


def _stat(name: str, number: int) -> None:
    call(
        name,
        number,
        *((0, _IPC_STAT) if name == "semctl" else (_IPC_STAT,)),
        ctypes.create_string_buffer(256),
    )


def _receive(queue: int) -> None:
    call("msgrcv", queue, ctypes.create_string_buffer(264), 256, 0, 0o4000 | 0o40000)  # IPC_NOWAIT, MSG_COPY


def _send(queue: int) -> None:
    call("msgsnd", queue, struct.pack("<q", 9) + b"x", 1, 0o4000)


def _table(name: str, number: int) -> None:
    with open(f"/proc/sysvipc/{name}", encoding="ascii") as file:
        rows = [line.split()[1] for line in file][1:]
    if str(number) not in rows:
        raise Kept("it is not in the table")


def _open_queue(name: str) -> int:
    return call("mq_open", name.encode(), os.O_RDWR | os.O_NONBLOCK, 0, 0)


def _send_queue(name: str) -> None:
    call("mq_timedsend", _open_queue(name), b"x", 1, 0, 0)


def _receive_queue(name: str) -> None:
    call("mq_timedreceive", _open_queue(name), ctypes.create_string_buffer(8192), 8192, 0, 0)


def _new_queue() -> None:
    """Make one of a name: kept is one that is in a namespace of ours."""
    call("mq_open", b"outlive-inside", os.O_RDWR | os.O_CREAT, 0o600, 0)
    call("mq_unlink", b"outlive-inside")
    raise Kept("the victim would find it")


def _keys(told: dict[str, Any]) -> None:
    with open("/proc/keys", encoding="ascii", errors="replace") as file:
        if told["key_name"] not in file.read():
            raise Kept("it is not listed")


def attempts(told: dict[str, Any]) -> dict[str, Callable[[Told], None]]:
    """Return all ways by name."""
    ways: dict[str, Callable[[], object]] = {f"keyctl_{name}": partial(_ask, name, told) for name in _KEYCTL}
    rings = (("process", _PROCESS), ("session", _SESSION), ("user", _USER), ("user_session", _USER_SESSION))
    for name, ring in rings:
        ways[f"keyctl_search_{name}"] = partial(_search, ring, told["key_name"])
        ways[f"keyctl_link_{name}"] = partial(_link, ring, told)
        ways[f"add_key_{name}"] = partial(_add, ring)
        ways[f"request_key_{name}"] = partial(_request, ring, told["key_name"])
        ways[f"keyctl_id_{name}"] = partial(call, "keyctl", 0, ring, 1)
    ways |= {
        "keyctl_join": _join,
        "keyctl_session": _session_keyring,
        "keyctl_to_parent": partial(call, "keyctl", 18),
        "keyctl_persistent": partial(call, "keyctl", 22, -1, _PROCESS),
        "key_descriptions": partial(_keys, told),
        "shm_key": partial(call, "shmget", told["ipc_key"], 0, 0),
        "shm_attach": partial(_attach, told["shm"]),
        "shm_attach_private": partial(_attach, told["private_shm"]),
        "shm_attach_by_index": _attach_by_index,
        "shm_stat": partial(_stat, "shmctl", told["shm"]),
        "shm_remove": partial(call, "shmctl", told["spare_shm"], _IPC_RMID, 0),
        "shm_table": partial(_table, "shm", told["shm"]),
        "sem_key": partial(call, "semget", told["ipc_key"], 0, 0),
        "sem_stat": partial(_stat, "semctl", told["sem"]),
        "sem_value": partial(call, "semctl", told["sem"], 0, _GETVAL, 0),
        "sem_set": partial(call, "semctl", told["sem"], 0, _SETVAL, 7),
        "sem_operate": partial(call, "semop", told["sem"], struct.pack("<Hhh", 0, 1, 0o4000), 1),
        "sem_remove": partial(call, "semctl", told["spare_sem"], 0, _IPC_RMID, 0),
        "sem_table": partial(_table, "sem", told["sem"]),
        "msg_key": partial(call, "msgget", told["ipc_key"], 0),
        "msg_stat": partial(_stat, "msgctl", told["msg"]),
        "msg_receive": partial(_receive, told["msg"]),
        "msg_send": partial(_send, told["msg"]),
        "msg_remove": partial(call, "msgctl", told["spare_msg"], _IPC_RMID, 0),
        "msg_table": partial(_table, "msg", told["msg"]),
        "queue_open": partial(_open_queue, told["queue"]),
        "queue_send": partial(_send_queue, told["queue"]),
        "queue_receive": partial(_receive_queue, told["queue"]),
        "queue_remove": partial(call, "mq_unlink", told["spare_queue"].encode()),
        "queue_new": _new_queue,
    }
    return {name: lambda _told, way=way: way() and None for name, way in ways.items()}  # type: ignore[misc]
