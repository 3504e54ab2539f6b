"""`outlive mcp`: the MCP relay on stdin and stdout, for the state folder that was asked for."""

from outlive.cli.output import say
from outlive.frontends.mcp_stdio.pipes import Pipes
from outlive.frontends.mcp_stdio.relay import Relay
from outlive.presence.server import Server
from outlive.presence.state_folder import layout_of, open_state_folder

__all__ = ["relay_mcp"]


def relay_mcp(state_dir: str | None) -> int:
    """Relay between the host on stdin and stdout and the server until stdin ends; return the exit code.

    Raises:
        ConfigInvalid: The state folder cannot be used.
    """
    layout = open_state_folder(layout_of(state_dir).root, to_write=False)
    pipes = Pipes()
    Relay(Server(layout, say=say), write=pipes.write, say=say).run(pipes.lines())
    return 0
