"""Which system calls a command may make in the profiles from workspace on: `filter_program`. Pure.

A call that is not named here is allowed: Landlock, namespaces and capabilities restrict it (decision 160).
Named are calls that reach other processes, the machine or much of the kernel, and that none of these three
restricts. A call that may be made about oneself is judged by its arguments. An argument that is a pid has to
be 0, since the pid of an ended process is given to another one. In a PID namespace of its own (`sealed`)
every pid is one of the command's, except 1, which is our init (`native/shim/seal.c`).

A denied call fails with EPERM. Two kinds of calls fail with ENOSYS, so that programs fall back to older ones:
clone3(2), whose flags lie in memory that a filter cannot read, and every call that is newer than this list.

The first half turns decisions about numbers into a program that the kernel runs (classic BPF; seccomp(2),
linux/filter.h). The second half says what is decided. The shim puts the program into force.
"""

import functools
import struct
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

# Codes of linux/bpf_common.h: load the 32-bit word at k; jump; return k.
_LOAD, _JUMP, _RETURN = 0x20, 0x05, 0x06
_FARTHEST = 255  # instructions: as far as a conditional jump reaches, its distance has 8 bits
_INSTRUCTION = struct.Struct("<HBBI")


class Kind(IntEnum):
    """How a word is compared with a value, unsigned: the code of the jump."""

    EQUAL = 0x15
    AT_LEAST = 0x35
    ANY_BIT = 0x45


class Return(NamedTuple):
    """The end of a decision: what the kernel does with the call."""

    value: int


class Branch(NamedTuple):
    """One question about the word at an offset of what the kernel shows (struct seccomp_data), and both
    answers.
    """

    offset: int
    kind: Kind
    value: int
    yes: "Decision"
    no: "Decision"


Decision = Return | Branch


def by_ranges(offset: int, ranges: Sequence[tuple[int, Decision]]) -> Decision:
    """Return a balanced tree over ranges of a word, each given by its first value, in ascending order from 0.

    Balanced because the kernel runs the program once for each system call number when it puts it into force.
    """
    if len(ranges) == 1:
        return ranges[0][1]
    half = len(ranges) // 2
    return Branch(
        offset=offset,
        kind=Kind.AT_LEAST,
        value=ranges[half][0],
        yes=by_ranges(offset, ranges[half:]),
        no=by_ranges(offset, ranges[:half]),
    )


def assemble(decision: Decision) -> bytes:
    """Return the program of a decision: 8 bytes an instruction."""
    return b"".join(_INSTRUCTION.pack(*one) for one in _instructions(decision, loaded=-1))


def _instructions(decision: Decision, *, loaded: int) -> list[tuple[int, int, int, int]]:
    """Return instructions; `loaded` is the offset of the word that is in the accumulator already."""
    if isinstance(decision, Return):
        return [(_RETURN, 0, 0, decision.value)]
    found = [] if loaded == decision.offset else [(_LOAD, 0, 0, decision.offset)]
    yes = _instructions(decision.yes, loaded=decision.offset)
    no = _instructions(decision.no, loaded=decision.offset)
    if len(yes) <= _FARTHEST:
        found.append((decision.kind, 0, len(yes), decision.value))
    else:  # an unconditional jump reaches everywhere: a "yes" jumps over it, a "no" takes it
        found += [(decision.kind, 1, 0, decision.value), (_JUMP, 0, 0, len(yes))]
    return [*found, *yes, *no]


# AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64 (linux/audit.h), by what uname(2) calls the machine.
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
_X32 = 0x40000000  # the bit of calls of the x32 ABI (x86_64 only)
_LAST = 469  # file_setattr, Linux 6.17; the same on every architecture from 424 on
_ALLOW, _EPERM, _ENOSYS = Return(0x7FFF0000), Return(0x00050001), Return(0x00050026)

# clone(2): NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET; NEWTIME is unshare's only.
_NEW_NAMESPACES = 0x20000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_NEWTIME = 0x80
_PRIO_PROCESS, _PRIO_PGRP = 0, 1
_IOPRIO_PROCESS, _IOPRIO_PGRP = 1, 2
# Local, IPv4, IPv6 and netlink (getaddrinfo(3) asks the kernel for addresses). Other families have no network
# namespace (AF_VSOCK reaches the host of a virtual machine) or are seldom used parts of the kernel (AF_ALG,
# AF_TIPC, ...).
_FAMILIES = (1, 2, 10, 16)
# ioctl_tty(2): TIOCSTI types into a terminal, TIOCLINUX pastes into a console. FS_IOC_SETFLAGS and
# FS_IOC_FSSETXATTR change attributes of files that are open only for reading, as setxattr(2) does; Landlock
# decides about neither.
_IOCTLS = (0x5412, 0x541C, 0x40086602, 0x401C5820)

# By name the numbers on x86_64 and on aarch64; -1 where the machine has no such call.
_DENIED = {
    # other processes
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "perf_event_open": (298, 241),
    "lookup_dcookie": (212, 18),
    # keys: Landlock and namespaces leave the user's keys open
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # mounts and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "setns": (308, 268),
    # files: calls that Landlock does not restrict
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # the machine
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "iopl": (172, -1),
    "ioperm": (173, -1),
    "nfsservctl": (180, 42),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    # large parts of the kernel that few programs use, and that all of them can do without
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
# Denied where there is no IPC namespace. All of these calls, not only those that take a name: an id can be
# guessed, and another process of the same user may attach to a segment by its id.
_IPC = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}


