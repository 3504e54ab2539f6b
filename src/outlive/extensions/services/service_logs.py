"""`outlive logs` without an id where a project has services: the output of all of them, each line with its
service's name.
"""

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime

from outlive.cli.far import far_url
from outlive.cli.logs.log_follow import fetched, losses_of
from outlive.cli.logs.log_view import CUT, LogShower, LogView, joined
from outlive.cli.moments import parse_since
from outlive.cli.parameters import UsageError
from outlive.client import Client, Cursor, OutliveError, StackInfo
from outlive.core.layout import Layout
from outlive.extensions.services.output_follow import ServiceFollow
from outlive.extensions.services.printer import ServicePrinter
from outlive.extensions.services.settlement import until_settled
from outlive.store.end_sentences import loss_sentence
from outlive.store.search.log_lines import LogLine

_DRAIN_S = 5.0
_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_NOTHING = 1  # as grep(1)
_STREAMS = ("stdout", "stderr")


def show_services(client: Client, layout: Layout, stack: StackInfo, view: LogView) -> int:
    """Print the output of every service's newest process.

    With `follow` what comes, across restarts, until nothing runs.

    Returns:
        0; 1 when a text was looked for and not found, 3 when not all of a log is there, 130 after Ctrl-C.
    """
    _check(view)
    printer = ServicePrinter(
        (one.name for one in stack.services),
        streams=_STREAMS if view.stream == "both" else (view.stream,),
        text=view.grep if view.follow else None,  # what is there already was searched
        ignore_case=view.ignore_case,
    )
    if view.follow:
        code = _follow(client, layout, stack, view, printer)
    else:
        is_cut = False
        for one in stack.services:
            if one.process_id is not None:
                is_cut |= _show(client, layout, one.process_id, view, _NamedPrinter(printer, one.name))
            printer.finish(one.name)
        code = CUT if is_cut else 0
    return code or (_NOTHING if view.grep is not None and not printer.has_printed else 0)


def _check(view: LogView) -> None:
    """Let a view pass that all services can have.

    Raises:
        UsageError: It is one of one process.
    """
    if view.unfiltered or view.as_json or view.raw:
        raise UsageError("--unfiltered, --json and --raw are for one process: name it")
    if view.since is not None and isinstance(parse_since(view.since, datetime.now().astimezone()), Cursor):
        raise UsageError("--since with a cursor is for one process: name it, or pass a moment")
    if view.follow and view.context:
        raise UsageError("--context is for what is there already: leave out --follow, or name one process")


class _NamedPrinter:
    """Prints one log's pieces as lines of a service. A `Printer`."""

    def __init__(self, printer: ServicePrinter, name: str) -> None:
        self._printer = printer
        self._name = name

    def data(self, stream: int, data: bytes, end: int, *, redacted: int = 0) -> None:  # noqa: ARG002 -- the protocol's
        self._printer.feed(self._name, _STREAMS[stream], data)

    def gap(self, stream: int, start: int, end: int) -> None:
        self._printer.gap(self._name, _STREAMS[stream], end - start)

    def lost(self, lost_bytes: int | None) -> None:
        self._printer.lack(self._name, loss_sentence(lost_bytes))

    def lines(self, lines: Sequence[LogLine]) -> None:
        for stream, data, end in joined(lines):
            self.data(stream, data, end)


@contextlib.contextmanager
def _shower(
    client: Client, layout: Layout, process_id: str, view: LogView, printer: _NamedPrinter
) -> Iterator[LogShower]:
    """Yield what shows a log, of another server its copy."""
    if far_url() is None:
        yield LogShower(layout, process_id, view, printer=printer)
        return
    with fetched(client.get(process_id), raw=False) as (copy, _):
        yield LogShower(copy, process_id, view, is_hidden=True, printer=printer)


def _show(client: Client, layout: Layout, process_id: str, view: LogView, printer: _NamedPrinter) -> bool:
    """Show a log; return whether a part of it is not there."""
    with _shower(client, layout, process_id, view, printer) as shower:
        shower.show(losses=None if far_url() is None else losses_of(client.get(process_id)))
        return shower.is_cut


def _follow(client: Client, layout: Layout, stack: StackInfo, view: LogView, printer: ServicePrinter) -> int:
    names = frozenset(one.name for one in stack.services)

    def start(process_id: str) -> Cursor:
        with _shower(client, layout, process_id, view, _NamedPrinter(printer, "")) as shower:
            return shower.cursor

    follow = ServiceFollow(client, stack.folder, printer, names=names, says_states=False)
    follow.begin(stack)
    follow.take(stack, start=start)
    try:
        while not until_settled(stack, names, over=True):
            match follow.news.get():
                case OutliveError() as error:
                    raise error
                case StackInfo() as stack:
                    follow.take(stack)
                case _:
                    raise AssertionError("no signal is turned into news here")
    except KeyboardInterrupt:
        return _INTERRUPTED
    follow.join(_DRAIN_S)
    return CUT if printer.is_cut else 0
