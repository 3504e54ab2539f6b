"""`outlive logs --follow`: what comes, to the end of the process, across killed servers.

The log of a process on another server, fetched into a folder of ours that is gone afterwards: `fetched`.

So a log is shown, searched and counted by one code, wherever it lies. Times are those of the fetching.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator

from outlive.cli.logs.log_view import LogShower
from outlive.client import Gap, Output, Process
from outlive.core.layout import Layout
from outlive.kernel.calls import punch_hole
from outlive.store.process_folder import ProcessFolder

Keep = Callable[[Output | Gap], None]


def follow(shower: LogShower, process: Process, *, keep: Keep = lambda _item: None) -> int:
    """Print what is there and what comes; return 1 when a text was looked for and not found, 3 when not all
    of it is there.

    `keep` takes each piece that comes, before the log is read for it; by default the server has done so,
    whose log it is.
    """
    if shower.view.grep is not None:
        return _follow_matches(shower, process, shower.view.grep, keep)
    if shower.view.timestamps:  # the log alone knows them
        cursor = shower.show_from(shower.cursor)
        with process.follow(cursor) as items:
            for item in items:
                keep(item)
                cursor = shower.show_from(cursor)
        shower.show_from(cursor)
        return _outcome(shower, process, is_found=True)
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
    return _outcome(shower, process, is_found=True)


def _outcome(shower: LogShower, process: Process, *, is_found: bool) -> int:
    return shower.outcome(is_found=is_found, losses=losses_of(process))


def losses_of(process: Process) -> list[int | None]:
    """Return how many bytes of a process's output are lost, if any are (see `LogShower.outcome`)."""
    info = process.info()
    return [info.lost_bytes] if info.output_lost else []


def _follow_matches(shower: LogShower, process: Process, text: str, keep: Keep) -> int:
    """Search on whenever the server reports that there is more: the lines come from the log all the same."""
    search = shower.search(text)
    found = shower.show_matches(search)
    with process.follow(search.cursor) as items:
        for item in items:
            keep(item)
            found = shower.show_matches(search) or found
    found = shower.show_matches(search) or found
    found = shower.show_last(search) or found
    return _outcome(shower, process, is_found=found)


@contextlib.contextmanager
def fetched(process: Process, *, raw: bool) -> Iterator[tuple[Layout, Keep]]:
    """Yield a layout in which the log of `process` lies as far as it goes now, and what adds to it.

    Raises:
        OutliveError: The server does not answer, or does not show it.
    """
    with tempfile.TemporaryDirectory(prefix="outlive-log-") as root:
        layout = Layout(root)
        folder = layout.process(process.process_id)
        os.makedirs(folder)
        files = ProcessFolder(folder, limit=None, punch=punch_hole)

        def keep(item: Output | Gap) -> None:
            stream = int(item.stream == "stderr")
            end = item.cursor.stderr if stream else item.cursor.stdout
            if isinstance(item, Output):
                files.append(stream, item.data, end)
            else:
                files.skip(stream, item.start, item.end)

        try:
            while True:
                page = process.read(files.cursor, raw=raw)
                for item in page.items:
                    keep(item)
                if not page.items or not page.has_more:
                    break
            yield layout, keep
        finally:
            files.close()
