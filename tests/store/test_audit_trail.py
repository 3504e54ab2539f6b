"""The audit log on disk: what a change, a cut, a crash and a full disk leave, and what a check tells of
each.
"""

import itertools
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.store.audit.audit_chain import ChainCheck, digest, make_line
from outlive.store.audit.audit_trail import AuditReport, AuditTrail

SPEAKER = """
import sys
from outlive.store.audit.audit_trail import AuditTrail
trail = AuditTrail(sys.argv[1], key_file=sys.argv[1] + ".key", max_bytes=4000, max_files=1000)
number = 0
while True:
    trail.append([{"what": "test", "mark": number + place, "text": "x" * 60} for place in range(3)])
    number += 3
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def a_trail(folder: Path, *, max_bytes: int = 1 << 20, max_files: int = 8) -> AuditTrail:
    return AuditTrail(str(folder), key_file=f"{folder}.key", max_bytes=max_bytes, max_files=max_files)


def filled(folder: Path, count: int = 10, *, max_bytes: int = 1 << 20, max_files: int = 8) -> AuditTrail:
    trail = a_trail(folder, max_bytes=max_bytes, max_files=max_files)
    for place in range(count):
        trail.append([{"what": "test", "mark": place}])
    return trail


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def test_every_entry_carries_the_digest_of_the_one_before(tmp_path: Path) -> None:
    trail = filled(tmp_path)
    lines = list(trail.lines())
    assert [json.loads(line)["n"] for line in lines] == list(range(1, 11))
    assert json.loads(lines[0])["prev"] == "0" * 64
    for before, line in itertools.pairwise(lines):
        assert json.loads(line)["prev"] == digest(before)
    report = trail.verify()
    assert report.is_whole
    assert (report.entries, report.first, report.last, report.head) == (10, 1, 10, digest(lines[-1]))
    assert not report.notes
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def changed(folder: Path, how: str) -> AuditReport:
    path = files(folder)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    match how:
        case "edited":
            lines[4] = lines[4].replace(b'"mark":4', b'"mark":7')
        case "removed":
            del lines[4]
        case "added":
            lines.insert(4, lines[4])
        case "swapped":
            lines[4], lines[5] = lines[5], lines[4]
        case "not json":
            lines[4] = b"hello\n"
        case "cut at the end":
            del lines[-2:]
        case "last edited":
            lines[-1] = lines[-1].replace(b'"mark":9', b'"mark":1')
        case "cut at the beginning":
            del lines[:2]
        case "emptied":
            lines = []
    path.write_bytes(b"".join(lines))
    return a_trail(folder).verify()


@pytest.mark.parametrize(
    "how",
    [
        "edited",
        "removed",
        "added",
        "swapped",
        "not json",
        "cut at the end",
        "last edited",
        "cut at the beginning",
        "emptied",
    ],
)
def test_a_change_is_found(tmp_path: Path, how: str) -> None:
    filled(tmp_path)
    assert not changed(tmp_path, how).is_whole


def test_a_change_stays_found_after_more_entries(tmp_path: Path) -> None:
    filled(tmp_path)
    changed(tmp_path, "cut at the end")
    filled(tmp_path, 3)
    assert not a_trail(tmp_path).verify().is_whole
    reasons = [entry.get("reason") for entry in a_trail(tmp_path).entries()]
    assert "entries_missing" in reasons


def test_a_noted_entry_is_looked_for(tmp_path: Path) -> None:
    trail = filled(tmp_path)
    first = trail.verify()
    filled(tmp_path, 5)
    assert trail.verify(known=(first.last, first.head)).is_whole
    assert not trail.verify(known=(first.last, "f" * 64)).is_whole
    assert not trail.verify(known=(99, first.head)).is_whole
    last = trail.verify()
    assert trail.verify(known=(last.last, last.head)).is_whole
    # Everything written anew, note and key included: an entry noted elsewhere tells it.
    for path in (*tmp_path.iterdir(), Path(f"{tmp_path}.key")):
        path.unlink()
    filled(tmp_path, 15)
    assert trail.verify().is_whole
    assert not trail.verify(known=(first.last, first.head)).is_whole


def test_files_are_turned_over_and_the_chain_goes_on(tmp_path: Path) -> None:
    trail = filled(tmp_path, 40, max_bytes=500, max_files=3)
    kept = files(tmp_path)
    assert len(kept) == 3
    report = trail.verify()
    assert report.is_whole
    assert report.first == int(kept[0].stem) > 1
    assert report.last == 40
    kept[0].unlink()
    assert not trail.verify().is_whole  # it was not we who removed it


def test_a_large_batch_is_spread_over_files(tmp_path: Path) -> None:
    trail = a_trail(tmp_path, max_bytes=500, max_files=100)
    trail.append([{"what": "test", "mark": place} for place in range(40)])
    assert len(files(tmp_path)) > 3
    assert trail.verify().is_whole
    assert len(list(trail.entries())) == 40


def test_a_torn_line_is_told_and_not_part_of_the_chain(tmp_path: Path) -> None:
    trail = filled(tmp_path)
    with files(tmp_path)[0].open("ab") as file:
        file.write(b'{"n":11,"what":"te')
    report = trail.verify()
    assert report.is_whole
    assert "torn" in report.notes[0]
    filled(tmp_path, 1)
    assert a_trail(tmp_path).verify().is_whole
    told = [entry for entry in trail.entries() if entry["what"] == "audit"]
    assert told[0]["reason"] == "torn_line"
    assert told[0]["torn_bytes"] == 18


def test_entries_whose_writer_was_killed_before_the_note_are_taken_over(tmp_path: Path) -> None:
    trail = filled(tmp_path)
    note = (tmp_path / "head").read_bytes()
    filled(tmp_path, 2)
    (tmp_path / "head").write_bytes(note)
    report = trail.verify()
    assert report.is_whole
    assert "not noted" in report.notes[0]
    filled(tmp_path, 1)
    assert trail.verify().is_whole
    assert [entry["n"] for entry in trail.entries()] == list(range(1, 14))


def test_foreign_lines_behind_the_note_break_the_chain(tmp_path: Path) -> None:
    trail = filled(tmp_path)
    with files(tmp_path)[0].open("ab") as file:
        file.write(make_line({"what": "forged"}, number=11, prev="a" * 64))
    assert not trail.verify().is_whole
    filled(tmp_path, 1)
    assert not trail.verify().is_whole


def test_a_lost_note_is_told(tmp_path: Path) -> None:
    trail = filled(tmp_path)
    (tmp_path / "head").unlink()
    assert not trail.verify().is_whole
    filled(tmp_path, 1)
    assert [entry.get("reason") for entry in trail.entries()][-2] == "note_forged"


@pytest.mark.parametrize("name", ["head", "000000000001.jsonl"])
@pytest.mark.parametrize("other", ["link", "cut link", "pipe"])
def test_what_is_no_file_in_the_place_of_one_is_written_through_by_no_entry(
    tmp_path: Path, name: str, other: str
) -> None:
    folder, foreign = tmp_path / "audit", tmp_path / "foreign"
    trail = filled(folder)
    path = folder / name
    whole = path.read_bytes()
    path.unlink()
    foreign.write_bytes(whole[:-3] if other == "cut link" else whole)
    before = foreign.read_bytes()
    os.mkfifo(path) if other == "pipe" else path.symlink_to(foreign)
    trail.append([{"what": "test", "mark": 10}])
    trail.append([{"what": "test", "mark": 11}])
    assert foreign.read_bytes() == before
    assert not os.path.lexists(path) or (path.is_file() and not path.is_symlink())
    assert b"\0" not in b"".join(trail.lines())
    assert [json.loads(line).get("mark") for line in trail.lines()][-2:] == [10, 11]
    assert not trail.verify().is_whole or name == "head"


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    """Ten kills in the middle of appending: every acknowledged entry is there, and the chain fits."""
    acknowledged = 0
    for round_ in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", SPEAKER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(3 + 7 * round_):
            newest = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        newest = max([newest, *(int(line) for line in process.stdout if line.endswith("\n"))])
        process.wait()
        process.stdout.close()
        acknowledged += newest
        trail = a_trail(tmp_path, max_bytes=4000, max_files=1000)
        assert trail.verify().is_whole, trail.verify().breaks
        assert sum(entry["what"] == "test" for entry in trail.entries()) >= acknowledged
        acknowledged = sum(entry["what"] == "test" for entry in trail.entries())


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file larger than 2000 bytes: what a full disk is to a writer (Python ignores SIGXFSZ)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_the_disk_refuses_leaves_no_piece(tmp_path: Path, small_files: None) -> None:
    trail = filled(tmp_path)
    with pytest.raises(OSError, match="large"):
        trail.append([{"what": "test", "text": "x" * 3000}])
    assert trail.verify().is_whole
    trail.append([{"what": "test"}])
    assert trail.verify().last == 11


def test_nothing_is_no_audit_log(tmp_path: Path) -> None:
    report = a_trail(tmp_path / "none").verify()
    assert report.is_whole
    assert report.notes == ["There is no audit log."]
    assert list(a_trail(tmp_path / "none").entries()) == []
    assert not os.path.exists(tmp_path / "none")


def test_many_breaks_are_not_all_kept() -> None:
    check = ChainCheck()
    for _ in range(1000):
        check.feed(b"hello\n")
    assert check.count == 1000
    assert len(check.breaks) == 100