class _Whom(Protocol):
    """Decides about an argument that is a pid: the call is allowed, or `no` follows."""

    def __call__(self, argument: int, no: Decision = ..., /) -> Decision: ...


def _argument(number: int, *, high: bool = False) -> int:
    """Return the offset of one half of an argument; both machines are little-endian.

    Of an int the kernel takes only the low half, whatever a caller puts into the high one.
    """
    return 16 + 8 * number + (4 if high else 0)


def _one_of(argument: int, values: Iterable[int], *, yes: Decision, no: Decision) -> Decision:
    for value in reversed(tuple(values)):
        no = Branch(offset=_argument(argument), kind=Kind.EQUAL, value=value, yes=yes, no=no)
    return no


def _on_oneself(argument: int, no: Decision = _EPERM) -> Decision:
    return _one_of(argument, (0,), yes=_ALLOW, no=no)


def _on_anyone(argument: int, no: Decision = _EPERM) -> Decision:
    """Allow every pid in a PID namespace of its own but 1: our init must keep its limits, it waits for the
    namespace's end.
    """
    return _one_of(argument, (1,), yes=no, no=_ALLOW)


def _without_bits(bits: int) -> Decision:
    return Branch(offset=_argument(0), kind=Kind.ANY_BIT, value=bits, yes=_EPERM, no=_ALLOW)


def _limits(whom: _Whom) -> Decision:
    """prlimit(2): allowed on oneself, or without new limits (a null pointer, of which both halves are
    compared).
    """
    high = Branch(offset=_argument(2, high=True), kind=Kind.EQUAL, value=0, yes=_ALLOW, no=_EPERM)
    return whom(0, Branch(offset=_argument(2), kind=Kind.EQUAL, value=0, yes=high, no=_EPERM))


# The decision about each call that is judged by its arguments, given the decision about a pid.
_JUDGED: dict[str, tuple[tuple[int, int], Callable[[_Whom], Decision]]] = {
    "prlimit64": ((302, 261), _limits),
    "setpriority": (
        (141, 140),
        lambda whom: _one_of(0, (_PRIO_PROCESS, _PRIO_PGRP), yes=whom(1), no=_EPERM),
    ),
    "ioprio_set": (
        (251, 30),
        lambda whom: _one_of(0, (_IOPRIO_PROCESS, _IOPRIO_PGRP), yes=whom(1), no=_EPERM),
    ),
    "sched_setaffinity": ((203, 122), lambda whom: whom(0)),
    "sched_setscheduler": ((144, 119), lambda whom: whom(0)),
    "sched_setparam": ((142, 118), lambda whom: whom(0)),
    "sched_setattr": ((314, 274), lambda whom: whom(0)),
    "migrate_pages": ((256, 238), lambda whom: whom(0)),
    "move_pages": ((279, 239), lambda whom: whom(0)),
    "unshare": ((272, 97), lambda _: _without_bits(_NEW_NAMESPACES | _NEWTIME)),
    "clone": ((56, 220), lambda _: _without_bits(_NEW_NAMESPACES)),
    "clone3": ((435, 435), lambda _: _ENOSYS),
    "ioctl": ((16, 29), lambda _: _one_of(1, _IOCTLS, yes=_EPERM, no=_ALLOW)),
    "socket": ((41, 198), lambda _: _one_of(0, _FAMILIES, yes=_ALLOW, no=_EPERM)),
    "socketpair": ((53, 199), lambda _: _one_of(0, _FAMILIES, yes=_ALLOW, no=_EPERM)),
}


def numbers(machine: str) -> dict[str, int]:
    """Return the numbers of all calls named here, on a machine; -1 where it has none.

    Raises:
        ValueError: The machine is not listed in `ARCHITECTURES`.
    """
    column = tuple(ARCHITECTURES).index(machine)
    named = {**_DENIED, **_IPC, **{name: found for name, (found, _) in _JUDGED.items()}}
    return {name: found[column] for name, found in named.items()}


@functools.cache
def filter_program(machine: str, *, has_own_ipc: bool, has_own_pids: bool = False) -> bytes:
    """Return the filter for a machine.

    Args:
        machine: What uname(2) calls it.
        has_own_ipc: A command without an IPC namespace of its own gets no System V IPC at all.
        has_own_pids: In a PID namespace of its own a command may change every process that it can name,
            except our init.

    Raises:
        KeyError: The machine is not listed in `ARCHITECTURES`.
    """
    architecture, number = ARCHITECTURES[machine], numbers(machine)
    whom: _Whom = _on_anyone if has_own_pids else _on_oneself
    denied = _DENIED if has_own_ipc else {**_DENIED, **_IPC}
    rules: dict[int, Decision] = {number[name]: _EPERM for name in denied}
    rules |= {number[name]: rule(whom) for name, (_, rule) in _JUDGED.items()}
    rules.pop(-1, None)
    found = by_ranges(_NUMBER, _ranges(rules))
    # Calls of another ABI have other numbers, which this list does not know: 32-bit programs, and x32.
    own = Branch(offset=_ARCHITECTURE, kind=Kind.EQUAL, value=architecture, yes=found, no=_EPERM)
    return assemble(own)


def _ranges(rules: dict[int, Decision]) -> list[tuple[int, Decision]]:
    """Return where each range begins; neighbours with the same decision are one range."""
    found: list[tuple[int, Decision]] = []
    for number in sorted({0, *rules, *(one + 1 for one in rules)}):
        if number > _LAST:
            continue
        decision = rules.get(number, _ALLOW)
        if not found or found[-1][1] != decision:
            found.append((number, decision))
    return [*found, (_LAST + 1, _ENOSYS), (_X32, _EPERM)]
