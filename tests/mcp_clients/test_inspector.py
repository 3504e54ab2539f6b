"""The official Inspector's command line: one program a call, so that nothing but the server remembers."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.mcp_clients.driving import text_of
from tests.mcp_clients.installed import Installed
from tests.mcp_http.raw_caller import BACKGROUND
from tests.mcp_stdio.hosting import words as relay_words
from tests.support.processes import Marker, wait_dead, wait_for
from tests.support.server import OutliveServer

pytestmark = pytest.mark.slow

_PATIENCE_S = 60.0
_ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])

Inspect = Callable[..., dict[str, Any]]


def _begin(
    installed: Installed, target: list[str], words: tuple[str, ...], home: Path
) -> subprocess.Popen[str]:
    # Its own home: it keeps catalogues and credentials there.
    return subprocess.Popen(
        [*installed.inspector, *target, "--format", "json", "--quiet", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"HOME": str(home)},
    )


@pytest.fixture(params=["http", "stdio"])
def target(request: pytest.FixtureRequest, server: OutliveServer) -> list[str]:
    """How the Inspector is told of the server."""
    if request.param == "http":
        return [server.mcp_url, "--transport", "http"]
    return [*relay_words(server.state_dir), "--transport", "stdio"]


@pytest.fixture
def inspect(installed: Installed, target: list[str], tmp_path: Path) -> Inspect:
    """A function that runs the Inspector once and returns the result that it prints."""

    def run(*words: str) -> dict[str, Any]:
        with _begin(installed, target, words, tmp_path) as inspector:
            said, complaints = inspector.communicate(timeout=_PATIENCE_S)
        assert inspector.returncode == 0, complaints
        result: dict[str, Any] = json.loads(said)["result"]
        return result

    return run


def _call(name: str, era: str, **arguments: object) -> tuple[str, ...]:
    given = ("--tool-name", name, "--tool-args-json", json.dumps(arguments), "--protocol-era", era)
    return "--method", "tools/call", *given


@_ERAS
@pytest.mark.promise("M.official", "M.handshake", "M.stateless", "S1.1", "S4.2", "S4.13")
def test_the_inspector_lists_the_tools_and_finds_no_fault_in_their_schemas(
    inspect: Inspect, era: str
) -> None:
    """--strict ends with 6 where a schema would not work everywhere."""
    tools = inspect("--method", "tools/list", "--strict", "--protocol-era", era)["tools"]
    assert {"run", "command_execute", BACKGROUND, "terminate_process"} <= {tool["name"] for tool in tools}


@_ERAS
@pytest.mark.promise("M.background", "S4.3.official", "S4.4", "S4.5.scope", "M.official")
def test_what_one_inspector_starts_in_the_background_another_one_ends(
    inspect: Inspect, marker: Marker, era: str
) -> None:
    tree = f"{marker.sleep} & setsid {marker.sleep} & wait"
    started = text_of(inspect(*_call(BACKGROUND, era, cmd=tree)))
    named = re.search(r"PID: (\d+)", started)
    assert named is not None, started
    anyio.run(wait_for, marker, 2)
    listed = inspect(*_call("list_processes", era))["structuredContent"]["processes"]
    assert int(named[1]) in [one["pid"] for one in listed]
    ended = text_of(inspect(*_call("terminate_process", era, pid=int(named[1]))))
    assert ended.startswith(f"Process {named[1]} terminated successfully")
    anyio.run(wait_for, marker, 0)


@pytest.mark.promise("M.progress", "S4.3.official")
def test_with_a_progress_token_the_inspector_waits_for_the_whole_output(inspect: Inspect) -> None:
    """It takes the progress and shows none of it."""
    call = _call(BACKGROUND, "legacy", cmd="echo one; sleep 0.3; echo two")
    result = inspect(*call, "--metadata", "progressToken=7")
    assert text_of(result) == "one\ntwo"


@pytest.mark.promise("S4.6", "M.stateless", "M.official")
def test_an_inspector_that_is_killed_takes_its_call_along(
    installed: Installed, server: OutliveServer, marker: Marker, tmp_path: Path
) -> None:
    """In 2026-07-28 the closed response stream is the cancel, and nobody has to say it."""
    words = _call("execute_linux_shell_command", "modern", cmd=f"setsid {marker.sleep} & {marker.sleep}")
    with _begin(installed, [server.mcp_url, "--transport", "http"], words, tmp_path) as inspector:
        pids = anyio.run(wait_for, marker, 2)
        inspector.kill()
    anyio.run(wait_dead, *pids)
