"""What is known of MCP hosts: whose name it is, when it gives up, and what its cancels mean (issue 21, part
2).
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.mcp.hosts import (
    HOSTS,
    LIMIT_TOLERANCE_S,
    UNKNOWN_HOST,
    host_of,
    is_timeout_reason,
    names_known_limit,
)

_NAMES = [
    ("claude-code", "Claude Code"),
    ("claude-ai", "Claude Desktop"),
    ("cursor-vscode", "Cursor"),
    ("Visual Studio Code", "Visual Studio Code"),
    ("Visual Studio Code - Insiders", "Visual Studio Code"),
    ("Visual-Studio-Code", "Visual Studio Code"),
    ("Code - OSS", "Visual Studio Code"),
    ("codex-mcp-client", "Codex"),
    ("Codex", "Codex"),
    ("gemini-cli-mcp-client", "Gemini CLI"),
    ("github-copilot-developer", "Copilot CLI"),
    ("windsurf-client", "Windsurf"),
    ("Windsurf", "Windsurf"),
    ("Cline", "Cline"),
    ("@cline/core", "Cline"),
    ("Zed", "Zed"),
    ("opencode", "opencode"),
    ("goose-cli", "goose"),
    ("goose-desktop", "goose"),
    ("inspector-client", "MCP Inspector"),
    ("mcp", "Python SDK"),
    ("  CLAUDE-CODE ", "Claude Code"),
]

_TIMEOUTS = [
    "Request timed out",
    "McpError: MCP error -32001: Request timed out",  # TypeScript SDK v1, String(reason)
    "Error: MCP error -32001: Request timed out",  # an older one, ezyang/codemcp#263
    "SdkError: Request timed out",  # TypeScript SDK v2
    "Maximum total timeout exceeded",  # TypeScript SDK, maxTotalTimeout
    "request timeout",  # rmcp, RequestHandle::REQUEST_TIMEOUT_REASON
    "maximum total timeout exceeded",  # rmcp, REQUEST_MAX_TOTAL_TIMEOUT_REASON
    "timed out",  # goose
    "timed out after 30.0s",  # Python SDK 2
    "timed out after 60000ms",
    "TimeoutError: The operation was aborted due to timeout",  # AbortSignal.timeout() in Node
    "TimeoutError: signal timed out",  # AbortSignal.timeout() in Chrome
    "TimeoutError: The operation timed out.",  # AbortSignal.timeout() in Bun
    "ReadTimeout",  # httpx
    "tool call time-out",
    "context deadline exceeded",  # Go
    "deadline has elapsed",  # tokio
    "DEADLINE_EXCEEDED",  # gRPC
    "Context server request timeout",  # Zed's words
    "cancelled by client due to timeout",
]

_OTHERS = [
    "",
    "undefined",  # String(undefined): the TypeScript SDK at an abort without a reason, in old runtimes
    "AbortError: This operation was aborted",  # Node's AbortController.abort()
    "AbortError: signal is aborted without reason",  # Chrome's
    "user cancelled",
    "User canceled the request",
    "User cancelled: did not want to wait for the timeout",
    "cancelled by the user before the timeout",
    "caller cancelled",  # Python SDK 2
    "operation cancelled",  # goose
    "background",
    "interrupt",
    "Client requested cancellation",
    "The user wants to see the timetable outline",
    "no time outside of working hours",
    "deadline moved",
]


@pytest.mark.parametrize(("sent", "product"), _NAMES)
def test_a_host_is_known_by_the_name_that_it_sends(sent: str, product: str) -> None:
    """Each name is one that the host's source or log shows (`source` of its row)."""
    assert host_of(sent).name == product


@pytest.mark.parametrize(
    "sent", ["", "my-agent", "claude", "claude-code-action", "mcp-remote", "*", "[a-z]*"]
)
def test_every_other_name_is_the_unknown_host(sent: str) -> None:
    """A part of a known name, or a pattern, is no known name."""
    assert host_of(sent) is UNKNOWN_HOST


