"""Our own clients reach a server of this machine over its Unix socket, never over TCP: it tells them from
others by one pidfd, however busy it is.
"""

import json
import subprocess
import sys

import pytest

from tests.cli.launching import environment
from tests.extensions.fleet.pairs import a_token
from tests.support.server import OutliveServer, outlive_command

_BLOCKING = """
import sys
from outlive.client import Client
with Client(sys.argv[1], start_server=False) as client:
    client.list(limit=1)
"""
_ASYNC = """
import asyncio, sys
from outlive.client import AsyncClient
async def main():
    async with AsyncClient(sys.argv[1], start_server=False) as client:
        await client.list(limit=1)
asyncio.run(main())
"""
_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.mark.thorough
@pytest.mark.root("an ordinary user may make no network namespace")
@pytest.mark.parametrize("client", ["ps", "run", "blocking", "asyncio", "mcp"])
def test_a_client_works_where_no_tcp_port_can_be_reached(server: OutliveServer, client: str) -> None:
    """In a network namespace of its own not even loopback is up. There a client has to show a token."""
    state_dir = str(server.state_dir)
    said = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO}) + "\n"
    words = {
        "ps": [*outlive_command(), "ps", "--state-dir", state_dir],
        "run": [*outlive_command(), "run", "--state-dir", state_dir, "--no-start", "--", "echo", "hi"],
        "blocking": [sys.executable, "-c", _BLOCKING, state_dir],
        "asyncio": [sys.executable, "-c", _ASYNC, state_dir],
        "mcp": [*outlive_command(), "mcp", "--state-dir", state_dir],
    }[client]
    done = subprocess.run(
        ["unshare", "-n", *words],
        input=said,
        env={**environment(), "OUTLIVE_TOKEN": a_token(server, f"from-{client}")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if client == "mcp":
        assert json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"] == "outlive"
