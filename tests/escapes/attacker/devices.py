"""Ways to devices: nodes that are there, nodes of one's own, and what terminals can be asked for."""

import ctypes
import os
import stat
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.escapes.attacker.calling import Missing, Told, call

_NODES = {
    "mem": (1, 1, "c"), "kmsg": (1, 11, "c"), "port": (1, 4, "c"), "console": (5, 1, "c"), "ptmx": (5, 2, "c"), "tun": (10, 200, "c"),  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "fuse": (10, 229, "c"), "kvm": (10, 232, "c"), "uinput": (10, 223, "c"), "loop": (7, 0, "b"), "disk": (8, 0, "b"), "vda": (253, 0, "b"),  # noqa: E501 -- cut nowhere better: a table, or another program's text
}  # fmt: skip
_PATHS = (
    "/dev/mem", "/dev/kmsg", "/dev/port", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/loop-control", "/dev/loop0", "/dev/sda",  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "/dev/vda", "/dev/uinput", "/dev/vsock", "/dev/vhost-net", "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/snapshot",  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "/dev/hpet", "/dev/rtc0", "/dev/userfaultfd", "/dev/cuse", "/dev/btrfs-control", "/dev/mapper/control", "/proc/kcore", "/proc/kmsg",  # noqa: E501 -- cut nowhere better: a table, or another program's text
)  # fmt: skip
_TIOCSTI, _TIOCLINUX, _TIOCSCTTY = 0x5412, 0x541C, 0x540E
_OWN_IN_SEALED = (
    "/dev/console",
)  # a sealed command's /dev has its own terminal under that name, if it has one


def _make(name: str) -> None:
    major, minor, kind = _NODES[name]
    path = f"node-{name}"
    os.mknod(path, 0o600 | (stat.S_IFCHR if kind == "c" else stat.S_IFBLK), os.makedev(major, minor))
    os.unlink(path)


def _open(path: str) -> None:
    if not os.path.lexists(path):
        raise Missing(f"no {path}")
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))


def _terminal(request: int) -> None:
    """Ask whatever terminal there is; a descriptor that is none says so, if the request was let through."""
    try:
        call("ioctl", 0, request, ctypes.create_string_buffer(b"x"))
    except OSError as error:
        if error.errno != 25:  # ENOTTY
            raise


def _foreign_terminal(path: str, flags: int) -> None:
    if not path:
        raise Missing("the victim has no terminal")
    os.close(os.open(path, flags | os.O_NOCTTY | os.O_NONBLOCK))


def attempts(told: dict[str, Any]) -> dict[str, Callable[[Told], None]]:
    """Return all ways by name."""
    ways: dict[str, Callable[[], object]] = {f"make_node_{name}": partial(_make, name) for name in _NODES}
    ways |= {f"open{path.replace('/', '_').replace('-', '_')}": partial(_open, path) for path in _PATHS}
    ways |= {
        "type_into_terminal": partial(_terminal, _TIOCSTI),
        "type_into_terminal_high_bits": partial(_terminal, _TIOCSTI | 1 << 32),
        "paste_into_console": partial(_terminal, _TIOCLINUX),
        "paste_into_console_high_bits": partial(_terminal, _TIOCLINUX | 7 << 32),
        "read_a_terminal": partial(_foreign_terminal, told["terminal"], os.O_RDONLY),
        "write_to_a_terminal": partial(_foreign_terminal, told["terminal"], os.O_WRONLY),
    }
    return {name: lambda _told, way=way: way() and None for name, way in ways.items()}  # type: ignore[misc]
