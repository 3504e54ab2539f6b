"""Terminals as members of a JSON object, the same at every door (promise S3.6). Pure."""

from outlive.core.terminal import Executed, TerminalInfo, TerminalText

__all__ = ["executed_view", "terminal_view", "text_view"]


def terminal_view(info: TerminalInfo) -> dict[str, object]:
    """Return what is told of a terminal."""
    return {
        "terminal_id": info.terminal_id,
        "terminal_name": info.terminal_name,
        "target": info.target,
        "state": info.state,
        "process_id": info.process_id,
        "cwd": info.cwd,
    }


def executed_view(executed: Executed) -> dict[str, object]:
    """Return what a command gave."""
    return {
        "terminal_id": executed.terminal_id,
        "output": executed.output,
        "exit_code": executed.exit_code,
        "cursor": executed.cursor,
        "is_complete": executed.is_complete,
        "waiting": executed.waiting,
        "is_closed": executed.is_closed,
    }


def text_view(text: TerminalText) -> dict[str, object]:
    """Return what was read."""
    return {
        "terminal_id": text.terminal_id,
        "text": text.text,
        "form": text.form,
        "cursor": text.cursor,
        "state": text.state,
        "waiting": text.waiting,
        "exit_code": text.exit_code,
        "has_more": text.has_more,
        "has_gap": text.has_gap,
    }
