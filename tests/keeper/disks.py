"""Small file systems of a test's own, and how to fill them."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size_bytes: int, *, inodes: int = 2000) -> Iterator[Path]:
    """Mount a file system of this size on a new folder; skip the test where that is not permitted."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},nr_inodes={inodes}", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"mount is not permitted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, *, leave_bytes: int) -> Path:
    """Take the space of the file system but for some; returns the file to remove."""
    ballast = folder / "ballast"
    found = os.statvfs(folder)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, found.f_bavail * found.f_frsize - leave_bytes))
    return ballast


def fill_up(folder: Path) -> Path:
    """Take all the space, down to the last block, as another program would that writes and writes; returns the file."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)) == size:
                    pass
    return ballast


def take_inodes(folder: Path) -> list[Path]:
    """Take all the inodes; returns the files to remove."""
    taken: list[Path] = []
    with contextlib.suppress(OSError):
        while True:
            path = folder / f"inode{len(taken)}"
            path.touch()
            taken.append(path)
    return taken


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Make a file system read-only for everything that is opened by its path from now on, while the block runs.

    What is open stays writable: the kernel refuses `remount,ro` while a file is open for writing, as some always are. So a
    mount that is read-only is laid over the folder.
    """
    aside = folder.with_name(folder.name + ".read-only")  # where nobody opens anything before it is read-only
    aside.mkdir(exist_ok=True)
    _mount("--bind", str(folder), str(aside))
    try:
        _mount("-o", "remount,bind,ro", str(aside))
        _mount("--bind", str(aside), str(folder))  # a copy of that mount, as it is
    finally:
        subprocess.run(["umount", "-l", str(aside)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)
