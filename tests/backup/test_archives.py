"""Hostile and damaged archives: nothing of them is restored, and nothing outside of the folder is touched."""

import dataclasses
import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlive.core.errors import StoreCorrupt
from outlive.core.layout import Layout
from outlive.discovery.restoration import restore
from outlive.store.backup.backup_reader import read_backup
from outlive.store.backup.contents import HEADER, MANIFEST, encode_header
from tests.backup.archives import ID, a_member, write_archive

_SPEC = a_member(f"processes/{ID}/spec", b"spec")


def _all_below(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        for path in sorted(folder.rglob("*"))
    }


def _restore(archive: Path, root: Path) -> None:
    root.mkdir(mode=0o700, exist_ok=True)
    with archive.open("rb") as source:
        restore(Layout(str(root)), source, replaces=False)


@pytest.mark.promise("A.restore")
@pytest.mark.parametrize(
    "member",
    [
        a_member("../escaped", b"x"),
        a_member("/tmp/escaped", b"x"),
        a_member(f"processes/{ID}/../../../escaped", b"x"),
        a_member("processes", type=tarfile.SYMTYPE, linkname="/tmp"),
        a_member(f"processes/{ID}/out", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        a_member(f"processes/{ID}/out", type=tarfile.LNKTYPE, linkname="../../escaped"),
        a_member(f"processes/{ID}/out", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        a_member(f"processes/{ID}/out", type=tarfile.BLKTYPE, devmajor=8),
        a_member(f"processes/{ID}/out", type=tarfile.FIFOTYPE),
        a_member(f"processes/{ID}", type=tarfile.DIRTYPE, mode=0o777),
        a_member(f"processes/{ID}/out", b"x", uid=1000),
        a_member(f"processes/{ID}/out", b"x", gid=5),
        a_member(f"processes/{ID}/out", b"x", uname="root"),
        a_member(f"processes/{ID}/out", b"x", mode=0o4755),
        a_member(f"processes/{ID}/out", b"x", mode=0o666),
        a_member(f"processes/{ID}/spec", b"again"),
        a_member(f"processes/{ID}/spec/out", b"a file is no folder"),
        a_member(f"processes/{ID}/sock", b"x"),
        a_member("tokens.json/x", b"x"),
        a_member("live", b"behind the processes"),
        a_member("server.sock", b"x"),
        a_member("server.lock", b"x"),
        a_member("restore.incomplete", b"x"),
        a_member(HEADER, b"{}"),
    ],
    ids=lambda one: f"{one[0].name[-30:]}-{one[0].type.decode()}-{one[0].mode:o}-{one[0].uid}",
)
def test_a_member_that_no_backup_has_leaves_everything_as_it_was(
    member: tuple[tarfile.TarInfo, bytes], tmp_path: Path
) -> None:
    archive = write_archive(tmp_path / "b.tar.gz", _SPEC, member)
    before = _all_below(tmp_path)
    root = tmp_path / "state"
    with pytest.raises(StoreCorrupt):
        _restore(archive, root)
    after = _all_below(tmp_path)
    assert {name for name in after if not name.endswith(".lock")} - before.keys() == {"state"}
    assert not os.path.exists("/tmp/escaped")


@pytest.mark.promise("A.restore")
def test_an_archive_that_differs_from_its_manifest_is_refused(tmp_path: Path) -> None:
    first, second = _SPEC, a_member(f"processes/{ID}/out", b"output")
    for place, archive in enumerate(
        (
            write_archive(tmp_path / "0", first, second, listed=lambda files: files[:1]),
            write_archive(tmp_path / "1", first, listed=lambda files: [*files, *files]),
            write_archive(
                tmp_path / "2", first, listed=lambda files: [dataclasses.replace(files[0], sha256="0" * 64)]
            ),
            write_archive(
                tmp_path / "3", first, listed=lambda files: [dataclasses.replace(files[0], size=3)]
            ),
            write_archive(
                tmp_path / "4",
                first,
                listed=lambda files: [*files, dataclasses.replace(files[0], name="live")],
            ),
            write_archive(tmp_path / "5", first, has_manifest=False),
            write_archive(tmp_path / "6", first, behind=second),
        )
    ):
        with archive.open("rb") as source, pytest.raises(StoreCorrupt):
            read_backup(source, into=None)
        root = tmp_path / f"state{place}"
        with pytest.raises(StoreCorrupt):
            _restore(archive, root)
        assert {path.suffix for path in root.iterdir()} == {".lock"}


def test_a_right_archive_passes(tmp_path: Path) -> None:
    """So that the refusals above are about what was changed."""
    archive = write_archive(tmp_path / "b", _SPEC, a_member(f"processes/{ID}/out", b"output"))
    _restore(archive, tmp_path / "state")
    folder = tmp_path / "state" / "processes" / ID
    assert (folder / "out").read_bytes() == b"output"
    for path, mode in ((folder, 0o700), (folder.parent, 0o700), (folder / "out", 0o600)):
        assert (path.stat().st_mode & 0o7777, path.stat().st_uid) == (mode, os.geteuid())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "b"
    return write_archive(path, _SPEC, a_member(f"processes/{ID}/out", os.urandom(3000))).read_bytes()


_MEANT = 0b0001_1110  # of gzip's flags; none of them is set in our archives


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_damaged_or_cut_archive_is_refused_in_words(
    whole: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        damaged = whole[:place]
    else:
        damaged = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    path = tmp_path / "damaged"
    path.write_bytes(damaged)
    with path.open("rb") as source:
        # gzip's own header has bytes that mean nothing: time, system, flags of the level; and flags that say
        # "text" or nothing yet (RFC 1952, 2.3.1).
        is_meaningless = 4 <= place < 10 or (place == 3 and damaged[3:4] and not damaged[3] & _MEANT)
        if is_meaningless and len(damaged) == len(whole):
            read_backup(source, into=None)
        else:
            with pytest.raises(StoreCorrupt):
                read_backup(source, into=None)


@pytest.mark.promise("A.restore")
def test_only_what_grows_may_be_large(tmp_path: Path) -> None:
    """A file of a terabyte is a hole of a few bytes; a server would take it into memory."""
    for name, is_right in (
        ("tokens.json", False),
        (f"processes/{ID}/spec", False),
        (f"processes/{ID}/out", True),
    ):
        headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": name,
            "GNU.sparse.realsize": str(1 << 40),
        }
        archive = write_archive(tmp_path / "b", a_member(name, b"0\n".ljust(512, b"\0"), pax_headers=headers))
        with archive.open("rb") as source, pytest.raises(StoreCorrupt) as caught:
            read_backup(source, into=None)
        assert ("larger than" in str(caught.value)) is not is_right


def test_pieces_of_a_sparse_file_that_overlap_are_refused(tmp_path: Path) -> None:
    body = b"2\n0\n4\n2\n4\n".ljust(512, b"\0") + b"abcdefgh"
    headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": f"processes/{ID}/out",
        "GNU.sparse.realsize": str(1 << 62),
    }
    archive = write_archive(tmp_path / "b", a_member(f"processes/{ID}/out", body, pax_headers=headers))
    with archive.open("rb") as source, pytest.raises(StoreCorrupt, match="follow each other"):
        read_backup(source, into=None)


def _members(kind: str) -> list[tuple[str, bytes]]:
    """Return members of some hundred MB, of which gzip makes some hundred KB."""
    match kind:
        case "manifest":
            return [(MANIFEST, b'{"files": [' + b"{}," * (100 << 20))]
        case "header":
            return [(HEADER, b"[" * (300 << 20))]
        case "names":
            return [(f"waiting/{number:026}", b"") for number in range(60_000)]
    return []


@pytest.mark.promise("A.restore")
@pytest.mark.parametrize("kind", ["manifest", "header", "names", "extended", "chained", "global"])
def test_the_memory_of_a_restore_does_not_grow_with_the_archive(kind: str, tmp_path: Path) -> None:
    """A small archive cannot fill the machine: by a document, by names, by what tar says before a file."""
    archive = tmp_path / "hostile"
    with (
        gzip.open(archive, "wb", compresslevel=1) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        if kind != "header":
            _add(tar, HEADER, encode_header(outlive="1", created="now"))
        for name, content in _members(kind):
            _add(tar, name, content)
        if kind == "extended":
            _add(tar, "live", bytes(300 << 20), tarfile.XHDTYPE)
        if kind == "chained":
            packed.write(_header("live", 0, tarfile.XHDTYPE).tobuf(tarfile.USTAR_FORMAT) * 100_000)
        for number in range(3000 if kind == "global" else 0):
            text = f" {number}={'x' * 90_000}\n"
            _add(tar, "live", f"{len(text) + 5}{text}".encode(), tarfile.XGLTYPE)
            _add(tar, "live", b"")
    assert archive.stat().st_size < 6 << 20
    # In a process of its own: the peak is one of its whole life.
    code = (
        "import resource, sys\n"
        "from outlive.cli.main import main\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "import outlive.cli.operator.backup\n"
        "try: main()\n"
        "finally: sys.stderr.write(f'\\npeak {peak() - before}')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "restore", "--dry-run", str(archive)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no backup of outlive" in ran.stderr or "no whole backup" in ran.stderr, ran.stderr
    assert int(ran.stderr.rpartition(" ")[2]) < 80 << 10  # KiB


def _add(tar: tarfile.TarFile, name: str, content: bytes, kind: bytes = tarfile.REGTYPE) -> None:
    tar.addfile(_header(name, len(content), kind), io.BytesIO(content))


def _header(name: str, size: int, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.size, member.type = 0o600, size, kind
    return member
