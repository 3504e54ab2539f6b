"""A container's files as they are seen inside: `open_root` finds its root by its first process,
`/proc/PID/root` (proc(5)).

No daemon is asked, and nothing is stored in between; the container's volumes and mounts are there, too. A
server that may use the daemon's socket, and has not the rights of the daemon's user, is refused by the
kernel.
"""

import contextlib
import errno
import os

from outlive.core.errors import InvalidState
from outlive.core.file_words import OtherRoot
from outlive.core.layout import Layout
from outlive.extensions.docker import folders
from outlive.extensions.docker.runner_socket import Connect, RunnerHandle
from outlive.kernel.processes import status_number

_MOUNT = "Mount a folder into the container, and copy from or to that."


def open_root(layout: Layout, name: str, *, connect: Connect) -> OtherRoot:
    """Return the root folder of a running container; its first process's user gets what is made in it.

    Blocks.

    Raises:
        InvalidState: `file_missing`: it does not run any more; `file_failed`: this server's user may not look
            into it, or the server has no descriptor left.
    """
    try:
        pid = folders.read_init(layout, name)
        if not pid:
            raise _gone(name)
        runner = RunnerHandle(layout.runner_socket(name), pid, connect=connect)
    except OSError as error:
        raise _refusal(name, error) from None
    with contextlib.closing(runner):
        try:
            uid, gid = _owner(pid)
            root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _refusal(name, error) from None
        # Its number may be another process's by now, whose root would be this machine's: only the first
        # process of the container listens on its socket, and it lived all the while.
        if not runner.is_open():
            os.close(root)
            raise _gone(name)
        return OtherRoot(fd=root, uid=uid, gid=gid)


def _owner(pid: int) -> tuple[int, int]:
    """Return user and group of a process, as this machine numbers them (/proc/PID/status, proc(5))."""
    uid, gid = (status_number(pid, name) for name in (b"Uid", b"Gid"))
    if uid is None or gid is None:
        raise ProcessLookupError(errno.ESRCH, "the container's first process has ended")
    return uid, gid


def _refusal(name: str, error: OSError) -> InvalidState:
    """Return the error for what the operating system says of a container's first process."""
    if error.errno in {errno.ENOENT, errno.ESRCH}:
        return _gone(name)
    if isinstance(error, PermissionError):
        text = f"The files of the container {name} are closed to this server's user."
        return InvalidState("file_failed", text, hint=f"Run the server as the daemon's user. {_MOUNT}")
    # It is this server that lacks something, a descriptor for instance: the container may run on.
    return InvalidState(
        "file_failed", f"The files of the container {name} cannot be opened: {error.strerror}."
    )


def _gone(name: str) -> InvalidState:
    text = f"The container {name} does not run any more: its files went with it."
    return InvalidState("file_missing", text, hint=_MOUNT)
