"""Who is shown secrets, at every door by one table: the scope admin, from outside, each time after an entry
in the audit log.
"""

import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlive.client import Client, OutliveError
from tests.attacks.attacking import Requests, create_token
from tests.mcp_http.raw_caller import RawCaller
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer, outlive_command, run_outlive

PRINTED = "Wr5tUv7wXy9zAb1cDe3fGh5iJk7lMn9oPq1r"
LINE = f"t=ghp; echo ${{t}}_{PRINTED}"
_SCRIPT = Path(__file__).with_name("raw_asking.py")
_NUMBERS = itertools.count()
_PEOPLES = {"rest approvals", "jsonrpc approvals"}  # what waits: nothing does, so that no secret is in it
_DOORS = {
    "rest output": "rest",
    "rest bytes": "rest",
    "rest range": "rest",
    "rest follow": "rest",
    "rest follow socket": "rest",
    "rest approvals": "rest",
    "jsonrpc read": "jsonrpc",
    "jsonrpc attach": "jsonrpc",
    "jsonrpc execute": "jsonrpc",
    "jsonrpc approvals": "jsonrpc",
    "terminal": "terminal",
    "cli logs": "cli",
    "cli logs matching": "cli",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """A server that hides what looks like a secret."""
    with OutliveServer(tmp_path_factory.mktemp("r") / "state", args=["--redact", "all"]) as shared:
        yield shared


class _Scene:
    """A process with a secret in its output, and a token that may see it, or not."""

    def __init__(self, server: OutliveServer, scope: str) -> None:
        self.server = server
        name = f"scene-{next(_NUMBERS)}"
        self.token = create_token(server, scope, name=name)
        self._principal = f"token:{name}"
        self.ask = Requests(server, self.token)
        self.process_id = self.ask.start(LINE)["process_id"]
        self.ask("GET", f"/v1/processes/{self.process_id}/wait?until=closed&timeout=20")

    def words(self, folder: Path, *, at_terminal: bool = True) -> list[str]:
        """Return the command that asks at every door."""
        at: dict[str, Any] = {
            "token": self.token,
            "ports": self.server.ready["ports"],
            "process": self.process_id,
            "secret": PRINTED,
            "line": LINE,
            "state_dir": str(self.server.state_dir),
            "outlive": outlive_command(),
            "at_terminal": at_terminal,
            "out": str(folder / "found.json"),
        }
        here = folder / _SCRIPT.name
        here.write_bytes(_SCRIPT.read_bytes())
        return [sys.executable, str(here), json.dumps(at)]

    def from_outside(self, folder: Path, *, at_terminal: bool = True) -> dict[str, list[Any]]:
        """Ask as a person would."""
        words = self.words(folder, at_terminal=at_terminal)
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OUTLIVE_")}
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=clean)
        assert done.returncode == 0, done.stderr
        found: dict[str, list[Any]] = json.loads(done.stdout)
        return found

    def from_inside(self, folder: Path) -> dict[str, list[Any]]:
        """Have a command ask that this server runs."""
        words = shlex.join(self.words(folder))
        started = self.ask.start(words, cwd=str(folder))
        deadline = time.monotonic() + 120
        while not (folder / "found.json").exists():
            view = self.ask("GET", f"/v1/processes/{started['process_id']}").body
            if view["state"] != "running" or time.monotonic() > deadline:
                raise AssertionError(self.ask.output(started["process_id"]))
            time.sleep(0.05)
        found: dict[str, list[Any]] = json.loads((folder / "found.json").read_text())
        return found

    def entries(self) -> list[dict[str, Any]]:
        """Return what the audit log says of raw reads of this scene's principal, or of its process."""
        said = run_outlive("audit", "show", "--json", state_dir=self.server.state_dir).stdout
        entries: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines()]
        raw = [one for one in entries if one["what"] == "read_raw"]
        return [
            one
            for one in raw
            if one["principal"] == self._principal or one.get("process_id") == self.process_id
        ]


