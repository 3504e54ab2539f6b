"""Starting a command with restrictions: a fork of its shim restricts itself step by step, then executes the program.

posix_spawn(3) cannot restrict, and what is restricted cannot be undone. So the shim forks, and everything below happens in
the child, whose memory is gone when it executes. If a step fails, the child reports it through a pipe, and the program never
runs.

Steps are words. `sandbox.steps` chooses them; this module carries them out in their order, and never decides which:

  group FOLDER             make a control group
  set VALUE FILE           write one of its limits
  cgroup FOLDER            enter it
  limit NUMBER VALUE       set a resource limit, soft and hard (setrlimit(2))
  keyring                  leave the user's keys for an empty session keyring
  unshare FLAGS            leave namespaces; in a new user namespace our ids are mapped to themselves
  loopback                 let 127.0.0.1 work in a new network namespace
  capabilities MASK        give up all others
  no_new_privileges
  read PATH | write PATH   what Landlock allows; a path that is not there is not allowed
  device PATH              a device that may be read, written and controlled (ioctl)
  processes                a /proc that shows only the processes which may be traced
  landlock VERSION         put into force what was allowed
  seccomp IPC              deny system calls (`syscalls`); IPC is "own" (in a namespace) or "none". After `seal` every pid is
                           one of the command's own; no word says so, because a shim of an earlier version would not know it
  hide PATH | keep PATH | show PATH    for `seal`: an empty folder there, the real one, the real one read-only
  seal                     continue as a process of new mount and PID namespaces
"""

import _signal  # type: ignore[import-not-found] # `signal` wraps it in enumerations: many pages to touch
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
_REPORT_BYTES = 512  # a report is one or two short lines
# The signals that may be ignored in a shim: what its starter ignored, what Python ignores, what guardian and supervisor do.
# All others have their default already, or get it at execve(2): setting all 60 would be half the cost of a start here.
_IGNORED = {
    int(signal.SIGHUP),
    int(signal.SIGINT),
    int(signal.SIGPIPE),
    int(signal.SIGXFSZ),
    *(int(one) for one in signal.valid_signals() if signal.getsignal(one) is signal.SIG_IGN),
}


class Refused(OSError):
    """The program was not started; `place` names the step that failed."""

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
    """Start a program with restrictions; return its pid, and that of its PID namespace's init (0: it has no namespace).

    Args:
        steps: As in this module's docstring.
        program: The file to execute.
        argv: Its words.
        env: Its environment.
        ends: The command's own descriptors by the shim's letters.
        umask: The umask with which the program begins.
        nice: Its niceness, as far as that is allowed; None: ours.

    Raises:
        Refused: The program does not run, and never did.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    helper = os.fork()
    if not helper:
        _be_nice(nice)
        _begin(steps, program, argv, env, ends, report=writing, umask=umask)
    os.close(writing)
    reported = b""
    # The pipe closes when the child executes the program, or dies.
    while chunk := os.read(reading, _REPORT_BYTES):
        reported += chunk
    os.close(reading)
    pid, init = helper, 0
    reports = {words[0]: words[1:] for words in (line.split(b" ") for line in reported.splitlines())}
    # Sealed: the helper ends now, and the command is its sibling. Both are our children.
    if b"sealed" in reports:
        pid, init = map(int, reports[b"sealed"])
        os.waitpid(helper, 0)
    if b"failed" in reports:
        os.waitpid(pid, 0)
        number, place = reports[b"failed"]
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
    """Carry out all steps and execute the program in this process (or, sealed, in a sibling of it).

    Raises:
        Refused: A step failed; this process is half restricted now, and of no other use.
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
        if umask is not None:  # set last: files that the steps make keep our own umask
            os.umask(umask)
        os.execve(program, argv, env)
    except OSError as error:
        raise Refused(error.errno or errno.EIO, place) from error
    finally:
        sealing.give_up()


def _be_nice(nice: int | None) -> None:
    """Set a niceness before privileges are given up; one that is not allowed (setpriority(2)) leaves ours unchanged."""
    if nice is not None:
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, nice)


def _take_streams(ends: dict[str, int]) -> None:
    """Begin a POSIX session with the command's own descriptors, and with no signal ignored or blocked."""
    for number in _IGNORED:
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    os.setsid()
    if "T" in ends:
        # The leader of a new POSIX session may make a terminal its controlling one (ioctl_tty(2) TIOCSCTTY).
        fcntl.ioctl(ends["T"], termios.TIOCSCTTY, 0)
        sources = (ends.get("I", ends["T"]), ends["T"], ends["T"])
    else:
        sources = (ends["I"], ends["O"], ends.get("E", ends["O"]))
    for number, source in enumerate(sources):
        os.dup2(source, number)


def _enter_group(folder: bytes) -> None:
    _write(folder + b"/cgroup.procs", b"%d" % os.getpid())


def _make_group(folder: bytes) -> None:
    with contextlib.suppress(FileExistsError):  # made by an earlier attempt at the same start
        os.mkdir(folder)


def _set(rest: bytes) -> None:
    value, _, path = rest.partition(b" ")
    _write(path, value)


def _limit(rest: bytes) -> None:
    number, value = map(int, rest.split(b" "))
    # Above the hard limit setrlimit(2) fails for a process without privileges: take what is allowed.
    hard = resource.getrlimit(number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def _unshare(rest: bytes) -> None:
    flags = int(rest)
    uid, gid = os.geteuid(), os.getegid()
    calls.unshare(flags)
    if flags & _CLONE_NEWUSER:
        set_dumpable(is_dumpable=True)  # otherwise root owns the files below, and writing them fails
        _write(b"/proc/self/setgroups", b"deny")  # user_namespaces(7): before an unprivileged gid_map
        _write(b"/proc/self/uid_map", b"%d %d 1" % (uid, uid))
        _write(b"/proc/self/gid_map", b"%d %d 1" % (gid, gid))
        # Closed again: until it executes, the child has the shim's memory, and a sealed command's init keeps it.
        set_dumpable(is_dumpable=False)


def _drop(rest: bytes) -> None:
    calls.drop_capabilities(int(rest))


def _forbid(_rest: bytes) -> None:
    calls.forbid_new_privileges()


def _hide_processes(_rest: bytes) -> None:
    calls.mount(b"none", b"/", b"", _MS_REC | _MS_SLAVE)  # slave: later mounts outside still appear here
    # hidepid=4 hides processes that may not be traced (Linux 5.8); Landlock decides which those are.
    mount_proc(0, b"hidepid=4")


def _join_keyring(_rest: bytes) -> None:
    calls.join_keyring()


def _raise_loopback(_rest: bytes) -> None:
    # Any socket will do: the ioctl names the interface, and needs a descriptor of the right kind (netdevice(7)).
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
            # The path is gone, or a link, or out of our reach anyway: then nothing is allowed there.
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
