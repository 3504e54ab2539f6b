"""All settings of the server: `Settings`, each option once. Where their values come from is in `resolution`."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from outlive.config.options import Option, Tightening
from outlive.config.values import (
    parse_count,
    parse_folder,
    parse_host,
    parse_level,
    parse_log_form,
    parse_port,
    parse_seconds,
    parse_size,
    parse_switch,
    parse_text,
    parse_tool_set,
    parse_words,
)

__all__ = ["OPTIONS", "Settings"]


def _option(
    kind: str,
    parse: Callable[[str], object],
    default: str,
    sentence: str,
    *,
    flag: str,
    env: tuple[str, ...] = (),
    unit: str = "",
    example: str = "",
    project: Tightening | None = None,
) -> Any:  # noqa: ANN401 -- a dataclass field stands where the value will be; `field` itself is typed like this
    """Declare one option; its environment names begin with ours, the documents' own names follow."""
    ours = "OUTLIVE_" + flag.removeprefix("--").replace("-", "_").upper()
    row = {
        "kind": kind,
        "parse": parse,
        "default": default,
        "sentence": sentence,
        "unit": unit,
        "flag": flag,
        "env": (ours, *env),
        "example": example or default,
        "project": project,
    }
    return field(metadata=row)


def _port(default: str, door: str, *, flag: str, env: tuple[str, ...] = ()) -> Any:  # noqa: ANN401 -- as `_option`
    """Declare the port of a door."""
    sentence = f"Port of {door}; 0 takes any free one, off none."
    return _option("port", parse_port, default, sentence, flag=flag, env=env)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every option of the server, validated. Times are seconds, sizes bytes; a port of None is switched off."""

    state_dir: str = _option(
        "folder",
        parse_folder,
        "",
        "Folder of everything that must survive: output, exit codes, sockets "
        "(default: $XDG_STATE_HOME/outlive, else ~/.local/state/outlive).",
        flag="--state-dir",
        example="/var/lib/outlive",
    )
    host: str = _option(
        "address",
        parse_host,
        "127.0.0.1",
        "Address to listen on; 127.0.0.1 takes ::1 as well, nothing beyond this machine is served for now.",
        flag="--host",
    )
    jsonrpc_port: int | None = _port("8003", "JSON-RPC over WebSocket", flag="--jsonrpc-port")
    mcp_port: int | None = _port("8888", "MCP over HTTP", flag="--mcp-port", env=("MCP_REMOTE_PORT",))
    rest_port: int | None = _port("8181", "REST", flag="--rest-port", env=("MCP_PORT",))
    mcp_api_key: str = _option(
        "key",
        parse_text,
        "",
        "What every caller over TCP must send (Authorization or X-API-Key); empty asks for none. "
        "Others can read flags: use the environment.",
        flag="--mcp-api-key",
        env=("MCP_API_KEY",),
        example="a-long-random-word",
    )
    mcp_tools: str = _option(
        "set",
        parse_tool_set,
        "all",
        "Which MCP tools are offered: lean (six small ones, for agents), documents or all.",
        flag="--mcp-tools",
        project="narrower",
    )
    max_connections: int = _option(
        "count",
        parse_count,
        "100",
        "WebSocket connections at a time; one more is refused.",
        flag="--max-connections",
        env=("MAX_SESSIONS",),
        project="lower",
    )
    max_line_bytes: int = _option(
        "size",
        parse_size,
        "8192",
        "A longer line of output is sent cut; the log keeps it whole.",
        flag="--max-line-bytes",
        env=("MAX_BUFFER_SIZE",),
        unit="bytes",
        project="lower",
    )
    max_message_bytes: int = _option(
        "size",
        parse_size,
        "16M",
        "Largest message that a client may send.",
        flag="--max-message-bytes",
        unit="bytes",
        project="lower",
    )
    allowed_commands: tuple[str, ...] = _option(
        "words",
        parse_words,
        "",
        "Programs that may be started, separated by commas; empty allows everything, and so does a shell on the list.",
        flag="--allowed-commands",
        env=("ALLOWED_COMMANDS",),
        example="git,ls,make",
        project="subset",
    )
    reconnect_grace_s: float = _option(
        "time",
        parse_seconds,
        "10",
        "How long the processes of a lost connection wait for its return before they are cancelled.",
        flag="--reconnect-grace",
        unit="seconds",
    )
    grace_s: float = _option(
        "time",
        parse_seconds,
        "10",
        "Time between TERM and KILL when a process is cancelled.",
        flag="--grace",
        unit="seconds",
    )
    tools_disabled: bool = _option(
        "switch",
        parse_switch,
        "off",
        "MCP tools start nothing.",
        flag="--disable-commands",
        example="on",
        project="on",
    )
    scripts_disabled: bool = _option(
        "switch",
        parse_switch,
        "off",
        "MCP tools start commands but no scripts.",
        flag="--disable-scripts",
        example="on",
        project="on",
    )
    allow_sudo: bool = _option(
        "switch",
        parse_switch,
        "off",
        "MCP tools may start commands that begin with sudo.",
        flag="--allow-sudo",
        example="on",
        project="off",
    )
    allowed_patterns: tuple[str, ...] = _option(
        "words",
        parse_words,
        "*",
        "What MCP tools may start: every simple command matches one of these, separated by commas.",
        flag="--allowed-patterns",
        example="git *,make *",
        project="subset",
    )
    blocked_patterns: tuple[str, ...] = _option(
        "words",
        parse_words,
        "",
        "What MCP tools may not start: no simple command matches one of these.",
        flag="--blocked-patterns",
        example="rm -rf *",
        project="superset",
    )
    command_timeout_s: float = _option(
        "time",
        parse_seconds,
        "60",
        "When a command of an MCP tool is ended, if the call names no timeout.",
        flag="--command-timeout",
        unit="seconds",
        project="lower",
    )
    wait_s: float = _option(
        "time",
        parse_seconds,
        "45",
        "How long an MCP tool waits for the end before it answers that the command still runs.",
        flag="--wait",
        unit="seconds",
        project="lower",
    )
    max_output_bytes: int = _option(
        "size",
        parse_size,
        "1M",
        "What an MCP result shows of each stream; the log keeps everything.",
        flag="--max-output-size",
        unit="bytes",
        project="lower",
    )
    termination_timeout_s: float = _option(
        "time",
        parse_seconds,
        "30",
        "Time between TERM and KILL when an MCP caller cancels or terminates.",
        flag="--termination-timeout",
        env=("TERMINATION_TIMEOUT",),
        unit="seconds",
    )
    output_limit_bytes: int = _option(
        "size",
        parse_size,
        "2G",
        "Output kept of one process; beyond it the middle of the log is released.",
        flag="--output-limit",
        unit="bytes",
        project="lower",
    )
    state_quota_bytes: int = _option(
        "size",
        parse_size,
        "16G",
        "Output kept of all finished processes; beyond it the oldest are forgotten.",
        flag="--state-quota",
        unit="bytes",
    )
    retention_s: float = _option(
        "time",
        parse_seconds,
        "30d",
        "How long a finished process is remembered.",
        flag="--retention",
        unit="seconds",
    )
    retention_count: int = _option(
        "count",
        parse_count,
        "10000",
        "How many finished processes are remembered.",
        flag="--retention-count",
    )
    log_level: str = _option(
        "level",
        parse_level,
        "info",
        "What the server says on stderr: debug, info, warning or error.",
        flag="--log-level",
    )
    log_form: str = _option(
        "form",
        parse_log_form,
        "auto",
        "How it says so: console (lines for people), json (one object a line), or auto: console on a terminal.",
        flag="--log-form",
    )
    print_json: bool = _option(
        "switch",
        parse_switch,
        "off",
        "When ready, print exactly one line on stdout: a JSON object with pid, state_dir and ports.",
        flag="--print-json",
        example="on",
    )
    stop_processes: bool = _option(
        "switch",
        parse_switch,
        "off",
        "When the server is stopped, end its processes too; without this they live on.",
        flag="--stop-processes",
        example="on",
    )


OPTIONS: tuple[Option, ...] = tuple(Option(name=entry.name, **entry.metadata) for entry in fields(Settings))
