"""Copies on one disk: what is kept of a tree, what is sent again, and what is left out.

No server is asked.
"""

import os
import stat
from pathlib import Path

import pytest

from outlive.client import AsyncClient, Client, InvalidRequest, InvalidState
from outlive.core.file_words import DIGEST_BYTES, PIECE_BYTES
from tests.files.trees import make_tree, state_of, sum_of


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """A client that needs no server."""
    return Client(tmp_path / "state", start_server=False)


@pytest.mark.promise("S0.19.copy_whole")
def test_a_folder_is_copied_with_all_that_is_in_it(client: Client, tmp_path: Path) -> None:
    source = make_tree(tmp_path / "source", large_bytes=3 * PIECE_BYTES + 5)
    done = client.files.copy(source, tmp_path / "copy")
    assert state_of(tmp_path / "copy") == state_of(source)
    assert (tmp_path / "copy").stat().st_mtime_ns == source.stat().st_mtime_ns
    assert done.left_out == ()
    assert done.links == 3


@pytest.mark.promise("S0.19.copy_again")
def test_the_same_copy_again_sends_nothing(client: Client, tmp_path: Path) -> None:
    source = make_tree(tmp_path / "source", large_bytes=2 * PIECE_BYTES)
    client.files.copy(source, tmp_path / "copy")
    before = state_of(tmp_path / "copy")
    again = client.files.copy(source, tmp_path / "copy")
    assert (again.sent_bytes, again.files, again.links) == (0, 0, 0)
    assert state_of(tmp_path / "copy") == before
    (source / "a.txt").write_text("other\n")
    os.utime(source / "a.txt", ns=(5, 5))
    (source / "deep" / "007").write_text("other\n")  # its folder keeps its time, at both ends
    assert client.files.copy(source, tmp_path / "copy").files == 2
    assert state_of(tmp_path / "copy") == state_of(source)


@pytest.mark.promise("S0.19.copy_again")
def test_a_file_of_the_same_size_and_time_is_compared_where_that_is_asked(
    client: Client, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"one")
    (tmp_path / "b").write_bytes(b"two")
    for name in "ab":
        os.utime(tmp_path / name, ns=(7, 7))
    assert client.files.copy(tmp_path / "a", tmp_path / "b").files == 0
    assert client.files.copy(tmp_path / "a", tmp_path / "b", compare=True).files == 1
    assert (tmp_path / "b").read_bytes() == b"one"


@pytest.mark.promise("S0.19.copy_again")
@pytest.mark.parametrize("place", [0, DIGEST_BYTES - 1, DIGEST_BYTES, DIGEST_BYTES + 9])
def test_a_large_file_is_compared_to_its_last_byte(client: Client, tmp_path: Path, place: int) -> None:
    for name, letter in (("a", b"x"), ("b", b"y")):
        with open(tmp_path / name, "wb") as file:
            file.truncate(DIGEST_BYTES + 10)
            file.seek(place)
            file.write(letter)
        os.utime(tmp_path / name, ns=(7, 7))
    assert client.files.copy(tmp_path / "a", tmp_path / "b", compare=True).files == 1
    assert client.files.copy(tmp_path / "a", tmp_path / "b", compare=True).files == 0
    assert sum_of(tmp_path / "a") == sum_of(tmp_path / "b")


@pytest.mark.promise("S0.19.copy_resumed")
def test_what_is_there_of_a_file_is_kept_as_far_as_it_is_the_same(client: Client, tmp_path: Path) -> None:
    source, size = tmp_path / "source", 6 * PIECE_BYTES + 17
    source.write_bytes(os.urandom(size))
    seen = 0

    def stop(arrived: int) -> None:
        nonlocal seen
        seen += arrived
        if seen >= 3 * PIECE_BYTES:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.files.copy(source, tmp_path / "copy", progress=stop)
    assert not (tmp_path / "copy").exists()
    (part,) = tmp_path.glob(".copy.*")
    there = part.stat().st_size
    assert client.files.copy(source, tmp_path / "copy").sent_bytes == size - there
    assert sum_of(tmp_path / "copy") == sum_of(source)
    assert list(tmp_path.glob(".copy.*")) == []


def test_a_folder_that_is_there_keeps_its_own_permissions(client: Client, tmp_path: Path) -> None:
    source = make_tree(tmp_path / "source")
    (tmp_path / "mine").mkdir(mode=0o700)
    client.files.copy(f"{source}/", f"{tmp_path}/mine/")
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o700
    assert state_of(tmp_path / "mine") == state_of(source)


