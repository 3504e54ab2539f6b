"""Options about connections: where the server listens (`PortOptions`), and the other servers it connects to (`NodeSettings`).

Rows of the table of options only: nothing here opens a port or a connection. Callers' rights are in `access_settings`.
"""

import re
from dataclasses import dataclass

from outlive.config.options import option, port
from outlive.config.values import (
    parse_count,
    parse_folder,
    parse_host,
    parse_seconds,
    parse_size,
    parse_words,
    websocket_url,
)
from outlive.core.location import DOCKER, LOCAL


@dataclass(frozen=True, kw_only=True)
class PortOptions:
    """The part of `Settings` about listening, and about what one connection may use."""

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
    # One port for each frontend; several may not share one, since each speaks its own protocol at the same paths.
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
    # A line without an end, of a progress bar for instance, must not fill the memory of the server or a client.
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
    # A message lies in memory as a whole, several times while it is parsed.
    max_message_bytes: int = option(
        "size",
        parse_size,
        "16M",
        "Largest message that a client may send.",
        flag="--max-message-bytes",
        unit="bytes",
        project="lower",
    )
    # Counts for processes that belong to a connection (`detach` false); all others live on without one.
    reconnect_grace_s: float = option(
        "time",
        parse_seconds,
        "10",
        "How long the processes of a lost connection wait for its return before they are cancelled.",
        flag="--reconnect-grace",
        unit="seconds",
    )


NODE_TOKEN = "OUTLIVE_NODE_TOKEN_"  # noqa: S105 -- the beginning of variables' names

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def parse_nodes(text: str) -> tuple[str, ...]:
    """Return NAME=URL for each node between commas, the URLs as WebSocket addresses."""
    found: dict[str, str] = {}
    for word in parse_words(text):
        name, separator, address = word.partition("=")
        if not separator or not _NAME.fullmatch(name):
            raise ValueError(
                f"{word[:60]!r} is not NAME=URL; a name has small letters, digits, dots, - and _"
            )
        if name in {LOCAL, DOCKER}:
            raise ValueError(f"{name!r} is no name for a node: it stands for this machine")
        if name in found:
            raise ValueError(f"there are two nodes {name!r}")
        found[name] = websocket_url(address)
    return tuple(f"{name}={address}" for name, address in found.items())


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """The part of `Settings` that names other servers as backends."""

    nodes: tuple[str, ...] = option(
        "words",
        parse_nodes,
        "",
        "Other outlive servers that commands may run on (`--backend NAME`), as NAME=URL, separated by commas.",
        flag="--node",
        example="build=https://build.example:8003",
    )
    # A file, because other users of the machine can read flags.
    node_tokens: str = option(
        "file",
        parse_folder,
        "",
        "File with the nodes' tokens, a line NAME TOKEN each; only its owner may be able to read it. "
        "OUTLIVE_NODE_TOKEN_<NAME> in the environment comes first.",
        flag="--node-tokens",
        example="/etc/outlive/node-tokens",
    )
    node_ca: str = option(
        "file",
        parse_folder,
        "",
        "PEM file of the authorities whose certificates count for nodes; the system's by default.",
        flag="--node-ca",
        example="/etc/outlive/ca.pem",
    )
