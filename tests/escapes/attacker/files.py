"""Ways to files that a profile does not open: those outside, of homes and of the state folder."""

import ctypes
import fcntl
import mmap
import os
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.escapes.attacker.calling import Kept, Missing, Told, call

_AT_FDCWD = -100
_FICLONE = 0x40049409


def _read(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.read(fd, 1)


def _by_openat(path: str) -> None:
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    os.read(os.open(os.path.basename(path), os.O_RDONLY, dir_fd=folder), 1)


def _by_chdir(path: str) -> None:
    os.chdir(os.path.dirname(path))
    _read(os.path.basename(path))


def _by_symlink(path: str) -> None:
    os.symlink(path, "link-read")
    try:
        _read("link-read")
    finally:
        os.unlink("link-read")


def _by_dots(path: str) -> None:
    _read("../" * 30 + path.lstrip("/"))


def _by_self_root(path: str) -> None:
    _read("/proc/self/root" + path)


def _by_self_cwd(path: str) -> None:
    _read("/proc/self/cwd/" + "../" * 30 + path.lstrip("/"))


def _by_path_descriptor(path: str) -> None:
    fd = os.open(path, os.O_PATH)
    _read(f"/proc/self/fd/{fd}")


def _by_dev_fd(path: str) -> None:
    fd = os.open(path, os.O_PATH)
    _read(f"/dev/fd/{fd}")


def _by_mapping(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    mmap.mmap(fd, 1, mmap.MAP_PRIVATE, mmap.PROT_READ)


def _by_link(path: str) -> None:
    os.link(path, "linked-in")
    try:
        _read("linked-in")
    finally:
        os.unlink("linked-in")


def _by_clone(path: str) -> None:
    target = os.open("cloned", os.O_CREAT | os.O_WRONLY)
    fcntl.ioctl(target, _FICLONE, os.open(path, os.O_RDONLY))


def _by_executing(path: str) -> None:
    os.execv(path, [path])


def _by_loader(path: str) -> None:
    """Have the dynamic linker open it: what is no program says so, what may not be read says that."""
    try:
        ctypes.CDLL(path)
    except OSError as error:
        if "cannot open" in str(error) or "ermission" in str(error):
            raise PermissionError(13, "cannot open") from error


def _by_handle(path: str) -> None:
    handle = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0), 136)
    mount_id = ctypes.c_int()
    call("name_to_handle_at", _AT_FDCWD, path.encode(), handle, ctypes.byref(mount_id), 0)
    call("open_by_handle_at", os.open("/", os.O_RDONLY), handle, os.O_RDONLY)


def _by_known_handle(told: dict[str, Any]) -> None:
    """With a handle that was made outside, as one that is guessed would be."""
    if not told.get("handle"):
        raise Missing("this file system has no handles")
    handle = ctypes.create_string_buffer(bytes.fromhex(told["handle"]))
    call("open_by_handle_at", os.open(".", os.O_RDONLY), handle, os.O_RDONLY)


_READING: dict[str, Callable[[str], None]] = {
    "read": _read,
    "read_openat": _by_openat,
    "read_chdir": _by_chdir,
    "read_symlink": _by_symlink,
    "read_dots": _by_dots,
    "read_self_root": _by_self_root,
    "read_self_cwd": _by_self_cwd,
    "read_path_descriptor": _by_path_descriptor,
    "read_dev_fd": _by_dev_fd,
    "read_mapping": _by_mapping,
    "read_hard_link": _by_link,
    "read_clone": _by_clone,
    "read_loader": _by_loader,
    "execute": _by_executing,
}


def _open(path: str, *, flags: int) -> None:
    os.close(os.open(path, flags, 0o600))


def _map_shared(path: str) -> None:
    fd = os.open(path, os.O_RDWR)
    mmap.mmap(fd, 1, mmap.MAP_SHARED, mmap.PROT_WRITE)


def _reopen(path: str) -> None:
    fd = os.open(path, os.O_PATH)
    _open(f"/proc/self/fd/{fd}", flags=os.O_WRONLY)


