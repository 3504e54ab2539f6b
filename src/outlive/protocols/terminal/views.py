"""Terminals as members of a JSON object, the same at every door (promise S3.6). Pure."""

from outlive.core.redactions import redacted_member
from outlive.core.terminal import Executed, TerminalInfo, TerminalText

# Spelled out: what a class gets for our own use is not told by itself.
_TERMINAL = ("terminal_id", "terminal_name", "target", "state", "process_id", "cwd")
_EXECUTED = ("terminal_id", "output", "exit_code", "cursor", "is_complete", "waiting", "is_closed")
_TEXT = ("terminal_id", "text", "form", "cursor", "state", "waiting", "exit_code", "has_more", "has_gap")


def terminal_view(info: TerminalInfo) -> dict[str, object]:
    """Return what is told of a terminal."""
    return {name: getattr(info, name) for name in _TERMINAL}


def executed_view(executed: Executed) -> dict[str, object]:
    """Return what a command gave."""
    return {name: getattr(executed, name) for name in _EXECUTED} | redacted_member(executed.redacted)


def text_view(text: TerminalText) -> dict[str, object]:
    """Return what was read."""
    return {name: getattr(text, name) for name in _TEXT} | redacted_member(text.redacted)
