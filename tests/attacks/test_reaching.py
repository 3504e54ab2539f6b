"""A command in a sandbox, with a token, tries every verb of every door on what its principal runs with fewer bounds."""

import json
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import websockets

from tests.attacks.attacking import Requests, create_token
from tests.escapes.scene import SYSTEM_PYTHON
from tests.support.server import OutliveServer

_SCRIPT = Path(__file__).with_name("reaching.py")
_ENDS = (
    "POST cancel",
    "DELETE",
    "terminate",
    "terminate_by_pid",
    "CANCEL",
    "remove",
    "close_output",
    "mcp cancel",
    "mcp terminate_process",
)
_PATIENCE_S = 120.0


class _Scene:
    """What a principal runs in the profile open, and one command of it, in another profile, that reaches for all of it."""

    def __init__(self, server: OutliveServer, name: str) -> None:
        self._server = server
        self._token = create_token(server, "admin", name=name)
        self.ask = Requests(server, self._token)
        self.victim = self.ask.start("sleep 600", stdin="pipe", pty=True, profile="open")
        self.ended = {one: self.ask.start("sleep 600", profile="open") for one in _ENDS}
        made = [self.ask("POST", "/v1/terminals", body={"profile": "open"}) for _ in range(3)]
        self.terminals = [one.body["terminal_id"] for one in made]

    def attack(self, profile: str, folder: Path) -> dict[str, str]:
        """Have a command try everything; return what it was told."""
        out = folder / "found.json"
        at: dict[str, Any] = {
            "token": self._token,
            "ports": self._server.ready["ports"],
            "process": [self.victim["process_id"], self.victim["pid"]],
            "ended": {name: [one["process_id"], one["pid"]] for name, one in self.ended.items()},
            "terminals": self.terminals,
            "out": str(out),
        }
        here = folder / "reaching.py"
        here.write_bytes(_SCRIPT.read_bytes())
        site = (
            folder / "site"
        )  # what a command in a sandbox may read: its own folder, and the system's programs
        shutil.copytree(Path(websockets.__file__).parent, site / "websockets")
        words = [SYSTEM_PYTHON, "-I", "-S", str(here), str(site), json.dumps(at)]
        started = self.ask.start(shlex.join(words), profile=profile, cwd=str(folder))
        deadline = time.monotonic() + _PATIENCE_S
        while not out.exists():
            view = self.ask("GET", f"/v1/processes/{started['process_id']}").body
            is_over = view["state"] not in {"running", "paused"} and not out.exists()
            if is_over or time.monotonic() > deadline:
                raise AssertionError(self.ask.output(started["process_id"]))
            time.sleep(0.05)
        found: dict[str, str] = json.loads(out.read_text())
        return found

    def close(self) -> None:
        """End what is left."""
        for one in self.ask("GET", "/v1/processes?active=true&limit=100").body["processes"]:
            self.ask("DELETE", f"/v1/processes/{one['process_id']}?force=true")


@pytest.mark.promise("A.reach_inside")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("profile", ["guarded", "workspace"])
def test_a_command_acts_by_no_door_on_a_process_with_a_weaker_profile(
    besieged: OutliveServer, tmp_path: Path, profile: str
) -> None:
    scene = _Scene(besieged, f"deputy-{profile}")
    try:
        found = scene.attack(profile, tmp_path)
        assert {name: answer for name, answer in found.items() if answer != "profile_too_weak"} == {}
        for one in (scene.victim, *scene.ended.values()):
            view = scene.ask("GET", f"/v1/processes/{one['process_id']}").body
            assert (view["state"], view["tags"]) == ("running", {}), view
        assert scene.ask("GET", f"/v1/processes/{scene.victim['process_id']}/output").body["chunks"] == []
        for one in scene.terminals:
            assert "broken in" not in scene.ask("GET", f"/v1/terminals/{one}/output").body["text"]
    finally:
        scene.close()


@pytest.mark.promise("A.reach_inside")
@pytest.mark.timeout(240)
def test_the_same_verbs_work_on_processes_of_its_own_profile(besieged: OutliveServer, tmp_path: Path) -> None:
    """The attack above is one: what it asks for is done where the rule does not forbid it."""
    scene = _Scene(besieged, "equal")
    try:
        found = scene.attack("open", tmp_path)
        assert {name: answer for name, answer in found.items() if answer != "ok"} == {}
    finally:
        scene.close()