def _write_link(path: str) -> None:
    os.link(path, "linked-out")
    try:
        _open("linked-out", flags=os.O_WRONLY)
    finally:
        os.unlink("linked-out")


def _move_out(folder: str) -> None:
    _open("mine", flags=os.O_CREAT | os.O_WRONLY)
    try:
        os.rename("mine", folder + "/mine")
    finally:
        if os.path.exists("mine"):
            os.unlink("mine")
    os.unlink(folder + "/mine")


def _link_out(folder: str) -> None:
    _open("mine", flags=os.O_CREAT | os.O_WRONLY)
    os.link("mine", folder + "/linked")
    os.unlink(folder + "/linked")


def _exchange(path: str) -> None:
    _open("other", flags=os.O_CREAT | os.O_WRONLY)
    for _ in range(2):  # and back
        call("renameat2", _AT_FDCWD, b"other", _AT_FDCWD, path.encode(), 2)


def _temporary(folder: str) -> None:
    _open(folder, flags=os.O_TMPFILE | os.O_WRONLY)


def _make_and_remove(make: Callable[[str], object], folder: str, *, name: str) -> None:
    path = f"{folder}/{name}"
    make(path)
    (os.rmdir if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)


def _bind(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)


def _open_new(path: str) -> None:
    _open(path, flags=os.O_CREAT | os.O_EXCL | os.O_WRONLY)


def _rename_there(folder: str) -> None:
    os.rename(folder + "/kept", folder + "/renamed")
    os.rename(folder + "/renamed", folder + "/kept")


def _remove(folder: str) -> None:
    os.unlink(folder + "/spare")


def _lock(path: str) -> None:
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)


def _set_attribute(path: str, *, name: str) -> None:
    """Extended attributes, by path and by descriptor.

    A file system that has none says ENOTSUP, which is no refusal.
    """
    key, value = b"user.outlive", b"x"
    target: object = path.encode()
    if name.startswith("f"):
        target = os.open("/usr/bin/env", os.O_RDONLY)
    try:
        if name.endswith("at"):
            call(name, _AT_FDCWD, target, 0, key, struct.pack("<QII", 0, 0, 0), 16)
        elif "remove" in name:
            call(name, target, key)
        else:
            call(name, target, key, value, 1, 0)
    except OSError as error:
        if error.errno not in {95, 61, 22}:  # ENOTSUP, ENODATA, EINVAL: the kernel looked at it
            raise


def _access_list(path: str) -> None:
    value = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", *one)
        for one in ((1, 6, -1 & 0xFFFFFFFF), (4, 0, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF))
    )
    os.setxattr(path, "system.posix_acl_access", value)


def _inode_flags(path: str, *, request: int) -> None:
    """chattr(1), of a file that may be read everywhere: the descriptor is open for reading only."""
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, request, struct.pack("<i", 0) if request == 0x40086602 else bytes(28))
    except OSError as error:
        if error.errno not in {25, 95}:  # ENOTTY, ENOTSUP: it was asked for, and this file system has none
            raise


def _file_attributes(path: str) -> None:
    try:
        call("file_setattr", _AT_FDCWD, path.encode(), bytes(24), 24, 0)
    except OSError as error:
        if error.errno not in {22, 95, 25}:
            raise


def _truncate(path: str) -> None:
    call("truncate", path.encode(), os.stat(path).st_size)


