"""Processes, output and matches as /v1 shows them."""

from outlive.core.process import ProcessRecord
from outlive.core.status import status_of
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.views import process_view as jsonrpc_view

_NOT_SHOWN = ("pgid", "session_id")  # words of the JSON-RPC door


def process_view(record: ProcessRecord) -> dict[str, object]:
    """Return everything a caller may know of a process; its members mean what they mean in JSON-RPC's `get`."""
    view = jsonrpc_view(record)
    for name in _NOT_SHOWN:
        del view[name]
    view["status"] = status_of(record)
    return view


def match_view(
    stream: int, offset: int, end: int, line: bytes, before: tuple[bytes, ...], after: tuple[bytes, ...]
) -> dict[str, object]:
    """Return a line that contains what was looked for."""
    return {
        "type": STREAM_NAMES[stream],
        "offset": offset,
        "end": end,
        "line": _text(line),
        "truncated": len(line) < end - offset,
        "before": [_text(one) for one in before],
        "after": [_text(one) for one in after],
    }


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
