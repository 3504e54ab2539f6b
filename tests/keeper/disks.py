"""Small file systems of a test's own, and how to fill them."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, *words: str) -> Iterator[Path]:
    """Mount something, as these words of mount(8) say, on a new folder; skip the test where that is not
    permitted.
    """
    folder.mkdir()
    done = subprocess.run(["mount", *words, str(folder)], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"mount is not permitted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def make_ext4(image: Path, size_bytes: int) -> None:
    """Make an ext4 of this size in a file; skip the test where there is no mkfs.ext4."""
    with image.open("wb") as file:
        file.truncate(size_bytes)
    if shutil.which("mkfs.ext4") is None:
        reason = "mkfs.ext4 (e2fsprogs) is not installed"
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), reason
        pytest.skip(reason)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)


@contextmanager
def small_disk(folder: Path, size_bytes: int, *, inodes: int = 2000) -> Iterator[Path]:
    """Mount a file system of this size on a new folder; skip the test where that is not permitted."""
    with mounted(folder, "-t", "tmpfs", "-o", f"size={size_bytes},nr_inodes={inodes}", "tmpfs"):
        yield folder


def fill(folder: Path, *, leave_bytes: int) -> Path:
    """Take the space of the file system but for some; returns the file to remove."""
    ballast = folder / "ballast"
    found = os.statvfs(folder)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, found.f_bavail * found.f_frsize - leave_bytes))
    return ballast


def fill_up(folder: Path) -> Path:
    """Take all the space, down to the last block, as another program would that writes and writes.

    Returns the file.
    """
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
    """Make a file system read-only for everything that is opened by its path from now on, while the block
    runs.

    What is open stays writable: the kernel refuses `remount,ro` while a file is open for writing, as some
    always are. So a mount that is read-only is laid over the folder.
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


@contextmanager
def freezable_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """Mount an ext4 file system of this size on a new folder; skip the test where that is not permitted."""
    image = folder.with_name(f"{folder.name}.image")
    make_ext4(image, size_bytes)
    with mounted(folder, "-o", "loop", str(image)):
        yield folder


@contextmanager
def frozen(folder: Path, *, at_most_s: int = 60) -> Iterator[None]:
    """Freeze a file system while the block runs: what writes there waits, and cannot be killed.

    For a time at most: a test that waits there itself has to end.
    """
    subprocess.run(["fsfreeze", "-f", str(folder)], check=True)
    thaw = ["sh", "-c", f"sleep {at_most_s}; exec fsfreeze -u {folder}"]
    with subprocess.Popen(thaw, stderr=subprocess.DEVNULL, start_new_session=True) as late:
        try:
            yield
        finally:
            os.killpg(late.pid, 9)
            subprocess.run(["fsfreeze", "-u", str(folder)], check=False, stderr=subprocess.DEVNULL)
