"""Attacks on the walk to a file: links that are swapped in, outlive's own files under other names, and what
is no file.
"""

import contextlib
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.errors import AccessDenied, InvalidState, OutliveError
from outlive.core.file_words import part_name
from outlive.files.denied import DeniedPaths
from outlive.files.root import FileRoot

_KEY = "0123456789abcdef"
_SECRET = b"olv_secret"
_SEAL = {"size": 1, "sha256": None, "mode": 0o600, "mtime_ns": 0}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of outlive's own, with a token in it."""
    folder = tmp_path / "state"
    (folder / "processes" / "x").mkdir(parents=True)
    (folder / "tokens.json").write_bytes(_SECRET)
    (folder / "processes" / "x" / "out").write_bytes(_SECRET)
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder of a user's."""
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


@pytest.fixture
def denied(own: Path, tmp_path: Path) -> DeniedPaths:
    """What keeps copies out of that folder, and of settings that do not exist yet."""
    return DeniedPaths([str(own), str(tmp_path / "config.toml")])


@pytest.fixture
def root(tree: Path, denied: DeniedPaths) -> Iterator[FileRoot]:
    """The user's folder, opened for a copy."""
    found = FileRoot(os.fsencode(tree), denied, writes=True)
    yield found
    found.close()


def _used(path: Path, denied: DeniedPaths, *, writes: bool) -> None:
    found = FileRoot(os.fsencode(path), denied, writes=writes)
    try:
        found.look("")
        found.read("", 0, 10)
    finally:
        found.close()


def _refused(path: Path, denied: DeniedPaths, *, writes: bool = False) -> None:
    with pytest.raises(AccessDenied) as refusal:
        _used(path, denied, writes=writes)
    assert refusal.value.code == "path_refused"


@pytest.mark.promise("S0.19.copy_wall")
def test_the_state_folder_is_refused_under_every_name(own: Path, tree: Path, denied: DeniedPaths) -> None:
    (tree / "link").symlink_to(own)
    (tree / "file").symlink_to(own / "tokens.json")
    os.link(own / "tokens.json", tree / "hard")
    os.link(own / "processes" / "x" / "out", tree / "harder")
    for path in (
        own,
        own / "tokens.json",
        own / "new",
        tree / "link" / "tokens.json",
        tree / "file",
        tree / "hard",
        tree / "harder",
        tree / ".." / "state" / "tokens.json",
        Path(f"/proc/self/root{own}/tokens.json"),
    ):
        _refused(path, denied)


