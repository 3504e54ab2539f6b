"""Files below another root, as a container has one: paths and links begin there, and nothing leads out of
it.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlive.core.errors import InvalidState
from outlive.core.file_words import OtherRoot
from outlive.files.denied import DeniedPaths
from outlive.files.root import FileRoot

_OURS, _THEIRS = "of this machine", "of the container"
_KEY = "0123456789abcdef"


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """A root with the same names as the folder around it."""
    root = tmp_path / "root"
    for folder, text in ((tmp_path, _OURS), (root, _THEIRS)):
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "file").write_text(text)
    return root


@contextmanager
def _opened(
    inside: Path, path: str, *, writes: bool = False, owner: tuple[int, int] | None = None
) -> Iterator[FileRoot]:
    fd = os.open(inside, os.O_PATH | os.O_DIRECTORY)
    uid, gid = owner or (os.geteuid(), os.getegid())
    other = OtherRoot(fd=fd, uid=uid, gid=gid)
    try:
        root = FileRoot(path.encode(), DeniedPaths(), writes=writes, other=other)
    finally:
        os.close(fd)
    try:
        yield root
    finally:
        root.close()


def _read(inside: Path, path: str) -> str:
    with _opened(inside, path) as root:
        return str(root.read("", 0, 100)["data"].decode())


@pytest.mark.parametrize(
    "path",
    [
        "/data/file",
        "/../data/file",
        "/data/../../../data/file",
        "/absolute",
        "/relative",
        "/folder/file",
        "/up/data/file",
        "/twice",
    ],
)
def test_whatever_a_path_leads_over_it_ends_below_the_root(inside: Path, path: str) -> None:
    (inside / "absolute").symlink_to("/data/file")
    (inside / "relative").symlink_to("../../data/file")
    (inside / "folder").symlink_to("/data")
    (inside / "up").symlink_to("../..")
    (inside / "twice").symlink_to("/folder/../absolute")
    assert _read(inside, path) == _THEIRS


def test_what_is_there_only_outside_is_missing(inside: Path) -> None:
    (inside / "out").symlink_to(f"{inside.parent}/data/file")
    (inside / "kernel").symlink_to("/proc/self/root/etc/passwd")
    for path in (f"{inside.parent}/data/file", "/out", "/kernel"):
        with pytest.raises(InvalidState) as caught, _opened(inside, path) as root:
            root.read("", 0, 1)
        assert caught.value.code == "file_missing"


def test_a_link_at_the_end_is_kept_or_followed_by_what_it_leads_to_inside(inside: Path) -> None:
    """To write: into the folder that a link leads to, and in the place of any other link."""
    (inside.parent / "only").mkdir()
    (inside / "folder").symlink_to("/data")
    (inside / "other").symlink_to(f"{inside.parent}/only")  # a folder here, and nothing there
    (inside / "loop").symlink_to("loop")
    with _opened(inside, "/folder", writes=True) as root:
        assert root.path == str(inside / "data")
    for name in ("other", "loop"):
        with _opened(inside, f"/{name}", writes=True) as root:
            assert root.look("")["entry"]["kind"] == "link"


def test_what_is_made_there_belongs_to_its_user(inside: Path) -> None:
    """A server that is no root's gives nothing away: then it is its own, and the copy is made all the
    same.
    """
    with _opened(inside, "/new", writes=True, owner=(12345, 54321)) as root:
        root.make("", "folder")
        root.write("file", _KEY, 0, b"x")
        # Killed between the two: the file was given away and has not got its name.
        if os.geteuid() == 0:
            (part,) = [one for one in (inside / "new").iterdir() if one.name.endswith(".outlive-part")]
            os.chown(part, 12345, 54321)
        seal = {"size": 1, "sha256": None, "mode": 0o4755, "mtime_ns": 1}
        root.make("file", "file", _KEY, seal)
        root.make("link", "link", "", seal, "/data/file")
    wanted = (12345, 54321) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    made = [inside / "new", inside / "new" / "file", inside / "new" / "link"]
    assert [(one.lstat().st_uid, one.lstat().st_gid) for one in made] == [wanted] * 3
    assert stat.S_IMODE((inside / "new" / "file").stat().st_mode) == 0o755
    assert (inside / "data").stat().st_uid == os.geteuid()
