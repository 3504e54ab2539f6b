"""Reading the audit log without checking it: pages of entries, the newest first, and when no server ran.

Blocking.

Files are read whole, newest first, and searched as bytes: entries are parsed that an answer needs. Of the
usual eight files of 16 MiB that is a tenth of a second at most. Whether the log is genuine says
`audit_trail`.
"""

import contextlib
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from outlive.core.values import dataclass
from outlive.store.audit.audit_chain import read_line

_SUFFIX = ".jsonl"
_STARTED = b'"what":"server_started"'
_STOPPED = b'"what":"server_stopped"'
_AT = b'"at":"'
_BY_COMMAND_LINE = b'"door":"cli"'  # written while no server may run
_SIGN_BYTES = 1 << 18  # 50 lines, also where commands are long
_AWAY_LINES = 50  # of the command line's, which are skipped for the server's last sign


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    """No server ran from one moment to another; `is_exact`: it had said that it ends."""

    since: datetime
    until: datetime
    is_exact: bool


def read_page(
    folder: str,
    *,
    process_id: str | None = None,
    since: str = "",
    until: str = "~",
    before: int | None = None,
    limit: int,
) -> list[dict[str, Any]]:
    """Return at most `limit` entries, newest first.

    Args:
        folder: Where the log's files lie; without one there are no entries.
        process_id: Only about this process.
        since: The first moment, in the form of `at`: such texts sort by time. All but "" and "~" are moments.
        until: The first moment that is too late.
        before: Only entries with a smaller number.
        limit: How many.
    """
    # No text of a caller's holds the mark: a quote in it would be escaped.
    mark = b"" if process_id is None else f'"process_id":"{process_id}"'.encode()
    found: list[dict[str, Any]] = []
    for name in reversed(_files(folder)):
        if before is not None and int(name.removesuffix(_SUFFIX)) >= before:
            continue
        data = _content(folder, name)
        if _moment_of(data[: data.find(b"\n")]) >= until:
            continue
        for line in _lines_backwards(data, mark):
            entry = read_line(line)
            if entry is None or (before is not None and entry["n"] >= before):
                continue
            at = str(entry.get("at", ""))
            if at >= until:
                continue
            if at < since:
                return found
            found.append({key: value for key, value in entry.items() if key not in {"prev", "mac"}})
            if len(found) == limit:
                return found
    return found


def read_outages(folder: str, *, since: datetime, until: datetime) -> list[Away]:
    """Return when no server ran in a span of time, oldest first, as far as the log remembers."""
    found: list[Away] = []
    before = b""  # the end of the file before
    for name in _files(folder):
        data = before + _content(folder, name)
        place = data.find(_STARTED, len(before))
        while place >= 0:
            begin = data.rfind(b"\n", 0, place) + 1
            away = _outage(data, begin, place)
            if away is not None and away.until >= since and away.since < until:
                found.append(away)
            place = data.find(_STARTED, place + 1)
        before = _tail(data)
    return found


def _tail(data: bytes) -> bytes:
    """Return the last lines: as much as is looked through for the server's last sign."""
    begin = max(0, len(data) - _SIGN_BYTES)
    return data[data.find(b"\n", begin) + 1 :] if begin else data


def _outage(data: bytes, begin: int, place: int) -> Away | None:
    """Return the time before the entry that begins at `begin`; None where nothing lies before it."""
    end = data.find(b"\n", place)
    last = b""
    for line in _lines_backwards(data[max(0, begin - _SIGN_BYTES) : begin], b"", most=_AWAY_LINES):
        if _BY_COMMAND_LINE not in line:
            last = line
            break
    since, until = _moment_of(last), _moment_of(data[begin : end if end >= 0 else len(data)])
    if not since or not until:
        return None
    with contextlib.suppress(ValueError):
        return Away(
            since=datetime.fromisoformat(since),
            until=datetime.fromisoformat(until),
            is_exact=_STOPPED in last,
        )
    return None


def _moment_of(line: bytes) -> str:
    """Return an entry's `at`, "" where there is none."""
    place = line.find(_AT)
    return line[place + len(_AT) : line.find(b'"', place + len(_AT))].decode() if place >= 0 else ""


def _lines_backwards(data: bytes, mark: bytes, *, most: int | None = None) -> Iterator[bytes]:
    """Yield whole lines, the last first.

    With a mark those alone that hold it, found without looking at the others.
    """
    end = data.rfind(b"\n") + 1  # what lies behind is torn, or being written
    count = 0
    while end > 0 and count != most:
        if mark:
            place = data.rfind(mark, 0, end)
            if place < 0:
                return
            end = data.find(b"\n", place) + 1
        begin = data.rfind(b"\n", 0, end - 1) + 1
        yield data[begin:end]
        end = begin
        count += 1


def _files(folder: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.endswith(_SUFFIX) and name[: -len(_SUFFIX)].isdecimal())


def _content(folder: str, name: str) -> bytes:
    try:
        with open(f"{folder}/{name}", "rb") as file:
            return file.read()
    except FileNotFoundError:  # the oldest may go meanwhile
        return b""
