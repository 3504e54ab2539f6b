"""What this machine offers, tried out rather than guessed: one small function for each thing outlive stands
on.

Each returns a `ProbeResult`. Nothing is changed for longer than the probe lasts; probe files have no name.
`CURES`, and functions for those that depend on what was found, say what to install or to set: a line without
a cure is always well, or names a thing that nothing depends on.
"""

import contextlib
import os
import platform
import pty
import shutil
import signal
import socket
import tempfile
import time
import tty
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from outlive.cli.machine.capacity import probe_capacity
from outlive.cli.server.keeper_client import KeeperClient
from outlive.core.command import Profile
from outlive.core.errors import OutliveError
from outlive.core.layout import Layout
from outlive.core.values import dataclass
from outlive.discovery.keeper import program_path
from outlive.keeper.common.program import obstacle_of
from outlive.keeper.common.spawn import SHIM_VARIABLE
from outlive.keeper.sandbox.capabilities import Capabilities, ask_offers
from outlive.keeper.sandbox.cgroups import group_of, mount_point
from outlive.kernel.calls import become_subreaper, pidfd_exit_status, punch_hole
from outlive.kernel.disk import look_at

_OTHER_FOLDER = "choose another folder: --state-dir FOLDER, or OUTLIVE_STATE_DIR"
_SECCOMP = "in a container, a seccomp profile that allows it (Docker 20.10 or newer)"

# By the line's name. The versions are those of Linux's manual pages.
CURES: Mapping[str, str] = {
    "splice": f"a kernel that has splice (gVisor has none), and a file system that takes it: {_OTHER_FOLDER}",
    "pidfd": f"Linux 5.3 or newer; {_SECCOMP}",
    "subreaper": "Linux itself: emulators of a process (qemu-user) make no subreaper",
    "posix_spawn setsid": "a C library with POSIX_SPAWN_SETSID: glibc 2.26 or newer, or musl",
    "PIDFD_GET_INFO": "Linux 6.15 or newer",
    "memfd": f"Linux 3.17 or newer; {_SECCOMP}",
    "pty splice": "Linux 5.12 or newer",
    "hole punching": f"ext4, XFS, Btrfs or tmpfs under the state folder: {_OTHER_FOLDER}",
    "/proc children": (
        "/proc mounted, and a kernel with CONFIG_PROC_CHILDREN (those of distributions have it)"
    ),
    "limits by group": (
        "a control group for the keeper: docs/sandbox.md has the two lines for its unit (Delegate=)"
    ),
    "IPv6 loopback": "sysctl net.ipv6.conf.lo.disable_ipv6=0, or nothing: 127.0.0.1 does the same",
    "shell": "install bash (Debian: apt-get install bash; Alpine: apk add bash)",
}

_NAMESPACES = (
    "let users make namespaces: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
    "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), user.max_user_namespaces above 0; "
    "in a container --security-opt seccomp=unconfined"
)
_LANDLOCK = "Linux 6.2 or newer, with `landlock` among the kernel's security modules (boot parameter lsm=)"

# By the limit that binds, as `capacity` names it.
_ROOM: Mapping[str, str] = {
    "open files": (
        "a higher hard limit for the keeper: LimitNOFILE= in its unit, `ulimit -Hn` or "
        "limits.conf(5) without one"
    ),
    "pid_max": "sysctl kernel.pid_max=4194304",
    "threads-max": "a higher kernel.threads-max (sysctl)",
    "processes of": "a higher `ulimit -u` (limits.conf(5)), or LimitNPROC= in the keeper's unit",
    "pids.max of": "a higher limit of that group: TasksMax= in the unit, --pids-limit of a container",
    "memory": "more memory, or fewer commands at a time: groups with a limit (docs/cli.md)",
}


def cure_of_profile(profile: Profile, obstacle: str) -> str:
    """Return what makes a sandbox profile possible, by what prevents it."""
    if "Landlock" in obstacle:
        return _LANDLOCK
    if profile is Profile.GUARDED or "system calls" in obstacle or "keyring" in obstacle:
        return f"a kernel with seccomp filters and keyrings; {_SECCOMP}"
    return _NAMESPACES


def cure_of_capacity(limit: str) -> str:
    """Return how the limit that binds is raised; `limit` is its name in the line."""
    return next((cure for start, cure in _ROOM.items() if limit.startswith(start)), "")