@pytest.mark.promise("S0.19.copy_wall")
def test_files_with_several_names_are_told_apart_without_a_walk_for_each(
    own: Path, tree: Path, denied: DeniedPaths, root: FileRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        (tree / f"{number}").write_bytes(b"mine")
        os.link(tree / f"{number}", tree / f"{number}-too")
    walked: list[str] = []
    scandir = os.scandir

    def counted(folder: str) -> object:
        walked.append(folder)
        return scandir(folder)

    monkeypatch.setattr("outlive.files.denied._COARSE_NS", 0)  # as if these files were some seconds old
    monkeypatch.setattr("outlive.files.denied.os.scandir", counted)
    for number in range(20):
        assert root.read(f"{number}", 0, 10)["data"] == b"mine"
        root.look(f"{number}-too")
    assert len(walked) == 4  # each of outlive's folders and files once
    # A name that is made later is found all the same.
    (own / "new").write_bytes(_SECRET)
    os.link(own / "new", tree / "hard")
    begun_ns = time.time_ns()
    while (tree / "hard").stat().st_ctime_ns < begun_ns:  # a tick of the file system's clock
        os.utime(tree / "hard", ns=(0, 0))
    with pytest.raises(AccessDenied):
        root.read("hard", 0, 10)


@pytest.mark.promise("S0.19.copy_wall")
def test_a_descriptor_of_another_process_is_no_file(own: Path, denied: DeniedPaths) -> None:
    with open(own / "tokens.json", "rb") as opened:
        _refused(Path(f"/proc/self/fd/{opened.fileno()}"), denied)
    _refused(Path("/proc/self/environ"), denied)
    _refused(Path("/sys/kernel/notes"), denied)


@pytest.mark.promise("S0.19.copy_wall")
def test_nothing_is_written_over_settings_nor_into_the_state_folder(
    own: Path, tmp_path: Path, denied: DeniedPaths
) -> None:
    target = FileRoot(os.fsencode(tmp_path / "config.toml"), denied, writes=True)
    with pytest.raises(AccessDenied):
        target.write("", _KEY, 0, b"x")
    with pytest.raises(AccessDenied):
        target.make("", "file", _KEY, _SEAL)
    target.close()
    assert not list(tmp_path.glob("*config*"))
    _refused(own / "authorized", denied, writes=True)


def _not_made(path: Path, denied: DeniedPaths) -> None:
    """Neither a link nor a file gets this name."""
    target = FileRoot(os.fsencode(path.parent), denied, writes=True)
    try:
        with pytest.raises(AccessDenied):
            target.make(path.name, "link", "", _SEAL, "/tmp")
        with contextlib.suppress(AccessDenied):
            target.write(path.name, _KEY, 0, b"x")
        with pytest.raises(AccessDenied):
            target.make(path.name, "file", _KEY, _SEAL)
    finally:
        target.close()
    assert not os.path.lexists(path) or path.is_dir()


@pytest.mark.promise("S0.19.copy_wall")
def test_no_part_of_the_way_to_what_is_outlives_own_is_replaced(tmp_path: Path) -> None:
    home, disk = tmp_path / "home", tmp_path / "disk"
    home.mkdir()
    (disk / "deep" / "local").mkdir(parents=True)
    (disk / "via").symlink_to("deep")
    (home / ".local").symlink_to("../disk/via/local")
    denied = DeniedPaths([str(home / ".local" / "state"), str(home / ".config" / "outlive" / "config.toml")])
    for path in (
        home,
        home / ".config",  # absent
        home / ".local",  # a link
        home / ".local" / "state",
        disk,
        disk / "via",  # a link that another one leads over
        disk / "deep",
        disk / "deep" / "local",
        disk / "deep" / "local" / "state",
    ):
        _not_made(path, denied)
    (home / ".config").mkdir()
    _not_made(home / ".config" / "outlive", denied)
    (home / "name").symlink_to(".config")
    _not_made(home / "name" / "outlive", denied)
    root = FileRoot(os.fsencode(home), denied, writes=True)
    root.make(".config/outlive", "folder")
    with pytest.raises(AccessDenied):
        root.make(".config/outlive/config.toml", "folder")
    root.make(".config/outlive/other", "link", "", _SEAL, "x")
    root.make("state", "link", "", _SEAL, "x")
    root.close()


@pytest.mark.promise("S0.19.copy_wall")
def test_a_state_folder_that_does_not_exist_yet_is_not_made_by_a_copy(tmp_path: Path, tree: Path) -> None:
    denied = DeniedPaths([str(tmp_path / "tree" / "state")])
    target = FileRoot(os.fsencode(tree), denied, writes=True)
    with pytest.raises(AccessDenied):
        target.make("state", "folder")
    target.close()
    assert os.listdir(tree) == []


@pytest.mark.promise("S0.19.copy_wall")
def test_a_link_in_a_tree_is_never_followed(own: Path, tree: Path, root: FileRoot) -> None:
    (tree / "in").symlink_to(own)
    (tree / "out").symlink_to("/etc")
    for name in ("in/tokens.json", "out/hostname", "out"):
        with pytest.raises(InvalidState):
            root.read(name, 0, 10)
    with pytest.raises(InvalidState):
        root.make("out", "folder")
    with pytest.raises(InvalidState):
        root.write("out/new", _KEY, 0, b"x")
    entry = root.look("out")["entry"]
    assert (entry["kind"], entry["target"]) == ("link", "/etc")


@pytest.mark.promise("S0.19.copy_wall")
@pytest.mark.root("only root makes a link that is another user's")
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o1755])
@pytest.mark.parametrize("owner", ["other", "folder", "self"])
def test_a_link_of_another_users_in_a_folder_of_all_users_is_not_followed(
    tmp_path: Path, tree: Path, denied: DeniedPaths, mode: int, owner: str
) -> None:
    (tree / "f").write_text("mine")
    shared = tmp_path / "shared"
    shared.mkdir()
    link = shared / "link"
    link.symlink_to(tree)
    os.chown(shared, 12345, -1)
    os.lchown(link, {"other": 12346, "folder": 12345, "self": os.geteuid()}[owner], -1)
    shared.chmod(mode)
    for writes, path in ((False, link / "f"), (True, link / "new"), (True, link), (False, link)):
        if owner != "other" or mode != 0o1777:
            FileRoot(os.fsencode(path), denied, writes=writes).close()
            continue
        with pytest.raises(InvalidState) as refusal:
            FileRoot(os.fsencode(path), denied, writes=writes).close()
        assert refusal.value.code == "file_failed"
        assert "another user's" in str(refusal.value)