@pytest.mark.promise("A.raw")
@pytest.mark.thorough
def test_an_administrator_outside_is_shown_secrets_and_each_time_is_an_entry(
    guarded: OutliveServer, tmp_path: Path
) -> None:
    scene = _Scene(guarded, "admin")
    before = len(scene.entries())
    for at_terminal in (True, False):  # the token is enough where there is no terminal
        found = scene.from_outside(tmp_path, at_terminal=at_terminal)
        assert set(found) == set(_DOORS)
        assert {door: said for door, (said, _) in found.items() if said != "ok"} == {}
        assert {door for door, (_, seen) in found.items() if not seen} == _PEOPLES
    entries = scene.entries()[before:]
    assert [one["door"] for one in entries] == [*_DOORS.values()] * 2
    named = [one for one in entries if "process_id" in one]
    assert len(named) == len(entries) - 2 * len(_PEOPLES)
    assert {one["decision"] for one in entries} == {"allowed"}
    ranges = {(one["from"], one.get("to")) for one in named}
    assert ranges == {("0.0", None), ("0.0", "41.0")}
    assert PRINTED not in json.dumps(entries)
    assert run_outlive("audit", "verify", state_dir=guarded.state_dir).returncode == 0


@pytest.mark.promise("A.raw")
@pytest.mark.thorough
def test_a_narrower_scope_is_refused_at_every_door(guarded: OutliveServer, tmp_path: Path) -> None:
    scene = _Scene(guarded, "run")
    found = scene.from_outside(tmp_path, at_terminal=False)
    assert {door: answer for door, answer in found.items() if answer != ["scope_missing", False]} == {}
    assert [one for one in scene.entries() if one["decision"] == "allowed"] == []


@pytest.mark.promise("A.raw")
@pytest.mark.thorough
def test_what_outlive_runs_is_refused_at_every_door_whatever_its_token(
    guarded: OutliveServer, tmp_path: Path
) -> None:
    scene = _Scene(guarded, "admin")
    found = scene.from_inside(tmp_path)
    assert set(found) == set(_DOORS)
    assert {door: answer for door, answer in found.items() if answer != ["scope_missing", False]} == {}
    assert [one for one in scene.entries() if one["decision"] == "allowed"] == []


@pytest.mark.promise("A.raw")
@pytest.mark.thorough
def test_a_script_without_a_terminal_is_told_what_would_let_it(guarded: OutliveServer) -> None:
    scene = _Scene(guarded, "admin")
    done = run_outlive("logs", "--raw", scene.process_id, state_dir=guarded.state_dir)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "terminal" in done.stderr
    assert "OUTLIVE_TOKEN" in done.stderr
    assert PRINTED not in done.stderr


@pytest.mark.promise("A.raw")
@pytest.mark.thorough
def test_no_tool_of_mcp_shows_secrets(guarded: OutliveServer) -> None:
    """`raw` of `run` and `read` means escape sequences, also for an administrator."""
    token = create_token(guarded, "admin")
    caller = RawCaller.begin(guarded.mcp_url, {"Authorization": f"Bearer {token}"})
    shown = repr(caller.call("run", command=LINE, raw=True))
    assert "ghp_" + "*" * 36 in shown
    assert PRINTED not in shown
    process_id = Requests(guarded, token).start(LINE)["process_id"]
    for more in ({}, {"tail": 3}, {"grep": "ghp"}):
        assert PRINTED not in repr(caller.call("read", id=process_id, raw=True, **more))


@pytest.mark.promise("A.raw")
@pytest.mark.thorough
def test_without_an_entry_there_are_no_secrets(serve: ServerFactory, tmp_path: Path) -> None:
    """The audit log's folder is a file for a while: as unwritable for root as for others."""
    server = serve("--redact", "all")
    with Client(server.state_dir, start_server=False) as person:
        process = person.start(LINE)
        process.wait()
        assert PRINTED.encode() in b"".join(one.data for one in process.read(raw=True).items)  # type: ignore[union-attr]
        audit, kept = server.state_dir / "audit", tmp_path / "kept"
        shutil.move(audit, kept)
        audit.write_text("")
        with pytest.raises(OutliveError) as refused:
            process.read(raw=True)
        assert refused.value.code == "audit_unavailable"
        assert PRINTED.encode() not in b"".join(one.data for one in process.read().items)  # type: ignore[union-attr]
        audit.unlink()
        shutil.move(kept, audit)
        assert PRINTED.encode() in b"".join(one.data for one in process.read(raw=True).items)  # type: ignore[union-attr]


@pytest.mark.promise("A.raw")
@pytest.mark.thorough
def test_where_the_operator_wants_no_audit_log_secrets_are_shown_without_an_entry(
    serve: ServerFactory,
) -> None:
    server = serve("--redact", "all", "--no-audit")
    with Client(server.state_dir, start_server=False) as person:
        process = person.start(LINE)
        process.wait()
        assert PRINTED.encode() in b"".join(one.data for one in process.read(raw=True).items)  # type: ignore[union-attr]
