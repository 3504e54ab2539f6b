"""Where the server listens and what a connection may cost: `PortOptions`."""

from dataclasses import dataclass

from outlive.config.declaration import option, port
from outlive.config.values import parse_count, parse_folder, parse_host, parse_seconds, parse_size


@dataclass(frozen=True, kw_only=True)
class PortOptions:
    """The doors' part of `Settings`."""

    state_dir: str = option(
        "folder",
        parse_folder,
        "",
        "Folder of everything that must survive: output, exit codes, sockets "
        "(default: $XDG_STATE_HOME/outlive, else ~/.local/state/outlive).",
        flag="--state-dir",
        example="/var/lib/outlive",
    )
    host: str = option(
        "address",
        parse_host,
        "127.0.0.1",
        "Address to listen on; 127.0.0.1 takes ::1 as well. Beyond this machine it needs TLS and a token or key.",
        flag="--host",
    )
    jsonrpc_port: int | None = port("8003", "JSON-RPC over WebSocket", flag="--jsonrpc-port")
    mcp_port: int | None = port("8888", "MCP over HTTP", flag="--mcp-port", env=("MCP_REMOTE_PORT",))
    rest_port: int | None = port("8181", "REST", flag="--rest-port", env=("MCP_PORT",))
    bridge_port: int | None = port("3000", "the terminal bridge", flag="--bridge-port")
    max_connections: int = option(
        "count",
        parse_count,
        "100",
        "WebSocket connections at a time; one more is refused.",
        flag="--max-connections",
        env=("MAX_SESSIONS",),
        project="lower",
    )
    max_line_bytes: int = option(
        "size",
        parse_size,
        "8192",
        "A longer line of output is sent cut; the log keeps it whole.",
        flag="--max-line-bytes",
        env=("MAX_BUFFER_SIZE",),
        unit="bytes",
        project="lower",
    )
    max_message_bytes: int = option(
        "size",
        parse_size,
        "16M",
        "Largest message that a client may send.",
        flag="--max-message-bytes",
        unit="bytes",
        project="lower",
    )
    reconnect_grace_s: float = option(
        "time",
        parse_seconds,
        "10",
        "How long the processes of a lost connection wait for its return before they are cancelled.",
        flag="--reconnect-grace",
        unit="seconds",
    )
