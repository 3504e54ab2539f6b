"""All settings of the server: `Settings`, and the pure resolution flags > environment > defaults."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from outlive.config.options import Option
from outlive.config.values import (
    parse_count,
    parse_folder,
    parse_host,
    parse_level,
    parse_port,
    parse_seconds,
    parse_size,
    parse_switch,
    parse_text,
    parse_tool_set,
    parse_words,
)
from outlive.core.errors import ConfigInvalid

__all__ = ["OPTIONS", "Resolution", "Settings", "misspelt_names", "resolve"]

_Source = Literal["flag", "environment", "default"]


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
    }
    return field(metadata=row)


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
    jsonrpc_port: int | None = _option(
        "port",
        parse_port,
        "8003",
        "Port of JSON-RPC over WebSocket; 0 takes any free one, off none.",
        flag="--jsonrpc-port",
    )
    mcp_port: int | None = _option(
        "port",
        parse_port,
        "8888",
        "Port of MCP over HTTP; 0 takes any free one, off none.",
        flag="--mcp-port",
        env=("MCP_REMOTE_PORT",),
    )
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
    )
    max_connections: int = _option(
        "count",
        parse_count,
        "100",
        "WebSocket connections at a time; one more is refused.",
        flag="--max-connections",
        env=("MAX_SESSIONS",),
    )
    max_line_bytes: int = _option(
        "size",
        parse_size,
        "8192",
        "A longer line of output is sent cut; the log keeps it whole.",
        flag="--max-line-bytes",
        env=("MAX_BUFFER_SIZE",),
        unit="bytes",
    )
    max_message_bytes: int = _option(
        "size",
        parse_size,
        "16M",
        "Largest message that a client may send.",
        flag="--max-message-bytes",
        unit="bytes",
    )
    allowed_commands: tuple[str, ...] = _option(
        "words",
        parse_words,
        "",
        "Programs that may be started, separated by commas; empty allows everything, and so does a shell on the list.",
        flag="--allowed-commands",
        env=("ALLOWED_COMMANDS",),
        example="git,ls,make",
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
    )
    scripts_disabled: bool = _option(
        "switch",
        parse_switch,
        "off",
        "MCP tools start commands but no scripts.",
        flag="--disable-scripts",
        example="on",
    )
    allow_sudo: bool = _option(
        "switch",
        parse_switch,
        "off",
        "MCP tools may start commands that begin with sudo.",
        flag="--allow-sudo",
        example="on",
    )
    allowed_patterns: tuple[str, ...] = _option(
        "words",
        parse_words,
        "*",
        "What MCP tools may start: every simple command matches one of these, separated by commas.",
        flag="--allowed-patterns",
        example="git *,make *",
    )
    blocked_patterns: tuple[str, ...] = _option(
        "words",
        parse_words,
        "",
        "What MCP tools may not start: no simple command matches one of these.",
        flag="--blocked-patterns",
        example="rm -rf *",
    )
    command_timeout_s: float = _option(
        "time",
        parse_seconds,
        "60",
        "When a command of an MCP tool is ended, if the call names no timeout.",
        flag="--command-timeout",
        unit="seconds",
    )
    wait_s: float = _option(
        "time",
        parse_seconds,
        "45",
        "How long an MCP tool waits for the end before it answers that the command still runs.",
        flag="--wait",
        unit="seconds",
    )
    max_output_bytes: int = _option(
        "size",
        parse_size,
        "1M",
        "What an MCP result shows of each stream; the log keeps everything.",
        flag="--max-output-size",
        unit="bytes",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The settings and where each came from: who asks for a port by name is told when it is taken."""

    settings: Settings
    sources: Mapping[str, _Source]


def resolve(flags: Mapping[str, str], environ: Mapping[str, str], *, working_folder: str) -> Resolution:
    """Return the settings: a flag wins over the environment, the environment over the default.

    Args:
        flags: Option name to text, only those that were given.
        environ: The environment; an empty variable counts as unset.
        working_folder: Absolute; what a relative state folder is relative to.

    Raises:
        ConfigInvalid: A value cannot be understood; the message names the flag or variable it came from.
    """
    values: dict[str, Any] = {}
    sources: dict[str, _Source] = {}
    for option in OPTIONS:
        source, label, text = _find(option, flags, environ)
        if option.name == "state_dir" and source == "default":
            text = _default_state_dir(environ)
        try:
            values[option.name] = option.parse(text)
        except ValueError as error:
            raise ConfigInvalid(
                "config_invalid",
                f"{label}={text[:80]!r} cannot be used: {error}.",
                hint=f"For example {label}={option.example}.",
                details={"option": option.name},
            ) from None
        sources[option.name] = source
    values["state_dir"] = _absolute(values["state_dir"], environ, working_folder)
    return Resolution(settings=Settings(**values), sources=sources)


def misspelt_names(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (name, what was probably meant) for variables of ours that no option reads."""
    known = [name for option in OPTIONS for name in option.env]
    unknown = [name for name in environ if name.startswith("OUTLIVE_") and name not in known]
    if not unknown:
        return []
    import difflib  # noqa: PLC0415 -- start-up time: 5 ms that only a misspelt name has to pay

    near = ((name, difflib.get_close_matches(name, known, n=1, cutoff=0.85)) for name in unknown)
    return [(name, matches[0]) for name, matches in near if matches]


def _find(option: Option, flags: Mapping[str, str], environ: Mapping[str, str]) -> tuple[_Source, str, str]:
    if option.name in flags:
        return "flag", option.flag, flags[option.name]
    for name in option.env:
        if environ.get(name):
            return "environment", name, environ[name]
    return "default", option.flag, option.default


def _default_state_dir(environ: Mapping[str, str]) -> str:
    base = environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):  # relative ones are to be ignored (XDG Base Directory Specification 0.8)
        home = environ.get("HOME", "")
        if not home.startswith("/"):
            raise ConfigInvalid(
                "state_folder",
                "There is no home folder to keep the state in (HOME is not set).",
                hint="Name a folder: --state-dir /path or OUTLIVE_STATE_DIR=/path.",
            )
        base = f"{home}/.local/state"
    return f"{base}/outlive"


def _absolute(path: str, environ: Mapping[str, str], working_folder: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = environ.get("HOME", "~") + path[1:]
    return os.path.normpath(os.path.join(working_folder, path))
