"""Where an answer with output begins: the last lines, a position of both streams, a time, a line's number.

Each is found in a thread, on a log of the call's own.
"""

import asyncio
from collections.abc import Callable

from starlette.requests import HTTPConnection

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidRequest
from outlive.engine import Process
from outlive.operations.requests import moment_ns
from outlive.protocols.rest.requests import OutputParameters
from outlive.store.output_log import OutputLog
from outlive.store.search.log_search import LineFinder, tail_start

# of 256 KiB each, in one visit to a thread: some 10 ms; then it is asked whether the caller is still there
_TURNS = 256


async def begin_of(
    process: Process,
    asked: OutputParameters,
    *,
    stream: int | None,
    has_range: bool,
    connection: HTTPConnection,
) -> Cursor:
    """Return the cursor at which what is asked for begins; the beginning if nothing says otherwise.

    Raises:
        InvalidRequest: More than one place is asked for, or one makes no sense.
    """
    places = (asked.cursor, asked.at, asked.since, asked.line, asked.tail)
    if sum(one is not None for one in places) + has_range > 1:
        raise InvalidRequest(
            "invalid_params", "Pass one of cursor, at, since, line, tail and a range (start, end)."
        )
    if asked.tail is not None:
        count = asked.tail
        return await _found(process, lambda log: tail_start(log, count, stream=stream))
    if asked.at is not None:
        position = asked.at
        return await _found(process, lambda log: _behind(log, position))
    if asked.since is not None:
        time_ns = moment_ns("since", asked.since)
        return await _found(process, lambda log: log.cursor_at(time_ns))
    if asked.line is not None:
        return await _line(process, asked.line, connection)
    return start_of(asked.cursor)


def start_of(text: str | None) -> Cursor:
    """Read a cursor; None is the beginning."""
    return BEGINNING if text is None else Cursor.parse(text)


async def _found(process: Process, find: Callable[[OutputLog], Cursor]) -> Cursor:
    def look() -> Cursor:
        log = process.open_log()
        try:
            return find(log)
        finally:
            log.close()

    return await asyncio.to_thread(look)


def _behind(log: OutputLog, count: int) -> Cursor:
    """Return the cursor behind the first `count` bytes of both streams, in the order of writing.

    The end if there are fewer.
    """
    now = log.end
    return log.tail_cursor(max(0, now.stdout + now.stderr - count))


async def _line(process: Process, number: int, connection: HTTPConnection) -> Cursor:
    """Return the cursor before a line, or the end of a log that has fewer.

    About a gigabyte is counted in a second.
    """
    log = process.open_log()
    finding = LineFinder(log, number)

    def visit() -> None:
        for _ in range(_TURNS):
            if finding.is_over:
                return
            finding.turn()

    # The descriptors are closed with the last reference: a cancelled request may leave a visit behind.
    while not finding.is_over and not await _is_gone(connection):
        await asyncio.to_thread(visit)
    return finding.cursor


async def _is_gone(connection: HTTPConnection) -> bool:
    is_disconnected = getattr(connection, "is_disconnected", None)
    return bool(await is_disconnected()) if is_disconnected else False
