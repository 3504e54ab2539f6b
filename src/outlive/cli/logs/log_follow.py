"""`outlive logs --follow`: what comes, to the end of the process, across killed servers."""

from collections.abc import Callable

from outlive.cli.logs.log_view import LogShower
from outlive.client import Gap, Output, Process

Keep = Callable[[Output | Gap], None]


def _kept_already(_item: Output | Gap) -> None:
    """Leave it to the server, whose log it is."""


def follow(shower: LogShower, process: Process, *, keep: Keep = _kept_already) -> int:
    """Print what is there and what comes; return 1 when a text was looked for and not found.

    `keep` takes each piece that comes, before the log is read for it.
    """
    if shower.view.grep is not None:
        return _follow_matches(shower, process, shower.view.grep, keep)
    with process.follow(shower.cursor, raw=shower.view.raw) as items:
        for item in items:
            number = 0 if item.stream == "stdout" else 1
            if number not in shower.streams:
                continue
            if isinstance(item, Output):
                end = item.cursor.stderr if number else item.cursor.stdout
                shower.printer.data(number, item.data, end, redacted=item.redacted)
                shower.redacted += item.redacted
            else:
                shower.printer.gap(number, item.start, item.end)
    shower.tell_hidden()
    return 0


def _follow_matches(shower: LogShower, process: Process, text: str, keep: Keep) -> int:
    """Search on whenever the server tells that there is more: the lines come from the log all the same."""
    search = shower.search(text)
    found = shower.show_matches(search)
    with process.follow(search.cursor) as items:
        for item in items:
            keep(item)
            found = shower.show_matches(search) or found
    found = shower.show_matches(search) or found
    found = shower.show_last(search) or found
    shower.tell_hidden()
    return 0 if found else 1
