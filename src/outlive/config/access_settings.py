"""Options about callers: access (`AccessSettings`), limits (`LimitSettings`), audit and redaction; and
where the server listens (`PortOptions`).

Rows of the table of options only. `server.access` decides with them about a caller; commands are judged by
`policy_settings`.
"""

from outlive.config.options import (
    JSONRPC_PORT,
    option,
    parse_count,
    parse_folder,
    parse_hiding,
    parse_host,
    parse_lines,
    parse_names,
    parse_origins,
    parse_seconds,
    parse_size,
    parse_switch,
    parse_text,
    port,
)
from outlive.core.layout import STATE_DIR_HELP
from outlive.core.values import dataclass


def _parse_callbacks(text: str) -> str:
    """Return off, read or run."""
    word = text.strip().lower()
    if word not in {"off", "read", "run"}:
        raise ValueError("off, read or run is needed")
    return word


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AccessSettings:
    """The part of `Settings` that decides which callers are let in."""

    # An older and simpler way than tokens (docs/access.md): one key for every caller over TCP.
    mcp_api_key: str = option(
        "key",
        parse_text,
        "",
        "Key that every caller over TCP must send (Authorization or X-API-Key); empty asks for none. "
        "Other users can read flags: use the environment.",
        flag="--mcp-api-key",
        env=("MCP_API_KEY",),
        example="a-long-random-word",
    )
    # Off by default: a command gets rights at the server only if the operator wants that.
    callbacks: str = option(
        "scope",
        _parse_callbacks,
        "off",
        (
            "What commands may do here, by a token of their own in OUTLIVE_TOKEN: off, read or run; at most "
            "what their caller may."
        ),
        flag="--callbacks",
        example="run",
    )
    # TLS for the TCP ports; the Unix socket needs none.
    tls_cert: str = option(
        "file",
        parse_folder,
        "",
        (
            "PEM file of the certificate that the TCP ports speak TLS with, and of those between it and its "
            "authority."
        ),
        flag="--tls-cert",
        example="/etc/outlive/cert.pem",
    )
    tls_key: str = option(
        "file",
        parse_folder,
        "",
        "PEM file of the certificate's key, without a passphrase.",
        flag="--tls-key",
        example="/etc/outlive/key.pem",
        mark="secret file",
    )
    tls_client_ca: str = option(
        "file",
        parse_folder,
        "",
        "PEM file of the authorities whose certificates callers over TCP have to show, beside their token.",
        flag="--tls-client-ca",
        example="/etc/outlive/clients.pem",
    )
    # Web pages: an allowed origin acts as the user, all others of this machine learn at most which tools
    # there are (decision 72).
    allow_origin: tuple[str, ...] = option(
        "words",
        parse_origins,
        "",
        (
            "Origins, separated by commas, whose web pages act as you (start, control and read your "
            "processes) without a token."
        ),
        flag="--allow-origin",
        example="http://localhost:5173",
    )
    hello_off: bool = option(
        "switch",
        parse_switch,
        "off",
        "Refuse pages of this machine without a token everything, also the list of tools.",
        flag="--no-hello",
        example="on",
    )
    # Every other Host is refused: otherwise a foreign page could reach this server under its own name (DNS
    # rebinding).
    public_name: tuple[str, ...] = option(
        "words",
        parse_names,
        "",
        "The server's names beyond this machine, HOST or HOST:PORT (that port only), separated by commas, "
        "beside the names in its certificate: other Hosts are refused.",
        flag="--public-name",
        example="box.example.org",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class LimitSettings:
    """The part of `Settings` that keeps one caller from taking everything."""

    max_http_connections: int = option(
        "count",
        parse_count,
        "1000",
        "HTTP connections at a time; when there is one more, the one that was idle the longest is closed.",
        flag="--max-http-connections",
        project="lower",
    )
    max_request_rate: int = option(
        "count",
        parse_count,
        "5000",
        "Requests a second of one principal; one more is answered with 429, or read later on a WebSocket.",
        flag="--max-request-rate",
        project="lower",
    )
    max_processes: int = option(
        "count",
        parse_count,
        "2000",
        "Processes of one principal that run or wait at a time; one more is refused.",
        flag="--max-processes",
        project="lower",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class AuditSettings:
    """The part of `Settings` that decides about the audit log and about secrets in output."""

    # A project may hide more than its user, never less.
    redact: str = option(
        "what",
        parse_hiding,
        "all",
        "What is hidden in output, commands' texts and logs: all (values of env_secrets, and what looks "
        "like a key), secrets (those values only) or off.",
        flag="--redact",
        project="hides",
    )

    redact_extra: tuple[str, ...] = option(
        "patterns",
        parse_lines,
        "",
        (
            "More patterns of what is hidden, one in a line: a literal beginning, then what is secret "
            "(docs/redaction.md)."
        ),
        flag="--redact-extra",
        example="acme_[A-Za-z0-9]{32}",
        project="superset",
    )
    audit_off: bool = option(
        "switch",
        parse_switch,
        "off",
        (
            "Keep no audit log: later there is no record of which caller started, controlled or was refused "
            "what."
        ),
        flag="--no-audit",
        example="on",
        project="off",
    )
    # Size and number together bound the audit log: 128 MiB by default.
    audit_max_bytes: int = option(
        "size",
        parse_size,
        "16M",
        "Size at which the audit log goes on in a new file.",
        flag="--audit-max-size",
        unit="bytes",
    )
    audit_files: int = option(
        "count",
        parse_count,
        "8",
        "How many files of the audit log are kept; beyond it the oldest is removed.",
        flag="--audit-files",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PortOptions:
    """The part of `Settings` about listening, and about what one connection may use."""

    state_dir: str = option(
        "folder",
        parse_folder,
        "",
        STATE_DIR_HELP,
        flag="--state-dir",
        example="/var/lib/outlive",
    )
    host: str = option(
        "address",
        parse_host,
        "127.0.0.1",
        (
            "Address to listen on; 127.0.0.1 takes ::1 as well. Beyond this machine it needs TLS and a token "
            "or key."
        ),
        flag="--host",
    )
    # One port for each frontend; several may not share one, since each speaks its own protocol at the same
    # paths.
    jsonrpc_port: int | None = port(
        str(JSONRPC_PORT),
        "JSON-RPC over WebSocket",
        flag="--jsonrpc-port",
        shown="JSON-RPC     ws{s}://{address}/ws/mcp   (docs/jsonrpc.md)",
    )
    mcp_port: int | None = port(
        "8888",
        "MCP over HTTP",
        flag="--mcp-port",
        env=("MCP_REMOTE_PORT",),
        shown="MCP          http{s}://{address}/mcp   (docs/mcp.md)",
    )
    rest_port: int | None = port(
        "8181",
        "REST",
        flag="--rest-port",
        env=("MCP_PORT",),
        shown="REST         http{s}://{address}/docs   (describes it)",
    )
    max_connections: int = option(
        "count",
        parse_count,
        "100",
        "WebSocket connections at a time; one more is refused.",
        flag="--max-connections",
        env=("MAX_SESSIONS",),
        project="lower",
    )
    # A line without an end, of a progress bar for instance, must not fill the memory of the server or a
    # client.
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
