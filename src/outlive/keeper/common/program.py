"""The program that shims are: its copy in the state folder, opened once and checked (decision 220).

The process that launches a keeper opens it (`open_program`). Guardian and supervisor hand the open file to
each other when they spawn each other (`spawn.spawn_keeper`), and look up no path: a file that has another
content since, or is gone, changes nothing for a keeper that runs.
"""

import contextlib
import errno
import fcntl
import os
import stat
import subprocess
import time
from collections.abc import Callable

from outlive.core.errors import BackendUnavailable
from outlive.core.layout import Layout
from outlive.keeper.common.spawn import SHIM_VARIABLE
from outlive.kernel.disk import Reserve

_SAYS = b"outlive-runner "  # when it is asked for its version
_PATIENCE_S = 5.0
_MODE = 0o500
_WRITABLE_BY_OTHERS = 0o022
_BUSY_REST_S = 0.01


def open_program(layout: Layout, find_program: Callable[[], str]) -> int:
    """Return a descriptor of the state folder's copy of this installation's program, or of the one that the
    environment names.

    Raises:
        BackendUnavailable: `keeper_unavailable`: it cannot be executed, or is another program.
    """
    source = os.environ.get(SHIM_VARIABLE) or find_program()
    program, obstacle = _tried(source, lambda: _open_checked(place_program(layout, source)))
    if obstacle is None:
        return program
    raise BackendUnavailable(
        "keeper_unavailable",
        f"The keeper cannot be started: {obstacle}.",
        hint=f"Unset {SHIM_VARIABLE}."
        if SHIM_VARIABLE in os.environ
        else "Keep the state folder on a file system that is not mounted noexec, or install outlive anew.",
    )


def place_program(layout: Layout, source: str) -> str:
    """Return the path of the state folder's copy of a program, named by its SHA-256.

    The copy is written unless it is there and is what its name says. An older version's stays: a container
    may have been made with it.

    Raises:
        OSError: The program cannot be read, or its copy not be written.
    """
    with open(source, "rb") as file:
        content = file.read()
    path = f"{layout.programs}/{_digest(content)}"
    try:
        os.close(_open_checked(path))
    except OSError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(layout.programs, 0o700)  # not its parents: a state folder that is gone stays so
        Reserve(layout.root).fit(lambda: _write(layout.programs, path, content))
    return path


def obstacle_of(path: str) -> str | None:
    """Return why a file is not the program that shims are; None: it is. Executes it."""
    program, obstacle = _tried(path, lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    if obstacle is None:
        os.close(program)
    return obstacle


def _tried(path: str, open_it: Callable[[], int]) -> tuple[int, str | None]:
    """Return the descriptor of a program that was opened and executed, or why it is of no use.

    `path` is its name for people.
    """
    if not path.startswith("/"):
        return -1, f"{path!r} is no absolute path of its program"
    try:
        program = open_it()
    except OSError as error:
        return -1, f"its program {error.filename or path} cannot be used: {error.strerror}"
    obstacle = _asked(program, path)
    if obstacle is not None:
        os.close(program)
    return program, obstacle


def _asked(program: int, path: str) -> str | None:
    """Return why an open file is not the program; None: it says that it is."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            said = subprocess.run(
                [f"/proc/self/fd/{program}", "--version"],
                pass_fds=(program,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            # Another thread has forked while the copy was written, and its child has not executed yet: that
            # holds the file open for writing.
            if getattr(error, "errno", 0) == errno.ETXTBSY and time.monotonic() < until:
                time.sleep(_BUSY_REST_S)
                continue
            return f"its program {path} cannot be executed: {getattr(error, 'strerror', None) or error}"
        return None if said.stdout.startswith(_SAYS) else f"{path} is not its program"


def _open_checked(path: str) -> int:
    """Open a copy: a file of this user's that no other user may write, with the content that its name says.

    Raises:
        OSError: It is missing, or anything else.
    """
    program = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if _is_copy(program, os.path.basename(path)):
        return program
    os.close(program)
    raise OSError(errno.EPERM, "it is not the copy that was made", path)


def _is_copy(program: int, digest: str) -> bool:
    about = os.fstat(program)
    is_ours = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid()
    if not is_ours or about.st_mode & _WRITABLE_BY_OTHERS:
        return False
    with open(program, "rb", closefd=False) as file:
        return _digest(file.read()) == digest


def _write(folder: str, path: str, content: bytes) -> None:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        # One writer at a time: then the next one removes what a killed one has left, and no such files
        # gather. Nothing is synced: what a power cut tears has another SHA-256.
        fcntl.flock(lock, fcntl.LOCK_EX)
        half = f"{folder}/unfinished"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(half)
        fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), _MODE)
        os.rename(half, path)
    finally:
        os.close(lock)


def _digest(content: bytes) -> str:
    import hashlib  # noqa: PLC0415 -- 5 MB of libcrypto: neither guardian nor supervisor needs it

    return hashlib.sha256(content).hexdigest()
