"""`outlive mcp`: the MCP relay on stdin and stdout, for the state folder that was asked for."""

from outlive.cli.output import say
from outlive.cli.parameters import STATE_DIR, takes
from outlive.discovery.server import Server
from outlive.discovery.state_folder import layout_of, open_state_folder
from outlive.frontends.mcp.stdio.relay import Pipes, Relay


@takes(STATE_DIR)
def mcp(*, state_dir: str | None) -> int:
    """Relay between the host on stdin and stdout and the server until stdin ends; return the exit code.

    Raises:
        ConfigInvalid: The state folder cannot be used.
    """
    layout = open_state_folder(layout_of(state_dir).root, to_write=False)
    pipes = Pipes()
    Relay(Server(layout, say=say), write=pipes.write, say=say).run(pipes.lines())
    return 0
