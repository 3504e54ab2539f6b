"""Umask and niceness of a command are its caller's: through every door, seen in the files that it makes."""

import asyncio
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets

from outlive.client import Client, Output, Process
from tests.cli.launching import environment
from tests.support.server import OutliveServer, outlive_command

_LOOK = "umask; nice; rm -f made; touch made; stat -c %a made"
_PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """A server that was started at the usual umask, with every door."""
    before = os.umask(0o022)
    try:
        with OutliveServer(tmp_path_factory.mktemp("kind") / "state") as server:
            yield server
    finally:
        os.umask(before)


def _run(server: OutliveServer, *words: str, umask: int, nice: int = 0, cwd: Path) -> list[str]:
    """Run a command line as a shell with this umask and niceness does, and return the lines."""
    done = subprocess.run(
        ["nice", "-n", str(nice), *outlive_command(), "run", "--state-dir", str(server.state_dir), *words],
        env=environment(),
        cwd=cwd,
        umask=umask,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.promise("C.umask")
@pytest.mark.parametrize(
    ("umask", "seen", "mode"), [(0o022, "0022", "644"), (0o027, "0027", "640"), (0, "0000", "666")]
)
def test_a_command_of_the_command_line_has_its_callers_umask(
    plain: OutliveServer, tmp_path: Path, umask: int, seen: str, mode: str
) -> None:
    for words in (["-c", _LOOK], ["--", "sh", "-c", _LOOK], ["--pty", "-c", _LOOK]):
        assert _run(plain, *words, umask=umask, cwd=tmp_path) == [seen, "0", mode], words


@pytest.mark.promise("C.umask")
@pytest.mark.parametrize("profile", ["open", "guarded", "workspace", "offline", "sealed"])
def test_a_sandboxed_command_has_its_callers_umask_and_niceness(
    plain: OutliveServer, tmp_path_factory: pytest.TempPathFactory, profile: str
) -> None:
    folder = tmp_path_factory.mktemp("w")
    done = _run(plain, "--profile", profile, "-c", _LOOK, umask=0o026, nice=3, cwd=folder)
    assert done == ["0026", "3", "640"]


@pytest.mark.promise("C.nice")
def test_a_command_has_its_callers_niceness_and_leaves_none_behind(
    plain: OutliveServer, tmp_path: Path
) -> None:
    """The next command of the same shim has its own."""
    for nice in (7, 0, 19, 0):
        assert _run(plain, "-c", _LOOK, umask=0o022, nice=nice, cwd=tmp_path)[1] == str(nice)


@pytest.mark.promise("C.nice.floor")
def test_a_caller_of_scope_run_gets_no_niceness_below_the_servers(plain: OutliveServer) -> None:
    """The kernel would give it where the keeper is root's. Raw requests, none through a client of ours."""
    words = [*outlive_command(), "token", "create", "--name", "nice", "--scope", "run", "--json"]
    words += ["--state-dir", str(plain.state_dir)]
    made = subprocess.run(words, env=environment(), capture_output=True, check=True)
    headers = {"Authorization": f"Bearer {json.loads(made.stdout)['token']}"}
    own = str(os.getpriority(os.PRIO_PROCESS, 0))
    for asked, seen in ((-20, own), (-1, own), (11, "11")):
        body: dict[str, object] = {"command": "nice", "nice": asked}
        assert asyncio.run(_by_jsonrpc(plain, body, headers)) == seen


@pytest.mark.promise("C.nice.floor")
@pytest.mark.root("only root may lower its niceness")
def test_a_command_that_calls_back_gets_no_niceness_below_the_servers(
    plain: OutliveServer, tmp_path: Path
) -> None:
    inner = f"{outlive_command()[0]} run --state-dir {plain.state_dir} nice"
    done = _run(plain, "--grant", "run", "-c", f"nice -n -5 {inner}", umask=0o022, cwd=tmp_path)
    assert done == [str(os.getpriority(os.PRIO_PROCESS, 0))]
    assert _run(plain, "-c", "nice", umask=0o022, nice=-3, cwd=tmp_path) == ["-3"], "an administrator's own"


@pytest.mark.promise("C.umask")
def test_the_python_client_passes_its_own_umask_or_the_one_it_is_given(
    plain: OutliveServer, tmp_path: Path
) -> None:
    with Client(plain.state_dir, start_server=False) as client:
        before = os.umask(0o002)
        try:
            own = client.start(_LOOK, cwd=tmp_path, merge=True)
        finally:
            os.umask(before)
        given = client.start("umask", umask=0o137, nice=5)
        seen = {process.process_id: process.wait(_PATIENCE_S) for process in (own, given)}
        assert all(info.exit_code == 0 for info in seen.values())
        assert [_words(own), _words(given)] == [
            [b"0002", b"0", b"664"],
            [b"0137"],
        ]


@pytest.mark.promise("C.umask")
@pytest.mark.parametrize(
    ("asked", "seen"), [(None, "0022"), ("022", "0022"), ("077", "0077"), ("0007", "0007")]
)
def test_the_doors_take_a_umask_and_default_to_the_servers(
    plain: OutliveServer, asked: str | None, seen: str
) -> None:
    """Raw requests, none through a client of ours: JSON-RPC, REST, and three MCP tools."""
    more = {} if asked is None else {"umask": asked}
    assert asyncio.run(_by_jsonrpc(plain, {"command": "umask", **more})) == seen
    assert _by_rest(plain, {"command": "umask", **more}) == seen
    for tool, words in (
        ("run", {"command": "umask"}),
        ("command_execute", {"command": "umask"}),
        ("execute_linux_shell_command", {"cmd": "umask"}),
    ):
        assert seen in _by_mcp(plain, tool, {**words, **more}), tool


@pytest.mark.parametrize("odd", ["22", "088", "rwx", "1022", "-22", 18])
def test_what_is_no_umask_is_refused_at_every_door(plain: OutliveServer, odd: object) -> None:
    words = {"command": "umask", "umask": odd}
    with pytest.raises(AssertionError, match="32602"):
        asyncio.run(_by_jsonrpc(plain, words))
    with pytest.raises(AssertionError, match=r"\(4[02]\d, "):
        _by_rest(plain, words)
    assert "umask" in _by_mcp(plain, "run", words, is_error=True)


def _words(process: Process) -> list[bytes]:
    return b"".join(item.data for item in process.tail().items if isinstance(item, Output)).split()


async def _by_jsonrpc(
    server: OutliveServer, words: dict[str, object], headers: dict[str, str] | None = None
) -> str:
    url = f"ws://127.0.0.1:{server.port}/ws/mcp"
    async with websockets.connect(url, additional_headers=headers) as socket:
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "execute", "params": words}))
        out = ""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                message: dict[str, Any] = json.loads(await socket.recv())
                assert "error" not in message, message["error"]
                if message.get("method") == "process.output":
                    out += message["params"]["data"]
                if message.get("method") == "process.completed":
                    return out.strip()


