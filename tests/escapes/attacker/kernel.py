"""Ways into the kernel: namespaces, mounts, the machine's own settings, and parts of it that few programs
need.
"""

import ctypes
import mmap
import os
import signal
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.escapes.attacker.calling import Kept, Told, call, reach

_NAMESPACES = {
    "mount": 0x20000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000, "pid": 0x20000000,  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "network": 0x40000000, "time": 0x80,
}  # fmt: skip
_USER = _NAMESPACES["user"]
_AT_FDCWD = -100
_BIND, _REMOUNT, _RDONLY, _REC = 4096, 32, 1, 0x4000


def _clone(flags: int) -> None:
    """Fork into namespaces, as clone(2) does; only x86_64 and aarch64 take the flags first."""
    pid = call("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def _clone3(flags: int) -> None:
    arguments = struct.pack("<8Q", flags, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    pid = call("clone3", ctypes.create_string_buffer(arguments), 64)
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def _enter(name: str, pid: int) -> None:
    fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
    call("setns", fd, 0)


def _enter_own(name: str) -> None:
    """Enter the namespace that we are in already: what is allowed there is allowed with a descriptor of
    another one.
    """
    fd = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
    try:
        call("setns", fd, 0)
    except OSError as error:
        if error.errno != 22:  # EINVAL: it was looked at
            raise


def _mount(*arguments: object) -> None:
    call("mount", *arguments)


def _with_user_namespace(action: Callable[[], object]) -> None:
    """As an ordinary user gets capabilities: in a user namespace of his own."""
    uid, gid = os.getuid(), os.getgid()
    call("unshare", _USER | _NAMESPACES["mount"])
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(fd, text.encode())
        os.close(fd)
    action()


def _mount_and_leave() -> None:
    os.mkdir("mounted")
    try:
        _mount(b"none", b"mounted", b"tmpfs", 0, 0)
        call("umount2", b"mounted", 0)
    finally:
        os.rmdir("mounted")


def _bind_outside(outside: str) -> None:
    os.mkdir("bound")
    try:
        _mount(outside.encode(), b"bound", 0, _BIND, 0)
        call("umount2", b"bound", 0)
    finally:
        os.rmdir("bound")


def _capabilities() -> None:
    """Take back what was given up: all capabilities that were once permitted, and ambient ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.prctl(47, 2, 21, 0, 0) != 0
        and libc.capset(struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", *[0xFFFFFFFF] * 6)) != 0
    ):
        raise OSError(ctypes.get_errno(), "capset")


def _securebits() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(28, 0x2F, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _new_privileges() -> None:
    """Take `no_new_privs` back (prctl(2): it cannot be)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(39, 0, 0, 0, 0) == 1:
        raise Kept("it is set")


def _allow_again() -> None:
    """Add a filter that allows everything, and then mount: the strictest of all filters decides."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000), 8)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    if libc.prctl(22, 2, ctypes.byref(Program(1, ctypes.addressof(code))), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    reach("bpf", -1, 0, 0)


def _clock() -> None:
    """Set the clock to a time that no clock has: what is allowed says EINVAL."""
    reach("clock_settime", 0, struct.pack("<qq", 0, -1))


def _time_of_day() -> None:
    reach("settimeofday", struct.pack("<qq", 0, -1), 0)


def _x32() -> None:
    """A call of the x32 ABI, whose numbers have a bit more."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.uname().machine != "x86_64":
        raise Kept("there is no such ABI")
    if libc.syscall(ctypes.c_long(0x40000000 | 39)) < 0:
        raise OSError(ctypes.get_errno(), "getpid of x32")


def _int80() -> None:
    """A call of the 32-bit ABI by its interrupt: `mount` has the number 21 there.

    By code of our own, in an own page.
    """
    if os.uname().machine != "x86_64":
        raise Kept("there is no such ABI")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # push rbx; mov eax, 357 (bpf); mov ebx, -1; xor ecx, ecx; xor edx, edx; int 0x80; pop rbx; ret
    page.write(b"\x53\xb8\x65\x01\x00\x00\xbb\xff\xff\xff\xff\x31\xc9\x31\xd2\xcd\x80\x5b\xc3")
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if result in {-1, -13, -38}:
        raise OSError(-result, "int 0x80")


_FOR_NOTHING: dict[str, tuple[object, ...]] = {
    "acct": (0,),
    "add_key": (0, 0, 0, 0, 0),
    "bpf": (-1, 0, 0),
    "chroot": (b"/nonexistent",),
    "delete_module": (b"outlive", 0),
    "fanotify_init": (-1, 0),
    "fanotify_mark": (-1, 0, 0, -1, 0),
    "finit_module": (-1, b"", 0),
    "fsconfig": (-1, 0, 0, 0, 0),
    "fsmount": (-1, 0, 0),
    "fsopen": (b"tmpfs", 0),
    "fspick": (_AT_FDCWD, b"/nonexistent", 0),
    "init_module": (0, 0, b""),
    "io_uring_enter": (-1, 0, 0, 0, 0, 0),
    "io_uring_register": (-1, 0, 0, 0),
    "io_uring_setup": (0, 0),
    "ioperm": (0, 1, 1),
    "iopl": (3,),
    "kexec_file_load": (-1, -1, 0, 0, 0),
    "kexec_load": (0, 0, 0, -1),
    "keyctl": (-1, 0, 0, 0, 0),
    "lookup_dcookie": (0, 0, 0),
    "mount_setattr": (-1, b"", 0, 0, 0),
    "move_mount": (-1, b"", -1, b"", 0),
    "name_to_handle_at": (-1, b"", 0, 0, 0),
    "nfsservctl": (0, 0, 0),
    "open_by_handle_at": (-1, 0, 0),
    "open_tree": (_AT_FDCWD, b"/", 0),
    "open_tree_attr": (-1, b"", 0, 0, 0),
    "perf_event_open": (0, 0, -1, -1, 0),
    "pidfd_getfd": (-1, 0, 0),
    "pivot_root": (b"/nonexistent", b"/nonexistent"),
    "quotactl": (-1, 0, 0, 0),
    "quotactl_fd": (-1, 0, 0, 0),
    "reboot": (0, 0, 0, 0),
    "request_key": (0, 0, 0, 0),
    "sethostname": (b"", -1),
    "setdomainname": (b"", -1),
    "setns": (-1, 0),
    "swapoff": (b"/nonexistent",),
    "swapon": (b"/nonexistent", 0),
    "syslog": (10, 0, 0),
    "syslog_read": (3, 0, 0),
    "umount2": (b"/nonexistent", 0),
    "userfaultfd": (1,),
}


def _with_user(told: dict[str, Any]) -> dict[str, Callable[[], object]]:
    return {
        "mount_in_user_namespace": lambda: _with_user_namespace(_mount_and_leave),
        "bind_in_user_namespace": lambda: _with_user_namespace(lambda: _bind_outside(told["outside"])),
        "chroot_in_user_namespace": lambda: _with_user_namespace(lambda: os.chroot("/")),
    }


def attempts(told: dict[str, Any]) -> dict[str, Callable[[Told], None]]:
    """Return all ways by name."""
    ways: dict[str, Callable[[], object]] = {}
    for name, flag in _NAMESPACES.items():
        ways[f"unshare_{name}"] = partial(call, "unshare", flag)
        if name != "time":  # clone(2) has no bit for it
            ways[f"clone_{name}"] = partial(_clone, flag)
            ways[f"clone_user_and_{name}"] = partial(_clone, flag | _USER)
        ways[f"clone3_{name}"] = partial(_clone3, flag | _USER)
    for name in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts", "time"):
        ways[f"setns_{name}"] = partial(_enter, name, told["pids"]["victim"])
        ways[f"setns_own_{name}"] = partial(_enter_own, name)
    for name, arguments in _FOR_NOTHING.items():
        ways[f"call_{name}"] = partial(reach, name.removesuffix("_read"), *arguments)
    ways |= {
        "mount_tmpfs": _mount_and_leave,
        "mount_bind": partial(_bind_outside, told["outside"]),
        "mount_remount": lambda: reach("mount", b"none", b"/nonexistent", 0, _REMOUNT | _RDONLY, 0),
        "mount_private": lambda: reach("mount", b"none", b"/nonexistent", 0, _REC | 0x40000, 0),
        "open_tree_clone": lambda: call("open_tree", _AT_FDCWD, told["outside"].encode(), 1 | _REC),
        "capabilities_back": _capabilities,
        "securebits": _securebits,
        "new_privileges": _new_privileges,
        "filter_allows_again": _allow_again,
        "set_clock": _clock,
        "set_time_of_day": _time_of_day,
        "adjust_clock": lambda: reach("adjtimex", struct.pack("<I", 0x4000) + bytes(204)),
        "vhangup": partial(call, "vhangup"),
        "x32": _x32,
        "int80": _int80,
        **_with_user(told),
    }
    return {name: lambda _told, way=way: way() and None for name, way in ways.items()}  # type: ignore[misc]
