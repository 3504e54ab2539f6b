"""What an answer shows of a process: its output up to a limit, the number of redacted secrets in it, and its
times.

Also checks the cursors that callers send (`check_within`). Reads the output log; how an answer is laid out is
each frontend's to decide.
"""

import asyncio
import time
from datetime import datetime

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest
from outlive.core.process import ProcessRecord
from outlive.core.redactions import Redactions
from outlive.core.values import dataclass
from outlive.engine import Process
from outlive.protocols.plain import Clip, join_pieces, shown_ranges

_TURN_BYTES = 256 * 1024  # what the event loop may read in one turn


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOutput:
    """Both streams as text; `redacted`: how many secrets were replaced by stars in them."""

    stdout: str
    stderr: str
    redacted: int


async def shown_output(process: Process, *, limit_bytes: int, more: str = "") -> ShownOutput:
    """Return stdout and stderr up to now, each at most `limit_bytes` and a mark, which says what shows
    `more`.

    Cancellation: safe; nothing is consumed.
    """
    texts = []
    redactions = Redactions()
    for stream in (0, 1):
        size = process.log.size(stream)
        pieces: list[Clip] = []
        for start, end in shown_ranges(size, limit_bytes):
            pieces.append(await _read(process, stream, start, end, redactions))
        named = more if size > limit_bytes else ""  # what the log no longer holds, nothing shows
        texts.append(join_pieces([piece for piece in pieces if piece.data], size, more=named))
    return ShownOutput(stdout=texts[0], stderr=texts[1], redacted=redactions.total)


async def _read(process: Process, stream: int, start: int, end: int, redactions: Redactions) -> Clip:
    """Read [start, end) up to the first byte that the log no longer holds."""
    data = bytearray()
    at = start
    while at < end:
        more, hidden = process.log.look(stream, min(_TURN_BYTES, end - at), at)
        if not more:
            break
        redactions.count(stream, at, at + len(more), hidden)
        data += more
        at += len(more)
        await asyncio.sleep(0)  # bounded work per turn
    return Clip(start, bytes(data))


def local_time(moment: datetime) -> str:
    """Return local time as the documents show it: ISO, naive, microseconds."""
    return moment.astimezone().replace(tzinfo=None).isoformat(timespec="microseconds")


def duration_s(record: ProcessRecord) -> float:
    """Return how long a process ran, or has been running."""
    begin = (record.started_at or record.created_at).timestamp()
    end = time.time() if record.ended_at is None else record.ended_at.timestamp()
    return max(0.0, end - begin)


def check_within(process: Process, cursor: Cursor) -> None:
    """Refuse a cursor behind the end of the output.

    Raises:
        InvalidRequest: `invalid_cursor`; the details name the end.
    """
    ends = (
        max(process.status.stdout_bytes, process.log.size(0)),
        max(process.status.stderr_bytes, process.log.size(1)),
    )
    if cursor.stdout > ends[0] or cursor.stderr > ends[1]:
        text = f"The cursor {cursor} lies behind the end of the output."
        raise InvalidRequest("invalid_cursor", text, details={"end": f"{ends[0]}.{ends[1]}"})