@pytest.mark.promise("S0.19.copy_wall")
def test_a_folder_that_is_swapped_for_a_link_meanwhile_leads_nowhere(
    tmp_path: Path, tree: Path, root: FileRoot
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(_SECRET)
    inside, link = tree / "d", tree / "l"
    inside.mkdir()
    (inside / "f").write_bytes(b"mine")
    link.symlink_to(outside)
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            os.rename(inside, tree / "x")
            os.rename(link, inside)
            os.rename(inside, link)
            os.rename(tree / "x", inside)

    swapping = threading.Thread(target=swap)
    swapping.start()
    found = set()
    try:
        for _ in range(3000):
            try:
                found.add(root.read("d/f", 0, 100)["data"])
                root.write("d/new", _KEY, 0, b"x")
            except OutliveError as error:
                found.add(error.code.encode())
    finally:
        is_over.set()
        swapping.join()
    assert found <= {b"mine", b"file_missing", b"file_failed"}
    assert b"mine" in found
    assert os.listdir(outside) == ["f"]


@pytest.mark.promise("S0.19.copy_wall")
def test_what_is_no_file_is_neither_read_nor_replaced(tree: Path, root: FileRoot) -> None:
    os.mkfifo(tree / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tree / "socket"))
    for name in ("fifo", "socket"):
        assert root.look(name)["entry"]["kind"] == "other"
        with pytest.raises(InvalidState):
            root.read(name, 0, 10)
        with pytest.raises(InvalidState):
            root.write(name, _KEY, 0, b"x")
        (tree / name).rename(tree / "away")
        root.write(name, _KEY, 0, b"x")
        (tree / "away").rename(tree / name)
        with pytest.raises(InvalidState):
            root.make(name, "file", _KEY, _SEAL)
    assert stat.S_ISFIFO((tree / "fifo").stat().st_mode)


@pytest.mark.promise("S0.19.copy_wall")
@pytest.mark.parametrize("kind", ["fifo", "link", "hard"])
def test_what_has_an_unfinished_files_name_is_not_written_through(
    tmp_path: Path, tree: Path, root: FileRoot, kind: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    part = tree / os.fsdecode(part_name(b"f", _KEY))
    if kind == "fifo":
        os.mkfifo(part)
    elif kind == "link":
        part.symlink_to(victim)
    else:
        os.link(victim, part)
    with pytest.raises(InvalidState):
        root.write("f", _KEY, 0, b"attack", cut=True)
    assert victim.read_bytes() == b"mine"


def test_an_unfinished_file_is_seen_by_its_owner_only_and_has_its_name_when_it_is_whole(
    tree: Path, root: FileRoot
) -> None:
    root.write("f", _KEY, 0, b"ab")
    assert root.write("f", _KEY, 3, b"d") == {"size": 2}
    part = tree / os.fsdecode(part_name(b"f", _KEY))
    assert stat.S_IMODE(part.stat().st_mode) == 0o600
    assert not (tree / "f").exists()
    assert root.list("", "")["entries"] == []
    root.write("f", _KEY, 2, b"c")
    root.write("f", _KEY, 1, b"bc")  # repeated
    for _ in range(2):  # and so is this
        seal = {"size": 3, "sha256": None, "mode": 0o4755, "mtime_ns": 5}
        entry = root.make("f", "file", _KEY, seal)["entry"]
        assert (entry["size"], entry["mode"], entry["mtime_ns"]) == (3, 0o755, 5)
    assert (tree / "f").read_bytes() == b"abc"
    assert not part.exists()


def test_a_file_of_another_content_gets_no_name(tree: Path, root: FileRoot) -> None:
    root.write("f", _KEY, 0, b"abc")
    with pytest.raises(InvalidState) as refusal:
        root.make("f", "file", _KEY, {**_SEAL, "size": 3, "sha256": "0" * 64})
    assert refusal.value.code == "file_changed"
    assert os.listdir(tree) == []
