"""Trees of files to be copied, and what is the same about two of them."""

import hashlib
import os
import stat
from pathlib import Path


def make_tree(folder: Path, *, large_bytes: int = 0) -> Path:
    """Make a folder with all that a copy has to keep; one large file in it has so many bytes."""
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("alpha\n")
    (folder / "empty").write_bytes(b"")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    for raw in (b"new\nline", b"not-utf8-\xff\xfe", b"-rf", b"a:b", b"sp ace", b"%2e"):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), raw))).write_bytes(raw)
    inner = folder / "deep" / "er" / "most"
    inner.mkdir(parents=True)
    (inner / "bin").write_bytes(os.urandom(100_000))
    (folder / "none").mkdir(mode=0o700)
    (folder / "link").symlink_to("a.txt")
    (folder / "out").symlink_to("/etc/hostname")
    (folder / "nowhere").symlink_to("is/not/there")
    for number in range(60):
        (folder / "deep" / f"{number:03}").write_bytes(b"%d" % number)
    if large_bytes:
        with open(folder / "large", "wb") as file:
            written = 0
            while written < large_bytes:
                written += file.write(os.urandom(min(1 << 20, large_bytes - written)))
    (folder / "closed").mkdir()
    (folder / "closed" / "x").write_text("x")
    (folder / "closed").chmod(0o555)
    os.utime(folder / "a.txt", ns=(1, 1_234_567_890_123_456_789))
    os.utime(folder / "deep", ns=(1, 999_999_999_999))
    return folder


def state_of(folder: Path) -> dict[bytes, tuple[object, ...]]:
    """Return what is in a folder by its name: kind, mode, time, and the content's SHA-256 or a link's
    target.
    """
    found: dict[bytes, tuple[object, ...]] = {}
    top = os.fsencode(folder)
    for parent, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            looked = os.lstat(path)
            is_link = stat.S_ISLNK(looked.st_mode)
            mode = 0 if is_link else stat.S_IMODE(looked.st_mode)
            content: object = None
            if is_link:
                content = os.readlink(path)
            elif stat.S_ISREG(looked.st_mode):
                content = sum_of(path)
            found[os.path.relpath(path, top)] = (
                stat.S_IFMT(looked.st_mode),
                mode,
                looked.st_mtime_ns,
                content,
            )
    return found


def sum_of(path: str | bytes | Path) -> str:
    """Return a file's SHA-256."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