def test_a_copy_that_was_cut_gives_the_folder_its_permissions_later(client: Client, tmp_path: Path) -> None:
    source = make_tree(tmp_path / "source", large_bytes=2 * PIECE_BYTES)

    def stop(_arrived: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.files.copy(source, tmp_path / "copy", progress=stop)
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o700
    client.files.copy(source, tmp_path / "copy")
    assert (tmp_path / "copy").stat().st_mode == source.stat().st_mode
    assert state_of(tmp_path / "copy") == state_of(source)


@pytest.mark.promise("S0.19.copy_whole")
def test_a_folder_that_is_there_keeps_whose_its_files_are(client: Client, tmp_path: Path) -> None:
    """Its group for what is made in it (setgid), and that users remove only their own (sticky): they are of
    the place, not of the source.
    """
    (tmp_path / "source" / "team").mkdir(parents=True)
    (tmp_path / "source" / "box").mkdir()
    (tmp_path / "source" / "team").chmod(0o750)
    for name, mode in (("team", 0o2775), ("box", 0o3777)):
        (tmp_path / "there" / name).mkdir(parents=True)
        (tmp_path / "there" / name).chmod(mode)
        (tmp_path / "source" / name / "f").write_text("x")
    client.files.copy(f"{tmp_path}/source/", tmp_path / "there")
    assert stat.S_IMODE((tmp_path / "there" / "team").stat().st_mode) == 0o2750
    assert stat.S_IMODE((tmp_path / "there" / "box").stat().st_mode) == 0o3755


@pytest.mark.promise("S0.19.copy_whole")
def test_a_folder_of_all_users_is_one_in_its_copy(client: Client, tmp_path: Path) -> None:
    for name, mode in (("", 0o1777), ("all", 0o1777), ("some", 0o1770), ("group", 0o2775)):
        (tmp_path / "source" / name).mkdir(exist_ok=True)
        (tmp_path / "source" / name).chmod(mode)
    for _ in range(2):
        client.files.copy(tmp_path / "source", tmp_path / "copy")
        modes = [
            stat.S_IMODE((tmp_path / "copy" / name).stat().st_mode) for name in ("", "all", "some", "group")
        ]
        assert modes == [0o1777, 0o1777, 0o770, 0o775]


def test_what_cannot_be_copied_is_left_out_and_said(client: Client, tmp_path: Path) -> None:
    source = make_tree(tmp_path / "source")
    os.mkfifo(source / "fifo")
    (tmp_path / "copy" / "a.txt").mkdir(parents=True)
    done = client.files.copy(source, tmp_path / "copy")
    assert sorted((one.name, one.error.code) for one in done.left_out) == [
        ("a.txt", "file_failed"),
        ("fifo", "file_failed"),
    ]
    assert (tmp_path / "copy" / "run.sh").exists()


def test_a_file_goes_into_a_folder_that_is_there(client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    (tmp_path / "d").mkdir()
    for _ in range(2):
        done = client.files.copy(tmp_path / "f", tmp_path / "d")
        assert done.target == str(tmp_path / "d" / "f")
    assert (tmp_path / "d" / "f").read_text() == "x"


@pytest.mark.promise("S0.19.copy_whole")
@pytest.mark.parametrize("pieces", [0, 2])
def test_a_file_that_changes_while_its_last_piece_is_read_is_not_copied(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    source, size = tmp_path / "source", pieces * PIECE_BYTES + 5
    source.write_bytes(b"a" * size)
    os.utime(source, ns=(7, 7))
    read = os.pread

    def changes(fd: int, limit: int, offset: int) -> bytes:
        data = read(fd, limit, offset)
        if offset + len(data) == size:
            source.write_bytes(b"b" * size)
        return data

    monkeypatch.setattr("os.pread", changes)
    with pytest.raises(InvalidState) as refusal:
        client.files.copy(source, tmp_path / "copy")
    assert refusal.value.code == "file_changed"
    assert not (tmp_path / "copy").exists()


@pytest.mark.promise("S0.19.copy_ends")
@pytest.mark.parametrize("target", [".", "new", "c/", "c/new", "link/new", "c/link/"])
def test_a_folder_is_not_copied_into_itself(client: Client, tmp_path: Path, target: str) -> None:
    source = tmp_path / "source"
    (source / "c").mkdir(parents=True)
    (source / "f").write_text("x")
    (tmp_path / "around").symlink_to(source)
    (source / "link").symlink_to("c")
    (source / "c" / "link").symlink_to(source)
    before = sorted(source.rglob("*"))
    for name in ("source", "around", "source/c/link"):
        with pytest.raises(InvalidState, match="into itself") as refusal:
            client.files.copy(f"{tmp_path / name}/", f"{source}/{target}")
        assert refusal.value.code == "file_failed"
    assert sorted(source.rglob("*")) == before
    client.files.copy(source / "c", source / "d")  # beside it is not in it, nor is what is around it
    client.files.copy(f"{source}/c/", source)
    assert os.listdir(source / "d") == ["link"]


@pytest.mark.promise("S0.19.copy_ends")
@pytest.mark.parametrize("is_there", [False, True])
def test_a_target_that_a_mount_shows_in_the_source_is_left_out(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """The way up from the target does not lead by the source then; here it is not looked at at all."""
    monkeypatch.setattr("outlive.files.root.folders_around", lambda *_: [])
    (tmp_path / "source" / "f").mkdir(parents=True)
    if is_there:
        (tmp_path / "source" / "new").mkdir()
    done = client.files.copy(f"{tmp_path}/source/", f"{tmp_path}/source/new")
    assert [(one.name, one.error.code) for one in done.left_out] == [("new", "file_failed")]
    assert os.listdir(tmp_path / "source" / "new") == ["f"]


def test_a_copy_of_nothing_is_refused(client: Client, tmp_path: Path) -> None:
    with pytest.raises(InvalidState) as missing:
        client.files.copy(tmp_path / "none", tmp_path / "copy")
    assert missing.value.code == "file_missing"
    with pytest.raises(InvalidRequest):
        client.files.copy("", tmp_path / "copy")


async def test_the_client_with_an_event_loop_copies_as_well(tmp_path: Path) -> None:
    source = make_tree(tmp_path / "source", large_bytes=2 * PIECE_BYTES)
    async with AsyncClient(tmp_path / "state", start_server=False) as client:
        await client.files.copy(source, tmp_path / "copy")
    assert state_of(tmp_path / "copy") == state_of(source)
