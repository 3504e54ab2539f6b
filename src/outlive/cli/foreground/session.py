"""One command in the foreground, from the moment it runs to its end: `ForegroundSession`.

When a command is ready: its output contains a text, or something of it listens on a port. `Readiness`.
"""

import contextlib
import os
import signal
from collections.abc import Callable

from outlive.cli.foreground.delivery import Delivery
from outlive.cli.foreground.keyboard import DetachKeys, Keyboard
from outlive.cli.foreground.signals import (
    ENDING,
    OURS_FAILED,
    Received,
    Suspension,
    die_here,
    die_of,
    exit_as,
)
from outlive.cli.foreground.terminal import OwnTerminal, Screen
from outlive.cli.output import say
from outlive.client import (
    BEGINNING,
    Completion,
    Cursor,
    Gap,
    InvalidRequest,
    InvalidState,
    OutliveError,
    Output,
    Process,
    ProcessInfo,
)
from outlive.client.results import Stream
from outlive.core.layout import Layout

_TYPED = frozenset({signal.SIGINT, signal.SIGQUIT})  # what keys make


def own_terminal(descriptor: int = 0) -> OwnTerminal | None:
    """Return the terminal at a descriptor, None where there is none."""
    return OwnTerminal(descriptor) if os.isatty(descriptor) else None


class ForegroundSession:
    """Joins a process to our terminal, descriptors and signals.

    `run` follows it to the end in this thread; keys and signals are passed on by threads of their own.
    """

    def __init__(
        self,
        process: Process,
        delivery: Delivery,
        *,
        terminal: OwnTerminal | None,
        has_terminal: bool,
        keys: DetachKeys,
        types: bool,
        is_viewer: bool = False,
        is_elsewhere: bool = False,
        shows_raw: bool | None = None,
        ended: Callable[[Cursor], None] = lambda _cursor: None,
    ) -> None:
        """Prepare.

        Args:
            process: What is in the foreground.
            delivery: Where its output goes.
            terminal: Ours, if what is typed there is for the command.
            has_terminal: Whether the command has a terminal of its own.
            keys: What leaves it running.
            types: Whether keys are passed on.
            ended: Called with the cursor at which the output ends, once all of it was delivered.
            is_elsewhere: Whether it runs on another machine: its pid says nothing here.
            shows_raw: Whether secrets are shown; None: where the server lets us see them.
            is_viewer: Whether it runs without us as well: a signal that is to end us is for us alone, then.
        """
        self._process = process
        self._delivery = delivery
        self._terminal = terminal
        self._has_terminal = has_terminal
        self._is_viewer = is_viewer
        self._had_terminal = _has_terminal()
        self._ended = ended
        self._shows_raw = shows_raw
        self._screen = Screen(delivery.show) if has_terminal else None
        self._suspension = Suspension(process, terminal if has_terminal else None, is_elsewhere=is_elsewhere)
        self._keyboard = None
        if terminal is not None and types:
            self._keyboard = Keyboard(
                process=process,
                terminal=terminal,
                descriptor=0,
                pid=None if is_elsewhere else process.pid,
                screen=self._screen,
                suspension=self._suspension,
                detach=self.leave,
                keys=keys,
            )

    def begin(self) -> None:
        """Pass on keys from now on."""
        if self._keyboard is not None:
            self._keyboard.begin()

    def run(
        self, cursor: Cursor = BEGINNING, *, seen: Callable[[Output | Gap], None] | None = None
    ) -> tuple[int, int]:
        """Follow the command to its end; return (exit code, signal to die of or 0).

        Raises:
            OutliveError: It cannot be followed any more; it goes on.
        """
        try:
            completion = self._follow(cursor, seen)
        except BaseException:
            self._delivery.leave_terminal()
            raise
        finally:
            self.restore()
            self._delivery.tell_hidden()
        return (OURS_FAILED, 0) if self._delivery.has_failed else exit_as(self._process, completion)

    @property
    def rows(self) -> int | None:
        """How many rows our terminal has, None without one."""
        return None if self._terminal is None else self._terminal.size[0]

    def redraw(self) -> None:
        """Have a program draw its screen anew: what was drawn before we came is not there."""
        if self._terminal is not None:
            rows, columns = self._terminal.size
            with contextlib.suppress(OutliveError):
                self._process.resize(max(1, rows - 1), columns)
                self._process.resize(rows, columns)

    def restore(self) -> None:
        """Put our terminal back for good."""
        if self._terminal is not None:
            self._terminal.restore(for_good=True)

    def leave(self) -> None:
        """End this program and leave the command running; for any thread."""
        self._delivery.leave_terminal()
        self.restore()
        self._delivery.tell_hidden()
        process_id = self._process.process_id
        say("", f"outlive: {process_id} goes on; `outlive attach {process_id[-6:]}` comes back to it.")
        self._delivery.unbind()
        os._exit(0)

    def _follow(self, cursor: Cursor, seen: Callable[[Output | Gap], None] | None) -> Completion:
        with self._process.follow(cursor, raw=self._shows_raw) as items:
            for item in items:
                self._delivery.take(item, self._screen)
                if seen is not None:
                    seen(item)
            if items.completion is None:
                raise AssertionError("a follow ends with a completion")
            self._ended(items.cursor)
            return items.completion

    def heed(self, received: Received) -> None:
        """Pass a signal on; for the signals' thread."""
        number = received.number
        if self._is_viewer and not (received.by_kernel and number in _TYPED) and number in ENDING:
            self.obey(received)
        match number:
            case signal.SIGWINCH:
                if self._terminal is not None and self._screen is not None:
                    with contextlib.suppress(OutliveError):
                        self._process.resize(*self._terminal.size)
            case signal.SIGTSTP:
                self._suspension.suspend(whole_group=False)
            case signal.SIGCONT if self._terminal is not None and self._screen is not None:
                if self._terminal.is_raw and self._terminal.is_ours:
                    self._terminal.make_raw()  # another program may have set it meanwhile
            case _:
                with contextlib.suppress(OutliveError):  # it has ended
                    self._send(number, by_terminal=received.by_kernel or self._is_hang_up(number))

    def obey(self, received: Received) -> None:
        """Do as a signal usually does, our terminal put back before an end; for the signals' thread."""
        if received.number in ENDING:
            self._delivery.leave_terminal()
            self.restore()
        die_here(received.number)

    def _send(self, number: int, *, by_terminal: bool) -> None:
        # What ends programs and was sent to us, or to our group as hosts do at a timeout, is for all that the
        # command has started: without job control a shell has its background jobs in that group, too.
        is_for_all = number in ENDING and not by_terminal
        try:
            self._process.signal(number, whole_tree=is_for_all, whole_group=by_terminal)
        except InvalidState as error:
            if error.code == "process_queued" and number in ENDING:
                self._process.cancel(0.0)

    def _is_hang_up(self, number: int) -> bool:
        """Tell whether a SIGHUP means that our terminal is gone: a shell passes it on, and any process may
        send it.
        """
        return number == signal.SIGHUP and self._had_terminal and not _has_terminal()