def _writes(outside: str, readable: str) -> dict[str, Callable[[], object]]:
    kept = outside + "/kept"
    return {
        "write": partial(_open, kept, flags=os.O_WRONLY),
        "write_read": partial(_open, kept, flags=os.O_RDWR),
        "append": partial(_open, kept, flags=os.O_WRONLY | os.O_APPEND),
        "open_truncate": partial(_open, outside + "/empty", flags=os.O_WRONLY | os.O_TRUNC),
        "open_truncate_reading": partial(_open, outside + "/empty", flags=os.O_RDONLY | os.O_TRUNC),
        "truncate": partial(_truncate, kept),
        "map_shared": partial(_map_shared, kept),
        "reopen": partial(_reopen, kept),
        "write_hard_link": partial(_write_link, kept),
        "write_through_root": partial(_open, "/proc/self/root" + kept, flags=os.O_WRONLY),
        "write_dots": partial(_open, "../" * 30 + kept.lstrip("/"), flags=os.O_WRONLY),
        "create": partial(_make_and_remove, _open_new, outside, name="new"),
        "make_folder": partial(_make_and_remove, os.mkdir, outside, name="folder"),
        "remove_folder": partial(os.rmdir, outside + "/spare-folder"),
        "make_fifo": partial(_make_and_remove, os.mkfifo, outside, name="fifo"),
        "make_symlink": partial(
            _make_and_remove, partial(os.symlink, "/etc/passwd"), outside, name="symlink"
        ),
        "make_socket": partial(_make_and_remove, _bind, outside, name="socket-new"),
        "make_file_node": partial(_make_and_remove, partial(os.mknod, mode=0o100600), outside, name="node"),
        "temporary": partial(_temporary, outside),
        "remove": partial(_remove, outside),
        "rename": partial(_rename_there, outside),
        "move_out": partial(_move_out, outside),
        "link_out": partial(_link_out, outside),
        "exchange": partial(_exchange, kept),
        "access_list": partial(_access_list, kept),
        "inode_flags": partial(_inode_flags, readable, request=0x40086602),
        "inode_flags_extended": partial(_inode_flags, readable, request=0x401C5820),
        "file_setattr": partial(_file_attributes, kept),
        "chmod": partial(os.chmod, kept, 0o600),
        "chown": lambda: os.chown(kept, os.getuid(), os.getgid()),
        "utime": partial(os.utime, kept, (1, 1)),
        "write_sysctl": partial(_open, "/proc/sys/kernel/core_pattern", flags=os.O_WRONLY),
        "write_sysrq": partial(_open, "/proc/sysrq-trigger", flags=os.O_WRONLY),
        "write_sys": partial(_open, "/sys/kernel/uevent_helper", flags=os.O_WRONLY),
        "write_etc": partial(_open, "/etc/passwd", flags=os.O_WRONLY),
        "create_in_etc": partial(_make_and_remove, _open_new, "/etc", name="outlive-escape"),
        "create_in_root": partial(_make_and_remove, _open_new, "/", name="outlive-escape"),
    }


def attempts(told: dict[str, Any]) -> dict[str, Callable[[Told], None]]:
    """Return all ways by name."""
    found: dict[str, Callable[[Told], None]] = {}
    for place in ("state", "home"):
        for name, action in _READING.items():
            found[f"{place}_{name}"] = lambda _told, action=action, path=told[place]: action(path)  # type: ignore[misc]
        found[f"{place}_handle"] = lambda _told, path=told[place]: _by_handle(path)  # type: ignore[misc]
        found[f"{place}_write"] = lambda _told, path=told[place]: _open(path, flags=os.O_WRONLY | os.O_APPEND)  # type: ignore[misc]
        found[f"{place}_lock"] = lambda _told, path=told[place]: _lock(path)  # type: ignore[misc]
    for name, act in _writes(told["outside"], told["readable"]).items():
        found[f"outside_{name}"] = lambda _told, act=act: act() and None  # type: ignore[misc]
    for name in (
        "setxattr",
        "lsetxattr",
        "fsetxattr",
        "removexattr",
        "lremovexattr",
        "removexattrat",
        "setxattrat",
    ):
        found[name] = partial(
            lambda _told, name: _set_attribute(told["outside"] + "/kept", name=name), name=name
        )
    found["known_handle"] = lambda _told: _by_known_handle(told)
    found["names_outside"] = lambda _told: _names(told["outside"])
    return found


def _names(folder: str) -> None:
    if "kept" not in os.listdir(folder):
        raise Kept("it is another folder")
