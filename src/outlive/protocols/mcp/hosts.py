"""What is known of MCP hosts by the `clientInfo.name` that they send in `initialize`: how long they wait,
what keeps them waiting. Pure.

It owns the table `HOSTS` and the judgements made from it and from the reason of a `notifications/cancelled`.
How long a call may wait, and what happens to its process when the call is given up, is decided by its
callers. A name is the client's own claim: it may shorten or lengthen a wait, and never gives a right.

Each row is about the host as it is installed, without settings of its user, and each fact has its source.
What no source says is `None` or false, for a wrong "it goes on waiting" costs an answer and a wrong "it gives
up" only a turn.

A progress token does not mean that progress restarts a clock: the Rust SDK sends one with every request and
counts on (modelcontextprotocol/rust-sdk#834), Gemini CLI sends one to show progress. The TypeScript SDK
restarts its clock only for a caller that sets `resetTimeoutOnProgress` and gives `onprogress`, without which
it sends no token (modelcontextprotocol/typescript-sdk#2136).
"""

import math
import re
from fnmatch import fnmatchcase

from outlive.core.values import dataclass

# A host that is known to have no clock of its own. It is not `None`, which says that nothing is known.
NO_LIMIT_S = math.inf

# A cancel that comes within this time of a limit is the limit's: a host starts its clock before the request
# is on its way, a busy one fires it late, and the notice travels.
LIMIT_TOLERANCE_S = 2.0

