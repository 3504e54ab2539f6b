"""The output of all services of a project on one terminal, each line with its service's name before it, in a
colour of its own: `outlive logs` without an id, and what `outlive up` shows.

`ServiceFollow` follows across restarts: a thread waits for news of the services, and each process that runs
has one that follows its output. The main thread takes everything from one queue, so that a signal finds it at
rest.
"""

import contextlib
import os
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from outlive.cli.far import far_url
from outlive.cli.logs.log_follow import fetched, losses_of
from outlive.cli.logs.log_view import CUT, LogShower, LogView, joined
from outlive.cli.moments import parse_since
from outlive.cli.output import Painted, Piece, deliver_lines, plain, say
from outlive.cli.parameters import UsageError
from outlive.client import BEGINNING, Client, Cursor, OutliveError, Output, ServiceInfo, StackInfo
from outlive.core.layout import Layout
from outlive.extensions.services.service_words import service_sentence
from outlive.extensions.services.settlement import until_settled
from outlive.store.end_sentences import loss_sentence
from outlive.store.search.log_lines import LogLine

_NEWS_S = 30.0  # of one request for news

News = StackInfo | OutliveError | int  # of the services, of a fault, or the number of a signal


class ServicePrinter:
    """Takes output in pieces and prints whole lines; used by several threads.

    Attributes:
        has_printed: Whether any line was printed.
        is_cut: Whether a part of what was to be printed is not there (any more).
    """

    def __init__(
        self,
        names: Iterable[str],
        *,
        streams: Collection[str] = ("stdout", "stderr"),
        text: str | None = None,
        ignore_case: bool = False,
    ) -> None:
        """Make room for these names.

        Args:
            names: Of all services.
            streams: Whose output is printed.
            text: Only lines that contain it.
            ignore_case: Its ASCII letters stand for both cases.
        """
        self.has_printed = self.is_cut = False
        self._streams = streams
        found = None if text is None else os.fsencode(text)
        self._text = found.lower() if found is not None and ignore_case else found  # of bytes: ASCII alone
        self._ignore_case = ignore_case
        names = [*names]
        self._width = max((len(plain(name)) for name in names), default=0)
        self._colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(names)}
        self._begun: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()

    def feed(self, name: str, stream: str, data: bytes) -> None:
        """Print the lines that are complete with these bytes of one stream of a service."""
        if stream not in self._streams:
            return
        with self._lock:
            lines = (self._begun.pop((name, stream), b"") + data).split(b"\n")
            rest = lines.pop()
            if len(rest) > _MAX_LINE:
                lines.append(rest)
            elif rest:
                self._begun[name, stream] = rest
            if lines:
                self._write(name, lines)

    def finish(self, name: str) -> None:
        """Print what has no newline yet: nothing follows."""
        with self._lock:
            for key in [one for one in self._begun if one[0] == name]:
                self._write(name, [self._begun.pop(key)])

    def gap(self, name: str, stream: str, size: int) -> None:
        """Say that so many bytes of one stream of a service are not kept any more."""
        if stream in self._streams:
            self.lack(name, f"{size} bytes of output are not kept any more")

    def lack(self, name: str, text: str) -> None:
        """Say which part of a service's output is not there."""
        self.is_cut = True
        self.say(name, text)

    def say(self, name: str, text: str) -> None:
        """Print a line about a service on stderr, where no program takes it for output."""
        with self._lock:
            say([*self._prefix(name), f"* {text}"])

    def _write(self, name: str, lines: Iterable[bytes]) -> None:
        lines = [line.rstrip(b"\r") for line in lines]
        if self._text is not None:
            lines = [line for line in lines if self._text in (line.lower() if self._ignore_case else line)]
            if not lines:
                return
        self.has_printed = True
        deliver_lines(self._prefix(name), lines)

    def _prefix(self, name: str) -> Sequence[Piece]:
        words = f"{plain(name).ljust(self._width)} |"
        colour = self._colours.get(name)
        return (words if colour is None else Painted(words, colour), " ")


class ServiceFollow:
    """Follows what runs, and what is started later.

    Attributes:
        news: What the main thread waits for; signals put their number there.
    """

    def __init__(
        self,
        client: Client,
        folder: str,
        printer: ServicePrinter,
        *,
        names: Collection[str],
        says_states: bool,
    ) -> None:
        """Follow these services (none: all) of the project in a folder.

        With `says_states` also what they do.
        """
        self.news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._client = client
        self._folder = folder
        self._printer = printer
        self._names = frozenset(names)
        self._says_states = says_states
        self._followed: dict[str, threading.Thread] = {}
        self._said: dict[str, tuple[str, str | None]] = {}

    def begin(self, stack: StackInfo) -> None:
        """Begin to wait for news after this state."""
        threading.Thread(target=self._watch, args=(stack.revision,), name="services", daemon=True).start()

    def take(self, stack: StackInfo, *, start: Callable[[str], Cursor] = lambda _: BEGINNING) -> None:
        """Follow the processes that are new in this state, each from where `start` says, and say what has
        changed.
        """
        services = {one.name: one for one in stack.services}
        for one in self._chosen(stack):
            if (
                one.process_id is not None
                and one.process_id not in self._followed
                and one.state != "starting"
            ):
                self._follow(one.name, one.process_id, start(one.process_id))
            if self._says_states:
                self._say(one, services)

    def join(self, patience_s: float) -> None:
        """Wait until the output of what has ended is printed."""
        for thread in self._followed.values():
            thread.join(patience_s)

    def _chosen(self, stack: StackInfo) -> list[ServiceInfo]:
        return [one for one in stack.services if not self._names or one.name in self._names]

    def _say(self, one: ServiceInfo, services: Mapping[str, ServiceInfo]) -> None:
        known = (one.state, one.process_id)
        is_passing = one.state in {"starting", "running", "stopping"} or (
            one.state == "waiting" and not one.is_blocked
        )
        if self._said.get(one.name) == known or is_passing:
            return
        was_told = one.name in self._said
        self._said[one.name] = known
        if one.state == "stopped" and not was_told:
            return  # nothing wants it
        if one.state in {"failed", "backing_off", "done", "stopped"} and one.process_id in self._followed:
            # Its last words come before what is said of its end.
            self._followed[one.process_id].join(2.0)
        self._printer.say(one.name, service_sentence(one, services))

    def _watch(self, revision: int) -> None:
        while True:
            try:
                stacks = self._client.services.list(self._folder, revision=revision, wait_s=_NEWS_S)
            except OutliveError as error:
                self.news.put(error)
                return
            for stack in stacks:
                if stack.revision != revision:
                    revision = stack.revision
                    self.news.put(stack)

    def _follow(self, name: str, process_id: str, cursor: Cursor) -> None:
        def follow() -> None:
            # One that was removed meanwhile, or a server that stays away: the news say so.
            with contextlib.suppress(OutliveError), self._client.attach(process_id, cursor) as items:
                for item in items:
                    if isinstance(item, Output):
                        self._printer.feed(name, item.stream, item.data)
                    else:
                        self._printer.gap(name, item.stream, item.end - item.start)
                info = self._client.get(process_id).info()
                if info.output_lost:
                    self._printer.lack(name, loss_sentence(info.lost_bytes))
            self._printer.finish(name)

        thread = threading.Thread(target=follow, name=name, daemon=True)
        self._followed[process_id] = thread
        thread.start()


# ECMA-48: cyan, yellow, green, magenta, blue, then their bright twins. Red stays for errors.
_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")
_MAX_LINE = 64 * 1024  # what has no newline by then is shown as a line


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
