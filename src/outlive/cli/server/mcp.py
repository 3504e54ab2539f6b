"""`outlive mcp`: the MCP relay on stdin and stdout, for the state folder that was asked for."""

import json
import os

from outlive.cli.output import say
from outlive.cli.parameters import STATE_DIR, option, takes
from outlive.discovery.own_kind import TOKEN_VARIABLE
from outlive.discovery.server import Server
from outlive.discovery.state_folder import layout_of, open_state_folder
from outlive.frontends.mcp.stdio.relay import Pipes, Relay
from outlive.kernel.project import host_folder, project_root
from outlive.operations.tool_sets import TOOL_SETS, listed_tool_sets
from outlive.protocols.mcp.messages import passed_environment

_RELAY_BYTES = 8  # no secret: it tells the relays of one machine apart


@takes(
    option(
        "--mcp-tools",
        metavar="|".join(TOOL_SETS),
        about=lambda: (
            f"The tools that this host is offered: {listed_tool_sets()}. Without it, the server's choice."
        ),
    ),
    option(
        "--cwd",
        metavar="FOLDER",
        about=(
            "Where commands of this host begin, and the project that they belong to. Without it, the "
            "host's own folder."
        ),
    ),
    STATE_DIR,
)
def mcp(*, mcp_tools: str | None, cwd: str | None, state_dir: str | None) -> int:
    """Relay between the host on stdin and stdout and the server until stdin ends; return the exit code.

    Raises:
        ConfigInvalid: The state folder cannot be used.
    """
    layout = open_state_folder(layout_of(state_dir).root, to_write=False)
    pipes = Pipes()
    project = _project(mcp_tools, host_folder(cwd))
    Relay(Server(layout, say=say), project, pipes, say=say).run(pipes.lines())
    return 0


def _project(tools: str | None, folder: str) -> bytes:
    """Return what the server is told of the host."""
    environ = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    env, left_out = passed_environment(environ)
    if left_out:
        say(
            "outlive: commands do not get these variables, which are too large or no UTF-8: "
            f"{', '.join(left_out)}"
        )
    content = {
        "cwd": folder,
        "root": project_root(folder),
        "env": env,
        "tools": tools,
        # Two hosts in one project differ in this alone, and each has to be shown what the other one has seen.
        "relay": os.urandom(_RELAY_BYTES).hex(),
    }
    return json.dumps(content).encode()
