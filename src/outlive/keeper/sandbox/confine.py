"""Starting a command within bounds: forked from its shim, it restricts itself step by step and becomes the program.

`posix_spawn` cannot restrict, and what is restricted cannot be undone: so the shim forks, and everything below happens in
the child, whose memory is gone when it executes. A step that fails is told through a pipe, and the program never runs.

Steps are words (`engine.sandbox` chooses them), carried out in their order:

  group FOLDER             make a control group
  set VALUE FILE           write one of its limits
  cgroup FOLDER            enter it
  limit NUMBER VALUE       set a resource limit, soft and hard (setrlimit(2))
  keyring                  leave the user's keys for an empty session keyring
  unshare FLAGS            leave namespaces; with a new user namespace our ids are mapped to themselves
  loopback                 let 127.0.0.1 work in a new network namespace
  capabilities MASK        give up all others
  no_new_privileges
  read PATH | write PATH   what Landlock allows; a path that is not there is not allowed
  device PATH              to be read, written and asked (ioctl)
  processes                a /proc that shows the processes which may be traced
  landlock VERSION         put what is allowed into force
  seccomp IPC              deny system calls (`syscalls`); IPC is "own" (in a namespace) or "none". Behind `seal` every pid is
                           the command's own; no word says so, which a shim of an earlier version would not know
  hide PATH | keep PATH | show PATH    for `seal`: an empty folder there, the real one, the real one read-only
  seal                     go on as a process of new mount and PID namespaces
"""

import _signal  # type: ignore[import-not-found] # what `signal` wraps in enumerations, which are many pages to touch
import contextlib
import errno
import fcntl
import os
import resource
import signal
import socket
import struct
import termios
from collections.abc import Callable
from typing import NoReturn

from outlive.keeper.common.kernel import set_dumpable
from outlive.keeper.sandbox import kernel_calls as calls
from outlive.keeper.sandbox.seal import Seal, mount_proc

_CLONE_NEWUSER = 0x10000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1  # netdevice(7)
_MS_REC, _MS_SLAVE = 0x4000, 0x80000  # mount(2)
_REPORT_BYTES = 512
# Ignored by us: what started us ignored, what Python ignores, and what guardian and supervisor do. All the others are
# default already, or become it by execve(2): 60 calls would be half of what a start costs here.
_IGNORED = {
    int(signal.SIGHUP),
    int(signal.SIGINT),
    int(signal.SIGPIPE),
    int(signal.SIGXFSZ),
    *(int(one) for one in signal.valid_signals() if signal.getsignal(one) is signal.SIG_IGN),
}


class Refused(OSError):
    """The program was not started; `place` tells which step could not be taken."""

    def __init__(self, number: int, place: bytes) -> None:
        """Take an errno and a word."""
        super().__init__(number, os.strerror(number))
        self.place = place


def spawn(
    steps: list[bytes],
    program: bytes,
    argv: list[bytes],
    env: dict[bytes, bytes],
    ends: dict[str, int],
    *,
    umask: int = 0o022,
    nice: int | None = None,
) -> tuple[int, int]:
    """Start a program within bounds; return its pid, and that of its PID namespace's init (0: it has none of its own).

    Args:
        steps: See above.
        program: The file.
        argv: Its words.
        env: Its environment.
        ends: The command's own descriptors by the shim's letters.
        umask: What it begins with.
        nice: Its niceness, as far as that is allowed; None: ours.

    Raises:
        Refused: It does not run, and never did.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    helper = os.fork()
    if not helper:
        _be_nice(nice)
        _begin(steps, program, argv, env, ends, report=writing, umask=umask)
    os.close(writing)
    said = b""
    while chunk := os.read(reading, _REPORT_BYTES):  # until it executes the program, or dies
        said += chunk
    os.close(reading)
    pid, init = helper, 0
    told = {words[0]: words[1:] for words in (line.split(b" ") for line in said.splitlines())}
    if b"sealed" in told:
        pid, init = map(int, told[b"sealed"])
        os.waitpid(helper, 0)
    if b"failed" in told:
        os.waitpid(pid, 0)
        number, place = told[b"failed"]
        raise Refused(int(number), place)
    return pid, init


def _begin(
    steps: list[bytes],
    program: bytes,
    argv: list[bytes],
    env: dict[bytes, bytes],
    ends: dict[str, int],
    *,
    report: int,
    umask: int,
) -> NoReturn:
    try:
        become(steps, program, argv, env, ends, report=report, umask=umask)
    except Refused as error:
        os.write(report, b"failed %d %s\n" % (error.errno or errno.EIO, error.place))
    except BaseException:  # noqa: BLE001 - a forked child must never return into the shim's loop
        os.write(report, b"failed %d sandbox:fault\n" % errno.EIO)
    finally:
        os._exit(127)


def become(
    steps: list[bytes],
    program: bytes,
    argv: list[bytes],
    env: dict[bytes, bytes],
    ends: dict[str, int],
    *,
    report: int = -1,
    umask: int | None = None,
) -> NoReturn:
    """Take all steps and execute the program in this process (or, sealed, in a sibling of it).

    Raises:
        Refused: A step could not be taken; this process is of no other use any more.
    """
    place = b"sandbox:start"
    sealing = Seal(ends, report)
    try:
        rules: list[tuple[bytes, int]] = []
        for step in steps:
            verb, _, rest = step.partition(b" ")
            place = b"sandbox:" + verb
            if verb == b"seal":
                sealing.enter()
            elif verb in _VIEWS:
                sealing.views.append((verb, rest))
            elif verb in _RIGHTS:
                rules.append((rest, _RIGHTS[verb]))
            elif verb == b"landlock":
                _restrict(rules, int(rest))
            elif verb == b"seccomp":
                calls.install_filter(has_own_ipc=_IPC[rest], has_own_pids=sealing.is_done)
            else:
                _STEPS[verb](rest)
        place = b"sandbox:streams"
        _take_streams(ends)
        place = b"program"
        if umask is not None:  # as late as this: what the steps make is ours
            os.umask(umask)
        os.execve(program, argv, env)
    except OSError as error:
        raise Refused(error.errno or errno.EIO, place) from error
    finally:
        sealing.give_up()


def _be_nice(nice: int | None) -> None:
    """Take a niceness before anything is given up; one that we may not have (setpriority(2)) leaves us ours."""
    if nice is not None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, nice)


def _take_streams(ends: dict[str, int]) -> None:
    """Begin a POSIX session with the command's own descriptors and no signal ignored or blocked."""
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    os.setsid()
    if "T" in ends:
        fcntl.ioctl(ends["T"], termios.TIOCSCTTY, 0)
        sources = (ends.get("I", ends["T"]), ends["T"], ends["T"])
    else:
        sources = (ends["I"], ends["O"], ends.get("E", ends["O"]))
    for number, source in enumerate(sources):
        os.dup2(source, number)