def cure_of_state_folder(degraded: str | None, trouble: str) -> str:
    """Return how the state folder can be written again, by what its file system reports and by what trying to
    write said.
    """
    match degraded:
        case "disk_full":
            return f"free space (`outlive prune`), or {_OTHER_FOLDER}"
        case "read_only":
            return f"mount it writable (mount -o remount,rw), or {_OTHER_FOLDER}"
        case _:
            return _OTHER_FOLDER if trouble else f"make it again, or {_OTHER_FOLDER}"


PROGRAM_MISSING = (
    "install a wheel that holds the program (pip install --force-reinstall --only-binary outlive "
    "outlive), or a C compiler (Debian: gcc libc6-dev, or musl-tools; ziglang from PyPI) that the first "
    "start compiles it with, in a checkout `make setup`"
)
PROGRAM_NAMED = f"unset {SHIM_VARIABLE} where the keeper is started"
PROGRAM_NOT_EXECUTED = "install outlive anew, on a file system that is not mounted noexec"


def probe_cgroup_v2() -> tuple[bool, str]:
    """Tell whether a child group with freeze and kill can be made below our own (cgroups(7))."""
    root = mount_point("cgroup2", "")
    path = group_of("")
    if root is None or path is None:
        return False, "not mounted"
    return _try_group(root + path, needed=("cgroup.freeze", "cgroup.kill"))


def probe_cgroup_v1() -> tuple[bool, str]:
    """Tell whether a child group of the version 1 freezer can be made below our own."""
    root = mount_point("cgroup", "freezer")
    path = group_of("freezer")
    if root is None or path is None:
        return False, "not mounted"
    return _try_group(root + path, needed=("freezer.state",))


def _try_group(parent: str, *, needed: tuple[str, ...]) -> tuple[bool, str]:
    group = f"{parent.rstrip('/')}/outlive-probe-{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError as error:
        return False, f"not writable ({error.strerror})"
    try:
        missing = [name for name in needed if not os.access(f"{group}/{name}", os.W_OK)]
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(group)
    if missing:
        return False, f"{' and '.join(missing)} missing"
    return True, f"writable below {parent}"


_PATIENCE_S = 5.0


def probe_program(state_dir: str) -> tuple[bool, str, str]:
    """Return whether the keeper has its program, what there is to say about it, and what to do if not.

    Compiles none.
    """
    path = os.environ.get(SHIM_VARIABLE) or program_path(Layout(state_dir))
    if path is None or not (os.path.exists(path) or SHIM_VARIABLE in os.environ):
        return False, "none is shipped for this machine, and none was compiled", PROGRAM_MISSING
    if (obstacle := obstacle_of(path)) is None:
        return True, path, ""
    is_named = SHIM_VARIABLE in os.environ
    return False, obstacle, PROGRAM_NAMED if is_named else PROGRAM_NOT_EXECUTED


def keeper_status(state_dir: str) -> dict[str, object]:
    """Return what the keeper says of itself, {} where none runs."""
    try:
        with KeeperClient(Layout(state_dir)) as keeper:
            return keeper.ask({"op": "status"})
    except (OutliveError, OSError):
        return {}


