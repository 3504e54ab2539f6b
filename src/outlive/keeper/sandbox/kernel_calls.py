"""System calls of a sandbox that the standard library does not wrap: namespaces, mounts, Landlock, seccomp, keys.

Each raises OSError. Processes that are about to become a command use them, and `capabilities`; a shim itself calls none of
them. Numbers from 424 on are the same on every architecture (syscalls(2)). Which calls are made is decided in `steps`.

Functions, numbers and buffers are made at import. What the child makes or looks up for the first time after its fork costs
page faults, and these are most of what a sandbox adds to a start (decision 75).
"""

import ctypes
import errno
import os
import struct

from outlive.keeper.sandbox.syscalls import ARCHITECTURES, filter_program, numbers

# Lets a test pretend that the machine offers less: OUTLIVE_DEGRADE=landlock,namespaces,seccomp,keyring in the environment.
_MISSING = os.environ.get("OUTLIVE_DEGRADE", "").split(",")
_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSCALL = _LIBC.syscall
_SYSCALL.restype = ctypes.c_long
_PRCTL, _UNSHARE, _CAPGET, _CAPSET, _MOUNT = (
    _LIBC.prctl,
    _LIBC.unshare,
    _LIBC.capget,
    _LIBC.capset,
    _LIBC.mount,
)
_OPEN_TREE, _MOVE_MOUNT, _CLONE3, _OPENAT2, _MOUNT_SETATTR = 428, 429, 435, 437, 442
_RESOLVE_NO_SYMLINKS = 0x04
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_AT_FDCWD = -100
_AT_RECURSIVE, _OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH, _AT_EMPTY_PATH = 0x8000, 1, 4, 0x1000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID = 1, 2
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 24, 38, 47, 4
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_CLONE_PARENT = 0x8000
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3

# linux/landlock.h, bit by bit: execute 0, write file 1, read file 2, read dir 3, remove dir 4, remove file 5, make char 6, dir 7,
# reg 8, sock 9, fifo 10, block 11, sym 12, refer 13 (ABI 2), truncate 14 (3), ioctl on devices 15 (5).
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_ALL = (1 << 16) - 1
_HOW = struct.pack("<3Q", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS)
_SIZE_OF_HOW = ctypes.c_size_t(len(_HOW))
_RULE = struct.Struct("<Qi")
_CAPABILITIES = struct.Struct("<6I")
_HEADER = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
_HELD = ctypes.create_string_buffer(_CAPABILITIES.size)
_SCOPES = 0b11  # abstract Unix sockets, signals (ABI 6)
# Listing folders is not restricted: a rule for / would open everything below it, and without one `ls /` would fail.
LANDLOCK_READ = _EXECUTE | _READ_FILE
# Device nodes may be made nowhere: the node of a disk would lead around every other rule.
LANDLOCK_WRITE = _ALL & ~(_MAKE_CHAR | _MAKE_BLOCK | _READ_DIR | _IOCTL_DEV)
LANDLOCK_DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def unshare(flags: int) -> None:
    """Leave namespaces (unshare(2))."""
    if "namespaces" in _MISSING:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    _checked(_UNSHARE(flags))


def clone_for_parent() -> int:
    """Fork a sibling: its parent is the caller's parent (clone3(2) CLONE_PARENT). Returns 0 in it.

    The interpreter's own bookkeeping of forks is left out, so the child may do little more than execute a program.
    """
    arguments = ctypes.create_string_buffer(struct.pack("<8Q", _CLONE_PARENT, 0, 0, 0, 0, 0, 0, 0))
    return _checked(_SYSCALL(_CLONE3, arguments, ctypes.c_size_t(64)))


