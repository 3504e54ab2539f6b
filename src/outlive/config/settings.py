"""All settings of the server: `Settings`, each option once, and the table of all (`all_options`).

A row declares everything that is known about an option: flags, help, documentation, checks of configuration
files come from it. Values are found by `resolution`. The groups in other modules are parts of the same table,
and so are the options of extensions.
"""

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from outlive.config.access_settings import (
    AccessSettings,
    AuditSettings,
    LimitSettings,
    PortOptions,
)
from outlive.config.options import (
    Mark,
    Option,
    option,
    parse_count,
    parse_level,
    parse_log_form,
    parse_seconds,
    parse_size,
    parse_switch,
    parse_tool_set,
)
from outlive.config.placement_settings import PlacementSettings
from outlive.config.policy_settings import PolicySettings, SandboxOptions
from outlive.core.values import dataclass, field, fields
from outlive.extensions.contract import check_new, extensions, load
from outlive.operations.tool_sets import listed_tool_sets

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(
    SandboxOptions,
    AuditSettings,
    PolicySettings,
    AccessSettings,
    LimitSettings,
    PlacementSettings,
    PortOptions,
):
    """Every option of the server, validated.

    Times are seconds, sizes bytes; a port of None is switched off. The bases only declare: nothing makes an
    instance of one, and their methods would take a millisecond each at every start.
    """

    # Fewer tools cost an agent fewer tokens in every conversation.
    mcp_tools: str = option(
        "set",
        parse_tool_set,
        "all",
        f"Which MCP tools are offered to hosts that ask for no set of their own: {listed_tool_sets()}.",
        flag="--mcp-tools",
        project="narrower",
    )
    # A draft of the protocol that was closed without a decision (decision 184): on for hosts that try it.
    mcp_partial_results: bool = option(
        "switch",
        parse_switch,
        "off",
        (
            "MCP calls of 2026-07-28 whose client declares partialResults stream their output (SEP-2998, a "
            "draft)."
        ),
        flag="--mcp-partial-results",
        example="on",
    )
    # Long enough for a program to write its state, short enough for a waiting person.
    grace_s: float = option(
        "time",
        parse_seconds,
        "10",
        "Time between TERM and KILL when a process is cancelled.",
        flag="--grace",
        unit="seconds",
    )
    # These bound the time and the size of a single MCP call: hosts commonly give up on a call after a minute.
    command_timeout_s: float = option(
        "time",
        parse_seconds,
        "60",
        "When a command of an MCP tool is ended, if the call names no timeout.",
        flag="--command-timeout",
        unit="seconds",
        project="lower",
    )
    wait_s: float = option(
        "time",
        parse_seconds,
        "45",
        "How long an MCP tool waits for the end before it answers that the command still runs.",
        flag="--wait",
        unit="seconds",
        project="lower",
    )
    max_output_bytes: int = option(
        "size",
        parse_size,
        "1M",
        "What an MCP result shows of each stream; the log keeps everything.",
        flag="--max-output-size",
        unit="bytes",
        project="lower",
    )
    termination_timeout_s: float = option(
        "time",
        parse_seconds,
        "30",
        "Time between TERM and KILL when an MCP caller cancels or terminates.",
        flag="--termination-timeout",
        env=("TERMINATION_TIMEOUT",),
        unit="seconds",
    )
    # What stays on the disk: of one process, of all finished ones, for how long, and how many. The bound that
    # is reached first counts.
    output_limit_bytes: int = option(
        "size",
        parse_size,
        "2G",
        "Output kept of one process; beyond it the middle of the log is released.",
        flag="--output-limit",
        unit="bytes",
        project="lower",
    )
    state_quota_bytes: int = option(
        "size",
        parse_size,
        "16G",
        "Output kept of all finished processes, with the indexes of it; beyond it the oldest are forgotten.",
        flag="--state-quota",
        unit="bytes",
    )
    retention_s: float = option(
        "time",
        parse_seconds,
        "30d",
        "How long a finished process is remembered.",
        flag="--retention",
        unit="seconds",
    )
    retention_count: int = option(
        "count",
        parse_count,
        "10000",
        "How many finished processes are remembered.",
        flag="--retention-count",
    )
    # What the server writes about itself; its audit log is a part of `AuditSettings`.
    log_level: str = option(
        "level",
        parse_level,
        "info",
        "What the server logs on stderr: debug, info, warning or error.",
        flag="--log-level",
    )
    log_form: str = option(
        "form",
        parse_log_form,
        "auto",
        (
            "Form of the log lines: console (for people), json (one object a line), or auto: console on a "
            "terminal."
        ),
        flag="--log-form",
    )
    print_json: bool = option(
        "switch",
        parse_switch,
        "off",
        "When ready, print exactly one line on stdout: a JSON object with pid, state_dir and ports.",
        flag="--print-json",
        example="on",
    )
    verbose: bool = option(
        "switch",
        parse_switch,
        "off",
        "When ready, say every address at which it answers.",
        flag="--verbose",
        example="on",
    )
    # Off by default, because surviving the server's end is what outlive is for.
    stop_processes: bool = option(
        "switch",
        parse_switch,
        "off",
        "When the server is stopped, end its processes too; without this they live on.",
        flag="--stop-processes",
        example="on",
    )
    extensions: Mapping[type, object] = field(default_factory=dict)

    def of(self, kind: type[_T]) -> _T:
        """Return an extension's options, as its dataclass has them."""
        found = self.extensions.get(kind)
        return found if isinstance(found, kind) else kind()


@functools.cache
def _tables() -> tuple[type, ...]:
    """Return the dataclasses that declare options: ours, then the extensions'."""
    return (Settings, *(load(one.options) for one in extensions() if one.options))


@functools.cache
def all_options() -> tuple[Option, ...]:
    """Return every option in the order of the declarations, which is that of the documentation.

    Raises:
        ConfigInvalid: An extension has an option of a name that there is already.
    """
    found: dict[str, Option] = {}
    for table in _tables():
        declared = {
            entry.name: Option(name=entry.name, **entry.metadata) for entry in fields(table) if entry.metadata
        }
        check_new(declared, found, kind="option")
        found |= declared
    return tuple(found.values())


def settings_of(values: Mapping[str, object]) -> Settings:
    """Return the settings from the values of all options, by their names."""
    core, *others = (
        {entry.name: values[entry.name] for entry in fields(table) if entry.metadata} for table in _tables()
    )
    made = {table: table(**own) for table, own in zip(_tables()[1:], others, strict=True)}
    return Settings(**core, extensions=made)  # type: ignore[arg-type] # each option's parser makes its type


def marked(settings: Settings, mark: Mark) -> list[Any]:
    """Return the values of the options with a mark, those that are not empty."""
    of_tables = (settings if table is Settings else settings.of(table) for table in _tables())
    values = (
        getattr(options, entry.name)
        for options in of_tables
        for entry in fields(type(options))
        if entry.metadata and entry.metadata["mark"] == mark
    )
    return [value for value in values if value]