def _enter_group(folder: bytes) -> None:
    _write(folder + b"/cgroup.procs", b"%d" % os.getpid())


def _make_group(folder: bytes) -> None:
    with contextlib.suppress(FileExistsError):  # a start that is tried again
        os.mkdir(folder)


def _set(rest: bytes) -> None:
    value, _, path = rest.partition(b" ")
    _write(path, value)


def _limit(rest: bytes) -> None:
    number, value = map(int, rest.split(b" "))
    hard = resource.getrlimit(number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def _unshare(rest: bytes) -> None:
    flags = int(rest)
    uid, gid = os.geteuid(), os.getegid()
    calls.unshare(flags)
    if flags & _CLONE_NEWUSER:
        set_dumpable(is_dumpable=True)  # or these files would be root's
        _write(b"/proc/self/setgroups", b"deny")  # user_namespaces(7): before an unprivileged gid_map
        _write(b"/proc/self/uid_map", b"%d %d 1" % (uid, uid))
        _write(b"/proc/self/gid_map", b"%d %d 1" % (gid, gid))
        set_dumpable(
            is_dumpable=False
        )  # until it executes it has the shim's memory, and a sealed one's init for good


def _drop(rest: bytes) -> None:
    calls.drop_capabilities(int(rest))


def _forbid(_rest: bytes) -> None:
    calls.forbid_new_privileges()


def _hide_processes(_rest: bytes) -> None:
    calls.mount(b"none", b"/", b"", _MS_REC | _MS_SLAVE)  # what is mounted outside later still appears
    # 4: who may not be traced is not there (Linux 5.8). Landlock says who may be.
    mount_proc(0, b"hidepid=4")


def _join_keyring(_rest: bytes) -> None:
    calls.join_keyring()


def _raise_loopback(_rest: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("<16sh22x", b"lo", 0)
        flags = struct.unpack_from("<h", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request), 16)[0]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("<16sh22x", b"lo", flags | _IFF_UP))


def _restrict(rules: list[tuple[bytes, int]], version: int) -> None:
    ruleset = calls.landlock_ruleset(version)
    for path, rights in rules:
        try:
            calls.add_landlock_rule(ruleset, path, rights, version=version)
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EACCES}:
                raise
            # Nothing is there (any more), or a link, or what we may not reach anyhow: nothing is allowed there, then.
    calls.restrict_self(ruleset)


def _write(path: bytes, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)


_IPC = {b"own": True, b"none": False}
_VIEWS = (b"hide", b"keep", b"show")
_RIGHTS = {
    b"read": calls.LANDLOCK_READ,
    b"write": calls.LANDLOCK_READ | calls.LANDLOCK_WRITE,
    b"device": calls.LANDLOCK_DEVICE,
}
_STEPS: dict[bytes, Callable[[bytes], None]] = {
    b"group": _make_group,
    b"set": _set,
    b"cgroup": _enter_group,
    b"limit": _limit,
    b"unshare": _unshare,
    b"loopback": _raise_loopback,
    b"capabilities": _drop,
    b"keyring": _join_keyring,
    b"no_new_privileges": _forbid,
    b"processes": _hide_processes,
}
