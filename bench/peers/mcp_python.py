"""The smallest MCP server that one writes with the Python SDK: Streamable HTTP, one tool that runs `sh -c`.

It is a yardstick of the benchmarks and must stay plain: no records, no cancel, no limits. `python -m
bench.peers.mcp_python` prints its port when it listens.
"""

import asyncio
import socket

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("mcp_python", log_level="ERROR")


@server.tool(structured_output=False)
async def command_execute(command: str) -> str:
    """Run a command and return its output."""
    process = await asyncio.create_subprocess_exec(
        "sh",
        "-c",
        command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, _ = await process.communicate()
    return stdout.decode(errors="replace")


def main() -> None:
    """Serve on a free loopback port until killed.

    Uvicorn takes uvloop and httptools where they are installed.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(server.streamable_http_app(), log_level="error", access_log=False)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