def look_on(
    process: Process,
    info: ProcessInfo,
    layout: Layout,
    *,
    terminal: OwnTerminal | None,
    keys: DetachKeys,
    types: bool,
    is_elsewhere: bool,
) -> ForegroundSession:
    """Return a session that shows a process that others may look at, too, and acts on it only as a viewer
    does.

    A signal that is to end us ends us alone; only Ctrl-C at our terminal is meant for the command.
    """
    # Start-up time: the audit log's parts are for those that look on.
    from outlive.cli.operator.audit import may_show_raw  # noqa: PLC0415

    return ForegroundSession(
        process,
        Delivery(process, releases=False, gone=_gone),
        terminal=terminal,
        has_terminal=info.stdio == "pty",
        keys=keys,
        types=types,
        is_viewer=True,
        is_elsewhere=is_elsewhere,
        shows_raw=None if may_show_raw(layout) else False,
    )


def _gone(_stream: Stream) -> None:
    die_of(signal.SIGPIPE)  # the reader of our output has left: the command does not notice


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


_LOOK_S = 0.1
_MAX_PORT = 65535


class Readiness:
    """What is waited for: ":8080" is a port, anything else a text of one of its streams, wherever reads cut
    it.
    """

    def __init__(self, wanted: str) -> None:
        """Read what is wanted.

        Raises:
            InvalidRequest: It is empty, or no port.
        """
        self.wanted = wanted
        self.port: int | None = None
        self._text = wanted.encode("utf-8", "surrogateescape")
        self._tails = {"stdout": b"", "stderr": b""}
        if wanted.startswith(":") and wanted[1:].isascii() and wanted[1:].isdigit():
            self.port = int(wanted[1:])
        if not wanted or (self.port is not None and not 0 < self.port <= _MAX_PORT):
            raise InvalidRequest("invalid_params", f"--wait-for {wanted!r}: pass a text, or a port as :8080.")

    def is_in(self, item: Output | Gap) -> bool:
        """Tell whether the text is complete with this item."""
        if isinstance(item, Gap) or self.port is not None:
            return False
        seen = self._tails[item.stream] + item.data
        self._tails[item.stream] = seen[max(0, len(seen) - len(self._text) + 1) :]
        return self._text in seen

    def watch_port(self, process: Process, ready: Callable[[], None]) -> None:
        """Call `ready` once it listens on the port; return then, or when it has ended."""
        while self.port not in process.ports():
            if process.wait(_LOOK_S).is_complete:
                return
        ready()

    def wait(self, process: Process) -> Completion | None:
        """Return None once the process is ready, or how it has ended before that."""
        if self.port is not None:
            found: list[None] = []
            self.watch_port(process, lambda: found.append(None))
            if found:
                return None
            info = process.info()
            return Completion(
                exit_code=info.exit_code,
                exit_signal=info.exit_signal,
                error=info.error,
                cursor=info.cursor,
                output_lost=info.output_lost,
            )
        with process.follow() as items:
            for item in items:
                if self.is_in(item):
                    return None
            return items.completion
