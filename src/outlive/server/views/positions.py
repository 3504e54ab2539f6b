"""Cursors that callers send: `check_within`."""

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest
from outlive.engine import Process


def check_within(process: Process, cursor: Cursor) -> None:
    """Refuse a cursor behind the end of the output.

    Raises:
        InvalidRequest: `invalid_cursor`; the details name the end.
    """
    ends = (max(process.stdout_bytes, process.log.size(0)), max(process.stderr_bytes, process.log.size(1)))
    if cursor.stdout > ends[0] or cursor.stderr > ends[1]:
        text = f"The cursor {cursor} lies behind the end of the output."
        raise InvalidRequest("invalid_cursor", text, details={"end": f"{ends[0]}.{ends[1]}"})