_Importance = Literal["required", "optional", "fact"]
_FEW_COMMANDS = 100  # fewer at a time is worth a word
_CANNOT_WRITE = "nothing can be started: what runs goes on, and can be read, ended and removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """One line of `outlive doctor`: `consequence` says what happens without it, `cure` what to install or to
    set.
    """

    name: str
    is_ok: bool
    detail: str
    importance: _Importance = "optional"
    consequence: str = ""
    cure: str = ""


def find_out(state_dir: str) -> list[ProbeResult]:
    """Try everything; `state_dir` need not exist, its nearest existing parent is tried then."""
    folder = existing_folder(state_dir)
    program = probe_program(state_dir)
    return [
        _kernel(),
        _attempt("splice", lambda: _splice_into_file(folder), "required", "outlive cannot run here"),
        _attempt("pidfd", _pidfd, "required", "outlive cannot run here"),
        _attempt("subreaper", _subreaper, "required", "outlive cannot run here"),
        _attempt("posix_spawn setsid", _spawn, "required", "outlive cannot run here"),
        _attempt(
            "PIDFD_GET_INFO",
            _pidfd_info,
            "optional",
            "when a shim and the supervisor die at the same instant, the exit code may be reported as lost",
        ),
        _attempt("memfd", _memfd, "optional", "commands longer than 96 KiB are refused"),
        _attempt("pty splice", _pty_splice, "optional", "commands in a terminal (pty) deliver no output"),
        _attempt(
            "hole punching",
            lambda: _hole(folder),
            "optional",
            "output beyond its limit is gone for readers, but its disk space is not released",
        ),
        _attempt("/proc children", _children, "required", "outlive cannot run here"),
        _control_groups("cgroup v2", probe_cgroup_v2()),
        _control_groups("cgroup v1 freezer", probe_cgroup_v1()),
        _capacity(state_dir),
        _pipe_pages(),
        _program(*program),
        *_bounds(ask_offers(state_dir, program=program[1] if program[0] else "")),
        _attempt("IPv6 loopback", _ipv6, "optional", "only 127.0.0.1 is served"),
        _shell(),
        _state_folder(state_dir, folder),
    ]


def _program(is_there: bool, detail: str, cure: str) -> ProbeResult:  # noqa: FBT001 - as it was found
    return ProbeResult(
        name="program",
        is_ok=is_there,
        importance="required",
        detail=detail,
        cure=cure,
        consequence="no keeper starts, and no command; where a C compiler is, the first start compiles it",
    )


def _bounds(offers: Capabilities) -> Iterator[ProbeResult]:
    machine = offers.machine
    files = {"cpus": machine.cpu_file, "memory": machine.memory_file, "processes": machine.pids_file}
    found, missing = ([name for name, file in files.items() if bool(file) is has] for has in (True, False))
    yield ProbeResult(
        name="limits by group",
        is_ok=not missing,
        detail=", ".join(found) or "no control group can be made below the keeper's",
        cure=CURES["limits by group"] if missing else "",
        consequence=f"limits of {', '.join(missing)} hold for each process only, and where that is not "
        "possible a command with one is refused (sandbox_unavailable)",
    )
    for profile, obstacle in offers.obstacles.items():
        if profile is not Profile.OPEN:
            yield ProbeResult(
                name=f"profile {profile.value}",
                is_ok=not obstacle,
                detail=obstacle or _means(profile, offers),
                cure=cure_of_profile(profile, obstacle) if obstacle else "",
                consequence="a command that asks for it is refused (sandbox_unavailable)",
            )


def _means(profile: Profile, offers: Capabilities) -> str:
    if profile is Profile.GUARDED:
        return "no_new_privs, resource limits"
    namespaces = "namespaces" if offers.machine.can_unshare else "user namespaces"
    landlock = f"Landlock {offers.machine.landlock}"
    if profile is Profile.WORKSPACE:
        return landlock
    return f"{landlock}, {namespaces}" if profile is Profile.OFFLINE else f"{namespaces}, mounts"


def existing_folder(path: str) -> str:
    """Return the path, or its nearest parent that is a folder."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _attempt(name: str, probe: Callable[[], str], importance: _Importance, consequence: str) -> ProbeResult:
    try:
        detail = probe()
    except (OSError, AttributeError, NotImplementedError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return ProbeResult(
            name=name,
            is_ok=False,
            detail=reason or str(error),
            importance=importance,
            consequence=consequence,
            cure=CURES[name],
        )
    return ProbeResult(name=name, is_ok=True, detail=detail, importance=importance)


def _control_groups(name: str, probed: tuple[bool, str]) -> ProbeResult:
    """Report only: trees are stopped and killed by walking them for now (decision 21)."""
    is_writable, detail = probed
    return ProbeResult(
        name=name, is_ok=is_writable, detail=f"{detail}; not used yet: trees are walked", importance="fact"
    )


def _kernel() -> ProbeResult:
    libc, version = platform.libc_ver()
    detail = f"Linux {platform.release()}, Python {platform.python_version()}, {libc or 'libc'} {version}"
    return ProbeResult(name="system", is_ok=True, detail=detail, importance="fact")


def _splice_into_file(folder: str) -> str:
    with tempfile.TemporaryFile(dir=folder) as log, _pipe() as (reader, writer):
        os.write(writer, b"probe")
        moved = os.splice(reader, log.fileno(), 5, offset_dst=3)
        if moved != 5 or os.pread(log.fileno(), 8, 0) != b"\0\0\0probe":
            raise OSError(0, "bytes did not arrive")
    return "pipe to file in one system call"


def _pidfd() -> str:
    fd = os.pidfd_open(os.getpid())
    try:
        signal.pidfd_send_signal(fd, 0)
    finally:
        os.close(fd)
    return "a reused pid is never hit"


def _subreaper() -> str:
    become_subreaper()
    return "daemonised grandchildren stay ours"


def _spawn() -> str:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], {}, setsid=True)
    _, status = os.waitpid(pid, 0)
    return f"exit code {os.waitstatus_to_exitcode(status)} came back"