# Limits that are common where a host's own is not known: 30 s (Copilot in IntelliJ,
# microsoft/copilot-intellij-feedback#1935), 60 s (the TypeScript SDK's DEFAULT_REQUEST_TIMEOUT_MSEC), 240 s
# (Claude Desktop), 300 s (Codex, goose, Node's fetch between two chunks).
COMMON_LIMITS_S = (30.0, 60.0, 240.0, 300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpHost:
    """One host: a program that starts or reaches MCP servers and calls their tools for a model.

    Attributes:
        name: The product's name, for texts.
        client_names: The values of `clientInfo.name` in lower case; a `*` stands for any characters.
        limit_s: Seconds after which the host gives up a tool call. `None`: not known; `NO_LIMIT_S`: it has no
            such clock.
        restarts_at_progress: Whether a `notifications/progress` for the call begins those seconds anew; it
            needs a token.
        wake: How its model can be woken by the end of a process `{id}`, for `str.format`. `None`: no way is
            known.
        source: Where the facts come from.
    """

    name: str
    client_names: tuple[str, ...] = ()
    limit_s: float | None = None
    restarts_at_progress: bool = False
    wake: str | None = None
    source: str = ""


UNKNOWN_HOST = McpHost(name="unknown")

HOSTS = (
    # A server over HTTP is given up after 300 s without a response or progress
    # (CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT), one over stdio after 100 000 s in all, from 2.1.207 on also after
    # 1800 s without progress (laurigates/claude-plugins#2059). The idle clock sends no notice. A background
    # Bash command wakes the model: its tool text says "you will be notified when it completes".
    McpHost(
        name="Claude Code",
        client_names=("claude-code",),
        limit_s=300.0,
        restarts_at_progress=True,
        wake="run `outlive wait {id}` as a background Bash command",
        source="npm: @anthropic-ai/claude-code 2.1.197; https://github.com/vfarcic/dot-ai/pull/708",
    ),
    # claude.ai in a browser has the same name. Progress does not help (anthropics/claude-code#58687). Some
    # builds gave up after 60 s (anthropics/claude-code#63379).
    McpHost(
        name="Claude Desktop",
        client_names=("claude-ai",),
        limit_s=240.0,
        source="https://github.com/anthropics/claude-code/issues/44032",
    ),
    McpHost(
        name="Cursor",
        client_names=("cursor-vscode",),
        limit_s=300.0,
        source="https://github.com/cursor/cursor/issues/3510",
    ),
    # `clientInfo.name` is the product's long name, so forks send theirs. Its request handler has no clock and
    # cancels without a reason, whatever the cause; that calls end after five minutes, with progress or
    # without, is reported.
    McpHost(
        name="Visual Studio Code",
        client_names=("visual studio code*", "visual-studio-code*", "code - oss*"),
        limit_s=300.0,
        source=(
            "https://github.com/microsoft/vscode/issues/261734; "
            "src/vs/workbench/contrib/mcp/common/mcpServer.ts"
        ),
    ),
    # 60 s until early 2026, 120 s, and 300 s since June 2026. Its own clock drops the request; whether the
    # server is notified is not known. The user's elicitations stop the clock, progress does not.
    McpHost(
        name="Codex",
        client_names=("codex-mcp-client", "codex"),
        limit_s=300.0,
        source="https://github.com/openai/codex/pull/28234; codex-rs/codex-mcp/src/rmcp_client.rs",
    ),
    McpHost(
        name="Gemini CLI",
        client_names=("gemini-cli-mcp-client",),
        limit_s=600.0,
        source="npm: @google/gemini-cli-core 0.61.0, dist/src/tools/mcp-client.js",
    ),
    # Its shell tool wakes the model too, but only in sessions with system notifications.
    McpHost(
        name="Copilot CLI",
        client_names=("github-copilot-developer",),
        limit_s=180.0,
        restarts_at_progress=True,
        source="npm: @github/copilot 1.0.20, app.js",
    ),
    McpHost(
        name="Windsurf",
        client_names=("windsurf-client", "windsurf"),
        source="https://github.com/apify/mcp-client-capabilities",
    ),
    McpHost(
        name="Cline",
        client_names=("cline", "@cline/core"),
        limit_s=60.0,
        source=(
            "https://github.com/cline/cline, sdk/packages/shared/src/mcp.ts, "
            "apps/vscode/src/services/mcp/McpHub.ts"
        ),
    ),
    # Zed notifies a server of the user's cancel, without a reason, and of no time-out.
    McpHost(
        name="Zed",
        client_names=("zed",),
        limit_s=60.0,
        source="https://github.com/zed-industries/zed/pull/45378; crates/context_server/src/client.rs",
    ),
    # The clock is the TypeScript SDK's default unless `timeout` is set; a token comes since June 2026.
    McpHost(
        name="opencode",
        client_names=("opencode",),
        limit_s=60.0,
        restarts_at_progress=True,
        source="https://github.com/anomalyco/opencode/pull/32477; npm: opencode-linux-x64 1.18.33",
    ),
    McpHost(
        name="goose",
        client_names=("goose", "goose-cli", "goose-desktop"),
        limit_s=300.0,
        source="https://github.com/block/goose, crates/goose/src/agents/mcp_client.rs; pull 8295",
    ),
    # It restarts a clock of 300 s at progress, but ends a call at the first progress after 60 s ("Maximum
    # total timeout exceeded"). Older ones (0.15) have 10 s instead of 300.
    McpHost(
        name="MCP Inspector",
        client_names=("inspector-client", "mcp-inspector", "inspector-cli"),
        limit_s=60.0,
        source="npm: @modelcontextprotocol/inspector-client 1.0.3, DEFAULT_INSPECTOR_CONFIG",
    ),
    # The name of a program that gives none. Version 1 sends no notice at its time-out, which only the program
    # can set.
    McpHost(
        name="Python SDK",
        client_names=("mcp",),
        limit_s=NO_LIMIT_S,
        source="PyPI: mcp 2.3.0, mcp/client/session.py, mcp/shared/jsonrpc_dispatcher.py",
    ),
)

_UNNAMEABLE = re.compile(r"[^a-z0-9_-]+", re.ASCII)
# "Request timed out", "timeout", "time-out", "DEADLINE_EXCEEDED", "deadline has elapsed".
_TIMEOUT = re.compile(
    r"\btim(?:e|ed)[ _-]?outs?\b|timeout|\bdeadline[ _](?:has |was )?(?:exceeded|elapsed|expired)",
    re.IGNORECASE,
)
# A person's act, which may name a time-out as well: "user cancelled, did not want to wait for the timeout".
_ACT = re.compile(
    r"\b(?:user|operator)[ -]?(?:has |was |-)?(?:cancel|abort|interrupt|stop)"
    r"|\b(?:cancell?ed|aborted|interrupted|stopped) by (?:the |a |an )?(?:user|operator)",
    re.IGNORECASE,
)


def host_of(client_name: str) -> McpHost:
    """Return the host that sends this `clientInfo.name`, compared in lower case; `UNKNOWN_HOST` for every
    other name.
    """
    # As the client says it, and as it stands in a session id, where spaces and slashes have become dashes.
    names = (client_name.strip().lower(), client_slug(client_name))
    for host in HOSTS:
        if any(fnmatchcase(name, pattern) for pattern in host.client_names for name in names):
            return host
    return UNKNOWN_HOST


def client_slug(client_name: str) -> str:
    """Return a client's name as a session id can hold it: at most 40 lower-case letters, digits, `-` and
    `_`.
    """
    return _UNNAMEABLE.sub("-", client_name.lower()).strip("-")[:40].rstrip("-")


def is_timeout_reason(reason: str) -> bool:
    """Return whether the reason of a `notifications/cancelled` says that the caller's time ran out.

    False for a person's cancel and for an `AbortError`, which says nothing of the cause. An empty reason is
    none.
    """
    return _TIMEOUT.search(reason) is not None and _ACT.search(reason) is None


def is_beyond_limit(elapsed_s: float, host: McpHost) -> bool:
    """Return whether a call that was answered after `elapsed_s` seconds has outlived the host's limit.

    Of a host whose limit is not known that is certain beyond all of `COMMON_LIMITS_S` only: a wait that is
    made longer because of a wrong guess is given up, and a cancel at a limit that is not known ends the
    command.
    """
    limit_s = max(COMMON_LIMITS_S) if host.limit_s is None else host.limit_s
    # An answer at the limit itself may have crossed the host's cancel on its way.
    return elapsed_s > limit_s + LIMIT_TOLERANCE_S


def names_known_limit(elapsed_s: float, host: McpHost) -> bool:
    """Return whether a call that was given up after `elapsed_s` seconds was given up at the host's limit.

    For a host whose limit is not known, at one of `COMMON_LIMITS_S`. `elapsed_s` counts from the request, or
    from the last progress where progress restarts the host's clock.
    """
    # NO_LIMIT_S is infinitely far from every time: such a host's cancel is always a person's.
    limits = COMMON_LIMITS_S if host.limit_s is None else (host.limit_s,)
    return any(abs(elapsed_s - limit) <= LIMIT_TOLERANCE_S for limit in limits)
