"""A sealed command: it has its own view of files, and its own PID namespace with an init of its own.

Three processes take part. The helper, which the shim forked, prepares the mounts. It forks the namespace's init, which waits
until no other process is left in the namespace. And it clones the command as a child of the shim, so that the shim learns
exactly how the command ends. The kernel ends every process of the namespace together with its init.

Which paths are hidden or shown is decided by `engine` and `steps`; the views arrive here as words.
"""

import os
import select
import signal
from typing import NoReturn

from outlive.keeper.sandbox import kernel_calls as calls

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = (
    1,
    2,
    4,
    8,
    0x1000,
    0x4000,
    0x40000,
)
_KEYS = (b"/proc/keys", b"/proc/key-users")
_COMMANDS_PID = 2  # inside its namespace: the command is the second process there
_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty")
_LINKS = ((b"fd", b"/proc/self/fd"), (b"stdin", b"fd/0"), (b"stdout", b"fd/1"), (b"stderr", b"fd/2"))
_SHARED = (b"/tmp", b"/var/tmp")
_HIGHEST_FD = 1 << 20  # the kernel's default limit of descriptors (fs.nr_open, proc_sys_fs(5))


class Seal:
    """Collects `views` (verb, path), and seals this process with `enter`."""

    def __init__(self, ends: dict[str, int], report: int) -> None:
        """Take the command's own descriptors, and the pipe to the shim."""
        self.views: list[tuple[bytes, bytes]] = []
        self._ends = ends
        self._report = report
        self._init = 0
        self.is_done = False  # whether this process lives in the new namespaces

    def enter(self) -> None:
        """Return as the command-to-be, in a sibling of this process; the caller has already unshared the namespaces."""
        folder = os.getcwdb()
        self._mount_views()
        reading, writing = os.pipe()
        self._init = os.fork()
        if not self._init:
            _be_init(reading)
        # A child of the shim and not of this helper: the shim then reaps the command itself.
        pid = calls.clone_for_parent()
        if pid:
            os.write(self._report, b"sealed %d %d\n" % (pid, self._init))
            # Init waits for this byte, so that it never finds the namespace empty before the command is in it.
            os.write(writing, b"\0")
            os._exit(0)
        self._init = 0
        self.is_done = True
        mount_proc(_MS_RDONLY)
        os.chdir(folder)  # again: the same path may be another mount now

    def give_up(self) -> None:
        """End the namespace of a command that could not be started."""
        if self._init:
            os.kill(self._init, signal.SIGKILL)

    def _mount_views(self) -> None:
        # First copies of what stays visible: once a folder is hidden, its content cannot be reached any more.
        calls.mount(b"none", b"/", b"", _MS_REC | _MS_PRIVATE)
        trees = []
        for verb, path in self.views:
            if verb != b"hide" and os.path.exists(path):
                tree = calls.open_tree(path)
                if verb == b"show":
                    calls.make_read_only(b"", tree=tree)
                trees.append((path, tree, os.path.isdir(path)))
        devices = _open_devices(self._ends.get("T", -1))
        calls.make_read_only(b"/")
        for verb, path in self.views:
            if verb == b"hide" and os.path.isdir(path):
                mode = b"mode=1777" if path in _SHARED else b"mode=0700"
                calls.mount(b"tmpfs", path, b"tmpfs", _MS_NOSUID | _MS_NODEV, mode)
        _fill_dev(devices)
        for path, tree, is_folder in trees:
            _make_place(path, is_folder=is_folder)
            calls.move_tree(tree, path)


def mount_proc(flags: int, options: bytes = b"") -> None:
    """Mount a new /proc that lists no keys: keys belong to the user, not to a process or a namespace."""
    calls.mount(b"proc", b"/proc", b"proc", flags | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, options)
    for path in _KEYS:
        if os.path.exists(path):
            calls.mount(b"/dev/null", path, b"", _MS_BIND)


def _make_place(path: bytes, *, is_folder: bool) -> None:
    """Make a mount point where a hidden folder has taken it away."""
    if os.path.lexists(path):
        return
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC))


def _open_devices(terminal: int) -> list[tuple[bytes, int]]:
    devices = [
        (b"/dev/" + name, calls.open_tree(b"/dev/" + name))
        for name in _DEVICES
        if os.path.exists(b"/dev/" + name)
    ]
    if terminal >= 0:  # /dev/console is where ttyname(3) finds a terminal that has no name in /dev/pts here
        devices.append((b"/dev/console", calls.open_tree(os.fsencode(os.ttyname(terminal)))))
    return devices


def _fill_dev(devices: list[tuple[bytes, int]]) -> None:
    """Mount a /dev that holds only harmless devices and new terminals."""
    calls.mount(b"tmpfs", b"/dev", b"tmpfs", _MS_NOSUID | _MS_NOEXEC, b"mode=0755")
    for path, tree in devices:
        _make_place(path, is_folder=False)
        calls.move_tree(tree, path)
    for name, target in (*_LINKS, (b"ptmx", b"pts/ptmx")):
        os.symlink(target, b"/dev/" + name)
    for name, kind, options in (
        (b"/dev/pts", b"devpts", b"newinstance,ptmxmode=0666,mode=0620"),
        (b"/dev/shm", b"tmpfs", b"mode=1777"),
    ):
        os.mkdir(name)
        calls.mount(kind, name, kind, _MS_NOSUID | _MS_NOEXEC, options)


def _be_init(reading: int) -> NoReturn:
    """Wait, as process 1 of the namespace, until no other process is left in it.

    The kernel delivers no signal to process 1 but KILL and STOP from outside (pid_namespaces(7)), and reaps its children
    because SIGCHLD is ignored.
    """
    try:
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        os.dup2(reading, 3)
        # With a copy open here, the command's pipes would never reach their end.
        os.closerange(4, _HIGHEST_FD)
        if os.read(3, 1):
            _wait_for_command()
            while True:
                os.wait()  # with SIGCHLD ignored it returns only after the last child is gone (wait(2))
    except OSError:
        pass  # ECHILD: no process is left
    finally:
        os._exit(0)


def _wait_for_command() -> None:
    try:
        command = os.pidfd_open(_COMMANDS_PID)
    except ProcessLookupError:
        return  # the command has ended and was reaped
    poll = select.poll()
    poll.register(command, select.POLLIN)
    poll.poll()