def forbid_new_privileges() -> None:
    """Prevent set-uid programs from giving privileges to us and our descendants (prctl(2) PR_SET_NO_NEW_PRIVS)."""
    _checked(_PRCTL(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def drop_capabilities(kept: int) -> None:
    """Give up all capabilities but those in the mask `kept`, for good (capabilities(7))."""
    _PRCTL(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for number in range(64):
        if not kept >> number & 1 and _PRCTL(_PR_CAPBSET_DROP, number, 0, 0, 0):
            # Beyond the last capability that the kernel knows; or we are not privileged, and only `capset` matters.
            break
    _checked(_CAPGET(_HEADER, _HELD))
    # Effective, permitted, inheritable, each in two halves of 32 bits.
    _, low, _, _, high, _ = _CAPABILITIES.unpack(_HELD)
    low, high = low & kept & 0xFFFFFFFF, high & kept >> 32
    _checked(_CAPSET(_HEADER, _CAPABILITIES.pack(low, low, 0, high, high, 0)))


def open_place(path: bytes) -> int:
    """Return a descriptor of what is at a path of which no part is a symbolic link (openat2(2)).

    The caller resolved links when it chose the path: a link that was put there since must not lead elsewhere.
    """
    return _checked(_SYSCALL(_OPENAT2, _AT_FDCWD, path, _HOW, _SIZE_OF_HOW))


# -- mounts


def mount(source: bytes, target: bytes, kind: bytes, flags: int, options: bytes = b"") -> None:
    """Mount (mount(2))."""
    _checked(_MOUNT(source, target, kind, ctypes.c_ulong(flags), options or None))


def open_tree(path: bytes) -> int:
    """Return a descriptor of a copy of the mounts at and below a path, mounted nowhere yet (open_tree(2))."""
    place = open_place(path)
    try:
        flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | _AT_EMPTY_PATH | os.O_CLOEXEC
        return _checked(_SYSCALL(_OPEN_TREE, place, b"", flags))
    finally:
        os.close(place)


def move_tree(tree: int, target: bytes) -> None:
    """Mount what `open_tree` returned (move_mount(2)), and close it."""
    _checked(_SYSCALL(_MOVE_MOUNT, tree, b"", _AT_FDCWD, target, _MOVE_MOUNT_F_EMPTY_PATH))
    os.close(tree)


def make_read_only(path: bytes, *, tree: int = -1) -> None:
    """Make all mounts at and below a path, or in a tree of `open_tree`, read-only (mount_setattr(2), Linux 5.12)."""
    attributes = struct.pack("<4Q", _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID, 0, 0, 0)
    place, flags = (_AT_FDCWD, _AT_RECURSIVE) if tree < 0 else (tree, _AT_RECURSIVE | _AT_EMPTY_PATH)
    _checked(_SYSCALL(_MOUNT_SETATTR, place, path, flags, attributes, ctypes.c_size_t(32)))


# -- Landlock


def landlock_version() -> int:
    """Return the version of the kernel's Landlock; 0 where it has none."""
    return (
        0 if "landlock" in _MISSING else max(0, int(_SYSCALL(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)))
    )


def landlock_ruleset(version: int) -> int:
    """Return a ruleset that handles every right to files that this version knows, and the scopes."""
    handled = _ALL & ~_READ_DIR
    if version < 5:
        handled &= ~_IOCTL_DEV
    scopes = _SCOPES if version >= 6 else 0
    attributes = struct.pack("<3Q", handled, 0, scopes)
    # The kernel accepts shorter structures of its earlier versions: network rights came with 4, scopes with 6.
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    return _checked(_SYSCALL(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(size), 0))


def add_landlock_rule(ruleset: int, path: bytes, rights: int, *, version: int) -> None:
    """Allow `rights` at and below a path."""
    if version < 5:
        rights &= ~_IOCTL_DEV
    fd = open_place(path)
    try:
        # EINVAL: rights of folders for something that is none. A stat(2) beforehand would cost more than a second attempt.
        if _SYSCALL(_LANDLOCK_ADD, ruleset, 1, _RULE.pack(rights, fd), 0):
            _checked(_SYSCALL(_LANDLOCK_ADD, ruleset, 1, _RULE.pack(rights & _FOR_FILES, fd), 0))
    finally:
        os.close(fd)


def restrict_self(ruleset: int) -> None:
    """Put a ruleset into force for this process and its descendants, for good."""
    _checked(_SYSCALL(_LANDLOCK_RESTRICT, ruleset, 0))


# -- seccomp and keys

_MACHINE = os.uname().machine
_KEYCTL = numbers(_MACHINE)["keyctl"] if _MACHINE in ARCHITECTURES else -1
_JOIN_SESSION_KEYRING, _SETPERM, _SESSION_KEYRING = 1, 5, -3
_KEYRING_NAME = b"outlive-sandbox"
# The possessor may do everything; other processes of its user may look at it and find it (keyctl_setperm(3)).
_KEYRING_RIGHTS = 0x3F000000 | 0x00010000 | 0x00080000
_INSTRUCTION_BYTES = 8


class _Program(ctypes.Structure):
    """struct sock_fprog: how many instructions, and where."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _filter(*, has_own_ipc: bool, has_own_pids: bool) -> _Program | None:
    if _MACHINE not in ARCHITECTURES or "seccomp" in _MISSING:
        return None
    program = filter_program(_MACHINE, has_own_ipc=has_own_ipc, has_own_pids=has_own_pids)
    return _Program(len(program) // _INSTRUCTION_BYTES, program)


# By whether there are an IPC namespace and a PID namespace; no profile has the second alone.
_FILTERS = {
    own: _filter(has_own_ipc=own[0], has_own_pids=own[1])
    for own in ((False, False), (True, False), (True, True))
}


def install_filter(*, has_own_ipc: bool, has_own_pids: bool) -> None:
    """Have the kernel deny this process and its descendants what `syscalls` names, for good (seccomp(2))."""
    program = _FILTERS[has_own_ipc, has_own_pids]
    if program is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    _checked(_PRCTL(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0))


def join_keyring() -> None:
    """Leave the session keyring for an empty one (keyctl_join_session_keyring(3)).

    All commands of a user join the same one: a user may have 200 keys (keyrings(7)), and one keyring for each command would
    soon be the end of starts. No command can put anything into it, as `syscalls` denies every call about keys.
    """
    if "keyring" in _MISSING:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
    if _SYSCALL(_KEYCTL, _JOIN_SESSION_KEYRING, _KEYRING_NAME) < 0:
        number = ctypes.get_errno()
        # A kernel without keys, or a container that denies the call: then the command cannot reach any keys either.
        if number in {errno.ENOSYS, errno.EPERM}:
            return
        raise OSError(number, os.strerror(number))
    # Without these rights the next command could not find it, and would make another one.
    _checked(_SYSCALL(_KEYCTL, _SETPERM, _SESSION_KEYRING, _KEYRING_RIGHTS))