def _pidfd_info() -> str:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], {})
    fd = os.pidfd_open(pid)
    try:
        os.waitpid(pid, 0)
        status = pidfd_exit_status(fd)
    finally:
        os.close(fd)
    if status is None or os.waitstatus_to_exitcode(status) != 7:
        raise OSError(0, "this kernel does not report exit codes through a pidfd (6.15 does)")
    return "the kernel reports exit codes after reaping"


def _memfd() -> str:
    os.close(os.memfd_create("outlive-probe"))
    return "commands of any length"


def _pty_splice() -> str:
    master, slave = pty.openpty()
    try:
        tty.setraw(slave)
        with _pipe() as (reader, writer):
            os.write(slave, b"probe")
            moved = os.splice(master, writer, 64)
            if os.read(reader, 64) != b"probe" or moved != 5:
                raise OSError(0, "bytes did not arrive")
    finally:
        os.close(master)
        os.close(slave)
    return "terminal to pipe to file without a copy"


def _hole(folder: str) -> str:
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"x" * 65536)
        file.flush()
        punch_hole(file.fileno(), 4096, 32768)
        if os.fstat(file.fileno()).st_size != 65536 or os.pread(file.fileno(), 1, 8192) != b"\0":
            raise OSError(0, "the range was not released")
    return f"{_file_system(folder)} releases ranges of a file"


def _children() -> str:
    pid = os.getpid()
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii"):
        return "the kernel lists children"


def _capacity(state_dir: str) -> ProbeResult:
    keeper = keeper_status(state_dir)
    part = keeper.get("supervisor")
    pid = part.get("pid") if isinstance(part, dict) else None
    most, limit, detail = probe_capacity(pid, live=int(str(keeper.get("processes", 0))))
    return ProbeResult(
        name="capacity",
        is_ok=most >= _FEW_COMMANDS,
        detail=detail,
        consequence="more commands at a time than that are refused (process_limit), or fail to start",
        cure=cure_of_capacity(limit) if most < _FEW_COMMANDS else "",
    )


def _pipe_pages() -> ProbeResult:
    try:
        with open("/proc/sys/fs/pipe-user-pages-soft", encoding="ascii") as file:
            pages = int(file.read())
    except (OSError, ValueError):
        return ProbeResult(name="pipe pages", is_ok=True, detail="unknown", importance="fact")
    is_free = pages == 0 or os.geteuid() == 0
    room = "no limit" if is_free else f"about {pages // 256} busy pipes of 1 MiB"
    return ProbeResult(
        name="pipe pages", is_ok=True, detail=f"pipe-user-pages-soft {pages}: {room}", importance="fact"
    )


def _ipv6() -> str:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        probe.bind(("::1", 0))
    return "::1 is served beside 127.0.0.1"


def _shell() -> ProbeResult:
    bash = shutil.which("bash")
    return ProbeResult(
        name="shell",
        is_ok=bash is not None,
        detail=bash or "/bin/sh",
        consequence="" if bash else "command lines are read by sh: bash syntax is an error",
        cure="" if bash else CURES["shell"],
    )


def _state_folder(state_dir: str, folder: str) -> ProbeResult:
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize >> 20
    degraded = look_at(folder)
    begun = time.monotonic()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"probe")
        trouble = ""
    except OSError as error:
        trouble = f", {error.strerror}"
    made_ms = (time.monotonic() - begun) * 1000
    is_ok = not trouble and degraded is None
    return ProbeResult(
        name="state folder",
        is_ok=is_ok,
        detail=(
            f"{f'{degraded}: ' if degraded else ''}{state_dir} ({_file_system(folder)}, {free} MiB "
            f"free, a file takes {made_ms:.1f} ms{trouble})"
        ),
        importance="required",
        consequence="" if is_ok else _CANNOT_WRITE,
        cure="" if is_ok else cure_of_state_folder(degraded, trouble),
    )


def _file_system(folder: str) -> str:
    """Return the type of the file system that holds `folder`, by the longest mount point above it
    (proc(5)).
    """
    path = os.path.realpath(folder)
    best, kind = "", "unknown"
    with (
        contextlib.suppress(OSError),
        open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts,
    ):
        for line in mounts:
            _, point, found, *_ = line.split(" ")
            point = point.replace("\\040", " ")
            is_above = path == point or path.startswith(point.rstrip("/") + "/")
            if is_above and len(point) >= len(best):
                best, kind = point, found
    return kind


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    try:
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)
