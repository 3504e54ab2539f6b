"""Fixtures: one server, and a caller for each of its doors."""

from collections.abc import Iterator

import pytest

from outlive.client import Client
from tests.docs.wire import Wire
from tests.doors.starts import Door, cli, command_tools, json_rpc, lean, python_client, rest_door, shell_tool
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer


@pytest.fixture(scope="module")
def doors(server: OutliveServer) -> Iterator[dict[str, Door]]:
    """Every door by its name."""
    tools = RawCaller.begin(server.mcp_url)
    with Wire.dialled(server.url) as wire, Client(server.state_dir, start_server=False) as client:
        yield {
            "jsonrpc": json_rpc(wire),
            "rest": rest_door(RestCaller(server.rest_url)),
            "mcp run": lean(tools),
            "mcp command_execute": command_tools(tools),
            "mcp execute_linux_shell_command": shell_tool(tools),
            "client": python_client(client),
            "cli": cli(server.state_dir),
        }