@given(st.text())
def test_no_name_is_refused(sent: str) -> None:
    """A name is whatever a client claims."""
    assert host_of(sent) in {*HOSTS, UNKNOWN_HOST}


def test_each_name_belongs_to_one_host_and_each_host_has_a_source() -> None:
    """A fact without a source is a guess; a name of two hosts would be answered by the first one."""
    names = [name for host in HOSTS for name in host.client_names]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)
    assert all(host.source for host in HOSTS)
    assert [host for host in HOSTS if host_of(host.client_names[0].rstrip("*")) is not host] == []


def test_progress_restarts_the_clock_of_the_hosts_whose_source_says_so() -> None:
    """Codex, goose, Gemini CLI and the Inspector send a token and count on."""
    assert [host.name for host in HOSTS if host.restarts_at_progress] == [
        "Claude Code",
        "Copilot CLI",
        "opencode",
    ]


def test_claude_code_is_woken_by_a_background_command() -> None:
    """Where no way is known, none is named."""
    wake = host_of("claude-code").wake
    assert wake is not None
    assert wake.format(id="p3") == "run `outlive wait p3` as a background Bash command"
    assert [host.name for host in HOSTS if host.wake] == ["Claude Code"]


@pytest.mark.parametrize("reason", _TIMEOUTS)
def test_a_reason_that_names_a_time_out_is_one(reason: str) -> None:
    """In each spelling that a host or a library sends, whatever its case."""
    assert is_timeout_reason(reason)
    assert is_timeout_reason(reason.upper())


@pytest.mark.parametrize("reason", _OTHERS)
def test_any_other_reason_is_no_time_out(reason: str) -> None:
    """A person's cancel ends the process, so it must not be taken for a time-out."""
    assert not is_timeout_reason(reason)


@given(st.text())
def test_a_reason_without_such_words_is_no_time_out(reason: str) -> None:
    """The reason is any text of a client."""
    if not any(word in reason.lower() for word in ("time", "deadline")):
        assert not is_timeout_reason(reason)


@pytest.mark.parametrize(
    "name", ["claude-ai", "codex", "gemini-cli-mcp-client", "github-copilot-developer", "zed"]
)
def test_a_cancel_near_a_hosts_limit_is_the_limits(name: str) -> None:
    """Within the tolerance on both sides, and not beyond it."""
    host = host_of(name)
    assert host.limit_s is not None
    assert names_known_limit(host.limit_s, host)
    assert names_known_limit(host.limit_s - LIMIT_TOLERANCE_S, host)
    assert names_known_limit(host.limit_s + LIMIT_TOLERANCE_S, host)
    assert not names_known_limit(host.limit_s - LIMIT_TOLERANCE_S - 0.1, host)
    assert not names_known_limit(host.limit_s + LIMIT_TOLERANCE_S + 0.1, host)


@pytest.mark.parametrize("name", ["my-agent", "windsurf-client"])
@pytest.mark.parametrize("limit_s", [30.0, 60.0, 240.0, 300.0])
def test_where_no_limit_is_known_the_common_ones_count(name: str, limit_s: float) -> None:
    """For the unknown host, and for a known one whose limit no source says."""
    assert names_known_limit(limit_s + 1.9, host_of(name))
    assert not names_known_limit(limit_s + 2.1, host_of(name))


@given(st.floats(min_value=0, max_value=1e9))
def test_a_host_without_a_clock_reaches_no_limit(elapsed_s: float) -> None:
    """The Python SDK waits for ever unless its program says otherwise."""
    assert not names_known_limit(elapsed_s, host_of("mcp"))


def test_a_known_limit_replaces_the_common_ones() -> None:
    """Claude Desktop gives up after 240 s, so its cancel after 60 s is a person's."""
    assert not names_known_limit(60.0, host_of("claude-ai"))
    assert names_known_limit(60.0, replace(host_of("claude-ai"), limit_s=None))
