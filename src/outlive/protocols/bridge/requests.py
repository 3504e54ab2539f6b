"""What is sent to an extension: the four requests of the document, and what only our own extension is told.

Every function returns the UTF-8 bytes of one message. `request_id` is unique for ever; answers repeat it.
"""

from collections.abc import Sequence

import msgspec

from outlive.core.terminal import TerminalInfo

_ENCODER = msgspec.json.Encoder()
_Value = str | list[dict[str, str]]


def ping(request_id: str) -> bytes:
    """Ask whether somebody is there."""
    return _ENCODER.encode({"type": "ping", "id": request_id})


def create_terminal(request_id: str, name: str) -> bytes:
    """Ask for a new terminal of this name."""
    return _message("create_terminal", request_id, terminalName=name)


def execute(request_id: str, terminal_id: str, command: str) -> bytes:
    """Ask for a command to be typed; always into a terminal that the extension itself has named (promise S3.5)."""
    return _message("execute", request_id, command=command, terminalId=terminal_id)


def close_terminal(request_id: str, terminal_id: str) -> bytes:
    """Ask for a terminal to be closed."""
    return _message("close_terminal", request_id, terminalId=terminal_id)


def show_terminal(request_id: str, terminal: TerminalInfo) -> bytes:
    """Tell our own extension to show a terminal of the engine's."""
    return _message("show_terminal", request_id, **_seen(terminal))


def terminals(request_id: str, known: Sequence[TerminalInfo]) -> bytes:
    """Tell our own extension which terminals of the engine's it may show."""
    return _message("terminals", request_id, terminals=[_seen(one) for one in known])


def terminal_closed(request_id: str, terminal_id: str) -> bytes:
    """Tell our own extension that a terminal of the engine's has ended."""
    return _message("terminal_closed", request_id, terminalId=terminal_id)


def terminal_created(request_id: str, terminal: TerminalInfo) -> bytes:
    """Answer our own extension, which has asked for a terminal of the engine's under this id."""
    return _message("terminal_created", request_id, **_seen(terminal))


def failed(request_id: str, error: str, *, code: str, hint: str) -> bytes:
    """Answer our own extension that it could not be done."""
    return _message("error", request_id, error=error, code=code, hint=hint)


def _seen(terminal: TerminalInfo) -> dict[str, str]:
    """Return how a terminal of the engine's is told: `path` is where its bytes come from, on this server."""
    return {
        "terminalId": terminal.terminal_id,
        "terminalName": terminal.terminal_name,
        "path": f"/ws/terminal/{terminal.terminal_id}",  # a process id: nothing to quote
    }


def _message(kind: str, request_id: str, **members: _Value) -> bytes:
    return _ENCODER.encode({"type": kind, "id": request_id, "data": members})
