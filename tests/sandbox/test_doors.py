"""Sandbox, limits and secrets through the doors: what each is told and what each tells, on one real
server.
"""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest

from outlive.client import Client, InvalidRequest
from tests.support.rpc import connect
from tests.support.server import OutliveServer, outlive_command

CANARY = "canary-0b8d5e71"
_GUARDED = {"profile": "guarded", "features": ["rlimit_core", "no_new_privileges", "clean_environment"]}


def _secret_files(server: OutliveServer) -> list[str]:
    """Return the files that hold the canary, raw output aside."""
    return [
        str(path)
        for path in Path(server.state_dir).rglob("*")
        if path.is_file() and path.name not in {"out", "err"} and CANARY.encode() in path.read_bytes()
    ]


@pytest.mark.promise("S0.3.profile")
async def test_json_rpc_tells_the_sandbox_and_keeps_secrets_to_itself(server: OutliveServer) -> None:
    async with connect(server.url) as client:
        params = {"command": "echo ${#K}; ulimit -n", "env_secrets": {"K": CANARY}, "limits": {"files": 100}}
        started = await client.request("execute", profile="guarded", detach=True, **params)
        assert started["sandbox"]["profile"] == "guarded"
        assert set(_GUARDED["features"]) | {"rlimit_files"} == set(started["sandbox"]["features"])
        await client.request("wait", process_id=started["process_id"])
        found = await client.request("get", process_id=started["process_id"])
        assert (found["sandbox"], found["env_secrets"]) == (started["sandbox"], ["K"])
        page = await client.request("read", process_id=started["process_id"])
        assert page["chunks"][0]["data"] == f"{len(CANARY)}\n100\n"
        error = await client.failure("execute", command="true", profile="wide")
        assert error.reason == "invalid_params"
    assert _secret_files(server) == []