def _post(url: str, body: object, headers: dict[str, str] | None = None) -> tuple[int, bytes, Any]:
    request = urllib.request.Request(  # noqa: S310 -- our own server's
        url, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})}
    )
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as answer:  # noqa: S310 -- as above
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read(), refused.headers


def _by_rest(server: OutliveServer, words: dict[str, object]) -> str:
    base = f"{server.rest_url}/v1/processes"
    status, body, _ = _post(base, words)
    assert status == 201, (status, body)
    process_id = json.loads(body)["process_id"]
    _get(f"{base}/{process_id}/wait?timeout=20")
    return _get(f"{base}/{process_id}/output?stream=stdout&format=raw").decode().strip()


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=_PATIENCE_S) as answer:  # noqa: S310 -- our own server's
        return bytes(answer.read())


def _by_mcp(server: OutliveServer, tool: str, words: dict[str, object], *, is_error: bool = False) -> str:
    url = server.mcp_url
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    _, _, headers = _post(url, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": words}}
    _, body, _ = _post(url, call, {"Mcp-Session-Id": headers["Mcp-Session-Id"], "Accept": "application/json"})
    answer = json.loads(body)
    if is_error:
        return str(answer)
    assert not answer["result"].get("isError"), answer
    return str(answer["result"]["content"][0]["text"])
