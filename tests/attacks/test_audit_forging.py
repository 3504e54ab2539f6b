"""Whoever writes an audit log anew has to have its key (issue 19, section 5).

The forger here shares no code with the log.
"""

import hashlib
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from outlive.client import Client
from outlive.core.layout import Layout
from outlive.store.audit.audit_trail import AuditReport, AuditTrail
from outlive.store.writer import AUDIT_LOG, peek_counter
from tests.support.server import OutliveServer, run_outlive

pytestmark = pytest.mark.promise("A.audit.mac")


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder whose server has written entries and is gone."""
    folder = tmp_path_factory.mktemp("left") / "state"
    with OutliveServer(folder) as server, Client(server.state_dir, start_server=False) as client:
        client.start("true").wait(30, until="closed")
    return folder


@pytest.fixture
def state(left: Path, tmp_path: Path) -> Path:
    """A copy of such a folder."""
    subprocess.run(["cp", "-a", str(left), str(tmp_path)], check=True)  # with its sockets
    return tmp_path / left.name


def _verify(state: Path) -> dict[str, Any]:
    done = run_outlive("audit", "verify", "--json", state_dir=state)
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode == 0) == answer["whole"]
    return answer


def _newest(state: Path) -> Path:
    return max((state / "audit").glob("*.jsonl"))


def _line(number: int, before: bytes, **more: object) -> bytes:
    prev = hashlib.sha256(before.rstrip(b"\n")).hexdigest() if before else "0" * 64
    entry = {"n": number, "what": "start", "principal": "uid:0", "command": "forged", "prev": prev, **more}
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def _note(state: Path, **more: object) -> None:
    """Write the note of the newest entry to fit what lies there now."""
    path = _newest(state)
    lines = path.read_bytes().splitlines(keepends=True)
    head = json.loads((state / "audit" / "head").read_text())
    head |= {"n": json.loads(lines[-1])["n"], "hash": hashlib.sha256(lines[-1].rstrip(b"\n")).hexdigest()}
    head |= {"file": path.name, "size": path.stat().st_size, **more}
    (state / "audit" / "head").write_bytes(json.dumps(head).encode().ljust(511) + b"\n")


def _add_a_tail(state: Path, **more: object) -> None:
    path = _newest(state)
    last = path.read_bytes().splitlines()[-1]
    with path.open("ab") as file:
        file.write(_line(json.loads(last)["n"] + 1, last, **more))
    _note(state)


def _forge_a_tail_without_a_mac(state: Path) -> None:
    _add_a_tail(state)


def _forge_a_tail_with_a_mac_of_another_line(state: Path) -> None:
    _add_a_tail(state, mac=json.loads(_newest(state).read_bytes().splitlines()[0])["mac"])


def _cut_the_tail(state: Path) -> None:
    path = _newest(state)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    _note(state)


def _write_everything_anew(state: Path) -> None:
    path = _newest(state)
    lines: list[bytes] = []
    for number, old in enumerate(path.read_bytes().splitlines(), start=1):
        lines.append(_line(number, lines[-1] if lines else b"", mac=json.loads(old).get("mac", "")))
    path.write_bytes(b"".join(lines))
    _note(state)


def _remove_the_folder(state: Path) -> None:
    shutil.rmtree(state / "audit")


def _remove_the_files(state: Path) -> None:
    for path in (state / "audit").iterdir():
        path.unlink()


def _remove_log_and_key(state: Path) -> None:
    shutil.rmtree(state / "audit")
    (state / "audit.key").unlink(missing_ok=True)


def _remove_log_and_registry(state: Path) -> None:
    shutil.rmtree(state / "audit")
    for path in state.glob("registry.db*"):
        path.unlink()


_FORGERIES = [
    _forge_a_tail_without_a_mac,
    _cut_the_tail,
    _write_everything_anew,
    _remove_the_folder,
    _remove_the_files,
    _remove_log_and_key,
    _remove_log_and_registry,
]


@pytest.mark.parametrize("forge", _FORGERIES)
def test_a_forgery_is_found_now_and_after_the_next_server(state: Path, forge: Callable[[Path], None]) -> None:
    assert _verify(state)["whole"]
    forge(state)
    assert not _verify(state)["whole"]
    with OutliveServer(state) as server, Client(server.state_dir, start_server=False) as client:
        client.start("true").wait(30, until="closed")
    found = _verify(state)
    assert not found["whole"]
    assert found["entries"] > 2, "the next server goes on all the same"


def test_a_mac_of_another_line_is_none(state: Path) -> None:
    _forge_a_tail_with_a_mac_of_another_line(state)
    assert "key" in _verify(state)["breaks"][0]


def test_a_line_that_no_server_wrote_is_not_taken_over_as_one_of_a_killed_server(state: Path) -> None:
    """As a forger who leaves the note alone: the next server finds a line behind it."""
    path = _newest(state)
    last = path.read_bytes().splitlines()[-1]
    with path.open("ab") as file:
        file.write(_line(json.loads(last)["n"] + 1, last))
    assert not _verify(state)["whole"]
    with OutliveServer(state):
        pass
    assert not _verify(state)["whole"]
    told = run_outlive("audit", "show", "--json", state_dir=state).stdout
    assert '"reason": "foreign_lines"' in told


def test_without_the_key_the_chain_is_checked_and_that_is_said(state: Path, tmp_path: Path) -> None:
    """As on another machine, to which only the log was copied."""
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(state / "audit", elsewhere / "audit")
    found = _verify(elsewhere)
    assert (found["whole"], "not checked" in found["notes"][0]) == (True, True)
    (path,) = (elsewhere / "audit").glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"command":"true"', b'"command":"rm x"', 1))
    assert not _verify(elsewhere)["whole"]


def test_entries_of_earlier_versions_are_checked_as_before_and_none_follow(state: Path) -> None:
    """A log without MACs, as the versions before wrote it, goes on with them, and never without again."""
    _remove_log_and_key(state)
    _forget_the_name(state)
    folder = state / "audit"
    folder.mkdir(mode=0o700)
    lines: list[bytes] = []
    for number in range(1, 6):
        lines.append(_line(number, lines[-1] if lines else b""))
    (folder / f"{1:012}.jsonl").write_bytes(b"".join(lines))
    (folder / "head").write_text(json.dumps({"first": 1}))
    _note(state)
    assert _verify(state)["whole"]
    with OutliveServer(state):
        pass
    found = _verify(state)
    assert (found["whole"], found["breaks"], found["notes"]) == (True, [], [])
    assert found["entries"] > 5
    _forge_a_tail_without_a_mac(state)
    assert not _verify(state)["whole"]


def _forget_the_name(state: Path) -> None:
    with sqlite3.connect(state / "registry.db") as registry:
        registry.execute("DELETE FROM counters WHERE name = 'audit_log'")
    registry.close()


def test_a_sandboxed_command_cannot_read_the_key(state: Path) -> None:
    key = state / "audit.key"
    with OutliveServer(state):
        seen = run_outlive("run", "--profile", "open", "-c", f"cat {key}", state_dir=state)
        assert (seen.returncode, seen.stdout) == (0, key.read_text())
        for profile in ("workspace", "offline", "sealed"):
            denied = run_outlive("run", "--profile", profile, "-c", f"cat {key}", state_dir=state)
            assert (denied.returncode, denied.stdout) == (1, ""), profile
            assert json.loads(key.read_text())["key"] not in denied.stderr


@pytest.mark.thorough
def test_a_server_that_is_killed_at_any_time_leaves_a_whole_log(tmp_path: Path) -> None:
    """Twelve kills while entries are written, the first ones while the log begins: whole after each."""
    with OutliveServer(tmp_path / "state") as server:
        for round_ in range(12):
            with Client(server.state_dir, start_server=False) as client:
                for _ in range(round_ * 3):
                    client.start("true")
                server.kill()
            found = _verify(server.state_dir)
            assert found["whole"], found["breaks"]
            server.start()
    assert _verify(server.state_dir)["whole"]


class _Torn:
    """A log whose newest line, sealed with its key, was written and not yet noted when the writer was killed:
    cut where one likes.
    """

    def __init__(self, state: Path, *, begins_file: bool) -> None:
        self._layout = Layout(str(state))
        self._folder = state / "audit"
        before = self._files()
        # A file is full at its first byte, or never.
        self._trail(max_bytes=1 if begins_file else 1 << 30).append([{"what": "start", "command": "é" * 9}])
        self._path = _newest(state)
        kept = before.get(self._path.name, b"")
        self.line = self._path.read_bytes()[len(kept) :]
        self._before = before | {self._path.name: kept}

    def cut(self, length: int) -> None:
        """Leave so many bytes of the line; everything else is as before it."""
        for path in self._folder.glob("*.jsonl"):
            path.unlink()
        for name, content in self._before.items():
            (self._folder / name).write_bytes(content)
        with self._path.open("ab") as file:
            file.write(self.line[:length])

    def verify(self) -> AuditReport:
        return self._trail().verify(registered=peek_counter(self._layout.registry, AUDIT_LOG))

    def go_on(self) -> None:
        """Write as the next server does."""
        self._trail().append([{"what": "server", "reason": "started"}])

    def reasons(self) -> list[object]:
        return [entry.get("reason") for entry in self._trail().entries()]

    def _files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self._folder.iterdir()}

    def _trail(self, *, max_bytes: int = 1 << 30) -> AuditTrail:
        return AuditTrail(self._layout.audit, key_file=self._layout.audit_key, max_bytes=max_bytes)


@pytest.mark.parametrize("begins_file", [False, True], ids=["in a file", "first of a file"])
def test_a_newest_line_that_is_cut_anywhere_is_no_break(state: Path, *, begins_file: bool) -> None:
    """At every byte: SIGKILL, or a disk that was full in between.

    What is left of it is dropped, and the next entry says so.
    """
    torn = _Torn(state, begins_file=begins_file)
    assert b'"mac":' in torn.line
    for length in range(len(torn.line) + 1):
        torn.cut(length)
        found = torn.verify()
        assert found.is_whole, (length, found)
        is_torn = 0 < length < len(torn.line)
        assert any("torn" in note for note in found.notes) == is_torn, (length, found)
        torn.go_on()
        after = torn.verify()
        assert (after.is_whole, after.notes) == (True, []), (length, after)
        is_kept = length == len(torn.line)
        assert after.entries == found.entries + 1 + is_torn, (length, is_kept)
        assert torn.reasons()[found.entries :] == ["torn_line"] * is_torn + ["started"], length


@pytest.mark.thorough
def test_a_server_goes_on_behind_a_line_that_was_cut(state: Path) -> None:
    torn = _Torn(state, begins_file=False)
    for length in (1, len(torn.line) // 2, len(torn.line) - 1, len(torn.line)):
        torn.cut(length)
        before = _verify(state)
        assert before["whole"], before
        with OutliveServer(state):
            pass
        after = _verify(state)
        assert (after["whole"], after["notes"], after["entries"] > before["entries"]) == (True, [], True)