def test_rest_tells_the_sandbox_and_refuses_what_it_cannot_be(server: OutliveServer) -> None:
    url = f"{server.rest_url}/v1/processes"
    body = {"command": "true", "profile": "guarded", "env_secrets": {"K": CANARY}, "limits": {"cpu": 5}}
    answer = httpx2.post(url, json=body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["sandbox"]["features"][0] == "rlimit_cpu"
    assert answer.json()["env_secrets"] == ["K"]
    refused = httpx2.post(url, json={"command": "true", "env_secrets": {"OUTLIVE_X": CANARY}})
    assert refused.status_code == 422
    wrong = httpx2.post(url, json={"command": "true", "env_secrets": {"K": [CANARY]}})
    assert wrong.status_code == 422
    assert CANARY not in answer.text + refused.text + wrong.text
    assert _secret_files(server) == []


def test_the_client_passes_everything_on(server: OutliveServer) -> None:
    with Client(state_dir=server.state_dir) as client:
        process = client.start(
            ["sh", "-c", "echo ${#K}"], env_secrets={"K": CANARY}, profile="guarded", limits={"processes": 4000}  # noqa: E501 -- cut nowhere better: a table, or another program's text
        ) if os.geteuid() else client.start(
            ["sh", "-c", "echo ${#K}"], env_secrets={"K": CANARY}, profile="guarded", limits={"files": 64}
        )  # fmt: skip
        assert process.wait().exit_code == 0
        info = process.info()
        assert (info.profile, info.secret_names) == ("guarded", ("K",))
        assert "no_new_privileges" in info.features
        with pytest.raises(InvalidRequest):
            client.start("true", profile="wide")


def test_the_command_line_passes_everything_on(server: OutliveServer) -> None:
    words = [
        *outlive_command(),
        "run",
        "--state-dir",
        str(server.state_dir),
        "--profile",
        "guarded",
        "--secret",
        "K",
    ]
    line = "env; grep NoNewPrivs /proc/self/status"
    home = str(server.state_dir)
    environment = {"PATH": os.environ["PATH"], "HOME": home, "K": CANARY, "OTHER": "1", "LC_TIME": "C"}
    ran = subprocess.run([*words, "-c", line], env=environment, capture_output=True, timeout=60, check=True)
    lines = ran.stdout.decode().splitlines()
    assert f"K={CANARY}" in lines
    assert "LC_TIME=C" in lines
    assert "OTHER=1" not in lines
    assert lines[-1].split() == ["NoNewPrivs:", "1"]
    left = subprocess.run(
        [*words, "-d", "--json", "true"], env=environment, capture_output=True, timeout=60, check=True
    )
    answer = json.loads(left.stdout)
    assert answer["sandbox"]["profile"] == "guarded"
    told = [*outlive_command(), "inspect", "--state-dir", str(server.state_dir), answer["process_id"]]
    shown = subprocess.run(told, env=environment, capture_output=True, timeout=60, check=True).stdout.decode()
    assert "sandbox  guarded: rlimit_core, no_new_privileges" in shown
    assert "secrets  K" in shown
    missing = subprocess.run([*words, "--secret", "NOT_THERE", "true"], env=environment, capture_output=True, timeout=60, check=False)  # fmt: skip  # noqa: E501 -- cut nowhere better: a table, or another program's text
    assert missing.returncode == 125
    assert b"NOT_THERE" in missing.stderr
    assert _secret_files(server) == []


def test_the_command_line_takes_limits(server: OutliveServer) -> None:
    def ran(*limits: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        words = [*outlive_command(), "run", "--state-dir", str(server.state_dir), *flags]
        for limit in limits:
            words += ["--limit", limit]
        line = "ulimit -n; ulimit -t"
        return subprocess.run([*words, "-c", line], capture_output=True, text=True, timeout=60, check=False)

    assert ran("files=64", "cpu=90s").stdout == "64\n90\n"
    assert ran("files=64", "cpu=2m", flags=("--profile=guarded",)).stdout == "64\n120\n"
    for words, sentence in (
        (
            ["file=64"],
            (
                "--limit: 'file=64': a limit is NAME=VALUE, and the names are cpu, cpus, memory, files, "
                "processes;"
            ),
        ),
        (["memory=much"], "--limit: 'memory=much': a size is a number of bytes"),
        (["files"], "--limit: 'files': a limit is NAME=VALUE"),
        (["cpu=0.2"], "--limit: 'cpu=0.2': one second or more is needed"),
    ):
        refused = ran(*words)
        assert (refused.returncode, refused.stdout) == (2, ""), words
        assert sentence in refused.stderr
        assert "memory=2G" in refused.stderr


@pytest.mark.thorough
async def test_no_door_takes_a_limit_that_it_does_not_know(server: OutliveServer) -> None:
    """A bound that was misspelt would hold nothing, and nobody would notice."""
    async with connect(server.url) as client:
        error = await client.failure("execute", command="true", limits={"memory_bytes": 5})
        assert error.reason == "invalid_params"
    body = {"command": "true", "limits": {"memory_bytes": 5}}
    assert httpx2.post(f"{server.rest_url}/v1/processes", json=body).status_code == 422
    for name, member in (
        ("run", "command"),
        ("command_execute", "command"),
        ("execute_linux_shell_command", "cmd"),
    ):
        assert "memory_bytes" in _call(server, name, {member: "true", "limits": {"memory_bytes": 5}})


def test_mcp_takes_limits_and_tells_what_keeps_them(server: OutliveServer) -> None:
    text = _call(server, "run", {"command": "ulimit -n; ulimit -t", "limits": {"files": 64, "cpu": 90}})
    assert re.fullmatch(r"\[exit 0, limited by [a-z_]+, [a-z_]+\]\n64\n90", text), text
    limits = {"limits": {"files": 65}}
    assert (
        json.loads(_call(server, "command_execute", {"command": "ulimit -n", **limits}))["stdout"] == "65\n"
    )
    script = {"script_content": "ulimit -n", **limits}
    assert json.loads(_call(server, "command_execute_script", script))["stdout"] == "65\n"
    assert _call(server, "execute_linux_shell_command", {"cmd": "ulimit -n", **limits}) == "65"


def test_mcp_tells_the_sandbox_in_its_header(server: OutliveServer) -> None:
    text = _call(server, "run", {"command": "echo ${#K}", "env_secrets": {"K": CANARY}, "profile": "guarded"})
    assert text == f"[exit 0, sandbox guarded]\n{len(CANARY)}"
    assert _secret_files(server) == []


def _call(server: OutliveServer, tool: str, arguments: Mapping[str, object]) -> str:
    """Call an MCP tool in a session of its own; return the text of its answer."""
    params = {"name": tool, "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    url = server.mcp_url
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    begun = httpx2.post(
        url, json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, timeout=30
    )
    answer = httpx2.post(
        url, json=call, headers={"Mcp-Session-Id": begun.headers["Mcp-Session-Id"]}, timeout=30
    )
    return str(json.loads(answer.text)["result"]["content"][0]["text"])
