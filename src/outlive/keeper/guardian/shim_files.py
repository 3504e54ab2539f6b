"""How a shim that is a fork reads and writes files and starts its command: with as few system calls, and as little of Python, as possible.

A command without restrictions is started by posix_spawn(3), which copies nothing of the shim's memory (decision 23). For commands
with restrictions see `sandbox.confine`, which forks.
"""

import os
import signal

_READ = os.O_RDONLY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
_ADD = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_READ_BYTES = 1 << 16


def read_whole(path: bytes) -> bytes:
    """Return what a file holds."""
    fd = os.open(path, _READ)
    try:
        content = chunk = os.read(fd, _READ_BYTES)
        while len(chunk) == _READ_BYTES:
            chunk = os.read(fd, _READ_BYTES)
            content += chunk
    finally:
        os.close(fd)
    return content


def open_empty(path: bytes) -> int:
    """Open a file that is nearly always empty or missing (`common.files.write_prepared` says why without O_TRUNC)."""
    fd = os.open(path, _CREATE, 0o600)
    if os.lseek(fd, 0, 2):
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, 0)
    return fd


def add_line(path: bytes, content: bytes) -> None:
    """Append a line that is shorter than a page: it is written whole or not at all."""
    fd = os.open(path, _ADD, 0o600)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)


def add_secrets(env: dict[bytes, bytes], fd: int) -> None:
    """Add the variables that a file in memory holds (`frames.encode_secrets`); -1 stands for no file."""
    for word in os.pread(fd, os.fstat(fd).st_size, 0).split(b"\0")[:-1] if fd >= 0 else ():
        name, _, value = word.partition(b"=")
        env[name] = value


# What Python ignores must not stay ignored in a command (signal(7): ignored dispositions survive execve(2)).
_DEFAULT_SIGNALS = tuple(
    number for number in range(1, 65) if number not in {9, 19, 32, 33} and number in signal.valid_signals()
)


def spawn_command(
    program: bytes, argv: list[bytes], env: dict[bytes, bytes], ends: dict[str, int], *, umask: int
) -> int:
    """Start a program in a POSIX session of its own and return its pid; `ends` are its descriptors by the shim's letters.

    Raises:
        OSError: The program does not run, and never did.
    """
    own = os.umask(umask)  # inherited: posix_spawn(3) has no attribute for it
    try:
        return os.posix_spawn(
            program,
            argv,
            env,
            file_actions=_file_actions(ends),
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULT_SIGNALS,
        )
    finally:
        os.umask(own)


def _file_actions(ends: dict[str, int]) -> list[tuple[int, ...] | tuple[int, int, str, int, int]]:
    if "T" in ends:
        # The POSIX session leader's first open of a terminal makes it the controlling one (tty_ioctl(4)).
        terminal = os.ttyname(ends["T"])
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ]
        # A caller has lent its standard input: the terminal is for output, and for the signals of its keys.
        if "I" in ends:
            actions.append((os.POSIX_SPAWN_DUP2, ends["I"], 0))
        return actions
    return [
        (os.POSIX_SPAWN_DUP2, ends["I"], 0),
        (os.POSIX_SPAWN_DUP2, ends["O"], 1),
        (os.POSIX_SPAWN_DUP2, ends.get("E", ends["O"]), 2),
    ]
