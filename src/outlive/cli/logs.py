"""`outlive logs`: the output of a process, from the log itself: whole, the last lines, matching lines, or as it comes.

Reads the files (this machine's user owns them; no server needs to hold them in memory) and asks the server only to
follow. Output is bytes: stdout goes to stdout and stderr to stderr, as the process wrote them.
"""

import os
import sys

from outlive.cli.naming import find_process
from outlive.cli.output import say
from outlive.client import BEGINNING, Client, Completion, Cursor, Gap, Process
from outlive.core.layout import Layout
from outlive.store.log_search import LogLine, LogSearch, tail_start
from outlive.store.output_log import OutputChunk, OutputLog

__all__ = ["show_logs"]

_STREAMS = {"stdout": frozenset({0}), "stderr": frozenset({1}), "both": frozenset({0, 1})}
_READ_BYTES = 256 * 1024
_MATCHES = 1000  # found in one turn before they are printed


def show_logs(
    client: Client,
    layout: Layout,
    name: str,
    *,
    follow: bool,
    since: str | None,
    tail: int | None,
    grep: str | None,
    context: int,
    ignore_case: bool,
    stream: str,
) -> int:
    """Print output; return 1 when a text was looked for and not found.

    Args:
        client: Finds and follows the process.
        layout: Where its log lies.
        name: Which process.
        follow: Go on until its end.
        since: A cursor to begin at.
        tail: Begin with the last so many lines.
        grep: Print only lines that contain this text.
        context: Lines printed around each of them.
        ignore_case: ASCII letters of the text stand for both cases.
        stream: "stdout", "stderr" or "both".
    """
    process = find_process(client, name)
    streams = _STREAMS[stream]
    cursor = BEGINNING if since is None else Cursor.parse(since)
    log = OutputLog(layout.process(process.process_id))
    try:
        if grep is not None:
            search = LogSearch(
                log,
                os.fsencode(grep),
                cursor=cursor,
                streams=streams,
                is_case_sensitive=not ignore_case,
                context=context,
            )
            return _show_matches(search)
        if tail is not None:
            (only,) = streams if len(streams) == 1 else (None,)
            cursor = tail_start(log, tail, stream=only)
        if not follow:
            _show_all(log, cursor, streams)
            return 0
    finally:
        log.close()
    return _follow(process, cursor, streams)


def _show_matches(search: LogSearch) -> int:
    found = False
    while True:
        lines = search.turn(_MATCHES)
        if search.is_over:
            lines += search.last()
        for line in lines:
            _show_line(line)
        found = found or bool(lines)
        if search.is_over:
            return 0 if found else 1


def _show_line(line: LogLine) -> None:
    whole = [*line.before, line.data, *line.after]
    separator = b"--\n" if line.before or line.after else b""
    _write(line.stream, separator + b"".join(one + b"\n" for one in whole))


def _show_all(log: OutputLog, cursor: Cursor, streams: frozenset[int]) -> None:
    while chunks := log.read(cursor, _READ_BYTES):
        for chunk in chunks:
            if chunk.stream not in streams:
                continue
            if chunk.is_gap:
                _tell_gap(chunk.end - chunk.offset)
            else:
                _write(chunk.stream, chunk.data)
        cursor = OutputChunk.after(cursor, chunks)


def _follow(process: Process, cursor: Cursor, streams: frozenset[int]) -> int:
    with process.follow(cursor) as items:
        for item in items:
            if isinstance(item, Completion):
                break
            number = 0 if item.stream == "stdout" else 1
            if number not in streams:
                continue
            if isinstance(item, Gap):
                _tell_gap(item.end - item.start)
            else:
                _write(number, item.data)
    return 0


def _tell_gap(count: int) -> None:
    say(f"outlive: {count} bytes of output are not kept any more")


def _write(stream: int, data: bytes) -> None:
    """Write all of it at once: whoever reads slowly is waited for."""
    descriptor = (sys.stdout, sys.stderr)[stream].fileno()
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
