"""`outlive search`: a text in the output of all processes, newest first, each match with what its process is called.

Reads the logs of this machine's state folder one after the other, in pieces: nothing is held in memory, and a match is shown when it is found.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator

from outlive.cli.far import far_url
from outlive.cli.logs.log_follow import fetched
from outlive.cli.logs.log_view import LogShower, LogView
from outlive.cli.output import plain, progress, show, show_json, tell_hidden
from outlive.cli.parameters import (
    GROUP,
    OPTIONAL_NAMES,
    SERVER,
    TAGS,
    ServerFlags,
    count,
    place,
    switch,
    takes,
)
from outlive.cli.processes import connected, every, find_process, parse_tags
from outlive.client import Client, ProcessInfo, ProcessNotFound
from outlive.core.identity import short_name
from outlive.core.layout import Layout
from outlive.discovery.project import own_project
from outlive.discovery.state_folder import layout_of
from outlive.store.log_search import LogLine

_NOTHING = 1  # as grep(1)
_TURN = 1000  # matches that are found before they are shown
_LINE = 2000  # characters of a match


@takes(
    place("text", "TEXT", about="What the lines contain; no pattern."),
    OPTIONAL_NAMES,
    switch("--ignore-case", "-i", about="Letters in either case."),
    count("--limit", "-n", metavar="COUNT", about="At most so many lines of each process.", least=1),
    switch("--project", about="Only this folder's project.", to="is_own_project"),
    GROUP,
    TAGS,
    *SERVER,
    more="outlive search 'connection refused'     outlive search -i error web db",
)
def search(
    *,
    text: str,
    names: list[str],
    ignore_case: bool,
    limit: int | None,
    is_own_project: bool,
    group: str | None,
    tags: list[str],
    server: ServerFlags,
) -> int:
    """Print the lines that contain a text; return 1 when there are none."""
    layout, project = layout_of(server.state_dir), own_project()
    view = LogView(grep=text, ignore_case=ignore_case)
    is_found, hidden = False, 0
    with connected(server) as client:
        wanted: Iterable[ProcessInfo] = (
            [find_process(client, name).info() for name in names]
            if names
            else _all(client, group=group, tags=tags, project=project if is_own_project else None)
        )
        with progress("searching", len(names) or None) as one_more:
            for info in wanted:
                label = (
                    info.name
                    or (info.short_id if info.project == project else None)
                    or short_name(info.process_id)
                )
                for line in _found(client, layout, info, view, limit):
                    is_found, hidden = True, hidden + line.redacted
                    _show(info, label, line, as_json=server.as_json)
                one_more()
    tell_hidden(hidden, by=None)
    return 0 if is_found else _NOTHING


def _all(client: Client, *, group: str | None, tags: list[str], project: str | None) -> Iterator[ProcessInfo]:
    for info in every(client, active=None, group=group, tags=parse_tags(tags) or None):
        if project is None or info.project == project:
            yield info


def _found(
    client: Client, layout: Layout, info: ProcessInfo, view: LogView, limit: int | None
) -> Iterator[LogLine]:
    """Yield the matching lines of a process; of another server's its output is fetched for that, one after the other."""
    if far_url() is None:
        yield from _matches(layout, info, view, limit)
        return
    with contextlib.suppress(ProcessNotFound), fetched(client.get(info.process_id), raw=False) as (copy, _):
        yield from _matches(copy, info, view, limit, is_hidden=True)


def _matches(
    layout: Layout, info: ProcessInfo, view: LogView, limit: int | None, *, is_hidden: bool = False
) -> Iterator[LogLine]:
    """Yield the matching lines of a process, in the order of writing; of one that was removed meanwhile none."""
    if not os.path.isdir(layout.process(info.process_id)):
        return
    looking = LogShower(layout, info.process_id, view, is_hidden=is_hidden).search(view.grep or "")
    left = limit
    while left is None or left > 0:
        found = looking.turn(_TURN if left is None else min(left, _TURN))
        if looking.is_over:
            found += looking.last()
        yield from found if left is None else found[:left]
        left = None if left is None else left - len(found)
        if looking.is_over:
            return


def _show(info: ProcessInfo, label: str, line: LogLine, *, as_json: bool) -> None:
    text = line.data.decode("utf-8", "replace")
    if as_json:
        stream = ("stdout", "stderr")[line.stream]
        show_json(
            {
                "process_id": info.process_id,
                "type": stream,
                "offset": line.offset,
                "end": line.end,
                "line": text,
            }
        )
    else:
        # What another program wrote must not be obeyed by this terminal: the lines of many come together here.
        show(f"{label}: {plain(text, _LINE)}")
