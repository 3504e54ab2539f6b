"""How a shim reads and writes files: with as few system calls, and as little of Python, as possible (decision 23)."""

import os

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
    """Open a file that is nearly always empty or missing (`files.write_prepared` says why without O_TRUNC)."""
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
