"""`outlive search`: a text or a regular expression in the output of all processes, newest first, each match
with what its process is called.

The server searches (`engine.output_search`) and answers in slices: a match is shown when it is found, and
Ctrl-C ends the search there, too.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from outlive.cli.output import say, show, show_json, tell_hidden
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
from outlive.cli.processes import connected, find_process, parse_tags, seen
from outlive.cli.progress import progress
from outlive.cli.tables import shown_size
from outlive.client import Client, FoundLine, FoundLines
from outlive.core.identity import short_name
from outlive.kernel.project import own_project

_NOTHING = 1  # as grep(1)
_AT_ONCE = 200  # matches in one answer of the server
_LINE = 2000  # characters of a match


@takes(
    place("text", "TEXT", about="What the lines contain; no pattern."),
    OPTIONAL_NAMES,
    switch("--regex", "-E", about="TEXT is a regular expression (RE2)."),
    switch("--ignore-case", "-i", about="Letters in either case."),
    count("--context", "-C", metavar="LINES", about="Lines around each match.", least=0, most=100, default=0),
    count("--limit", "-n", metavar="COUNT", about="At most so many lines of each process.", least=1),
    switch("--project", about="Only this folder's project.", to="is_own_project"),
    GROUP,
    TAGS,
    *SERVER,
    more="outlive search 'connection refused'     outlive search -iE 'error|panic' web db",
)
def search(
    *,
    text: str,
    names: list[str],
    regex: bool,
    ignore_case: bool,
    context: int,
    limit: int | None,
    is_own_project: bool,
    group: str | None,
    tags: list[str],
    server: ServerFlags,
) -> int:
    """Print the lines that match in the output of all processes, the newest first.

    Return 1 when there are none.
    """
    project = own_project()
    found = hidden = searched = left = 0
    with (
        connected(server) as client,
        progress("searching") as one_more,
        _tells_how_far(lambda: (searched, left)),
    ):
        wanted: Sequence[str | None] = [find_process(client, name).process_id for name in names] or [None]
        for process_id in wanted:
            for answer in _answers(
                client,
                text,
                regex=regex,
                ignore_case=ignore_case,
                context=context,
                process_id=process_id,
                project=project if is_own_project else None,
                group=group,
                tags=parse_tags(tags) or None,
                each=limit,
            ):
                # Before its lines are shown: what was looked for may be among them, and the search is stopped
                # just then.
                searched, left = searched + answer.searched_bytes, answer.left_bytes
                for line in answer.matches:
                    if server.as_json:
                        _show_json(line)
                    else:
                        _show(line, _label(line, project), is_first=not found, has_context=context > 0)
                    found, hidden = found + 1, hidden + line.redacted
                for _ in range(answer.processes):
                    one_more()
    tell_hidden(hidden, by=None)
    return 0 if found else _NOTHING


@contextmanager
def _tells_how_far(looked: Callable[[], tuple[int, int]]) -> Iterator[None]:
    """Say how much was searched and how much was left when a person stops the search: what was not found may
    be in the rest.
    """
    try:
        yield
    except KeyboardInterrupt:
        searched, left = looked()
        if left:
            say(
                f"outlive: stopped after {shown_size(searched)} of {shown_size(searched + left)}, the "
                "newest output first"
            )
        raise


def _answers(client: Client, text: str, **wanted: object) -> Iterator[FoundLines]:
    """Yield the answers of one search to its end."""
    cursor: str | None = None
    while True:
        found = client.outputs.search(text, limit=_AT_ONCE, cursor=cursor, **wanted)  # type: ignore[arg-type]  # as `search` names them
        yield found
        if found.next is None:
            return
        cursor = found.next


def _label(line: FoundLine, project: str | None) -> str:
    short = line.short_id if line.project == project else None
    return line.name or short or short_name(line.process_id)


def _show(line: FoundLine, label: str, *, is_first: bool, has_context: bool) -> None:
    if has_context and not is_first:
        show("--")
    for one in line.before:
        show(f"{label}- {seen(one, _LINE)}")
    show(f"{label}: {seen(line.line, _LINE)}")
    for one in line.after:
        show(f"{label}- {seen(one, _LINE)}")


def _show_json(line: FoundLine) -> None:
    around = {"before": line.before, "after": line.after} if line.before or line.after else {}
    show_json(
        {
            "process_id": line.process_id,
            "type": line.stream,
            "offset": line.offset,
            "end": line.end,
            "hit": line.hit,
            "hit_end": line.hit_end,
            "at": line.at,
            "line": line.line,
            **around,
        }
    )
