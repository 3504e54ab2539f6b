"""The audit log, which records each caller's actions: `AuditLog` takes the engine's events, and a thread of
its own writes them.

No caller waits for the disk: an event is queued with its time, and is in the file some milliseconds later,
together with others. The queue is bounded. When it is full, the caller waits a moment; entries that cannot be
made because the disk refuses for longer are counted, and their number is recorded in the audit log and the
server's log.

One call waits: `witness` returns once its entry is in the file, for actions that must not happen without an
entry.

What an entry contains is decided by `audit_entries`; files, their chain and their removal belong to
`store.audit.audit_trail`.
"""

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from outlive.core.errors import BackendUnavailable
from outlive.core.events import AuditEvent, Event
from outlive.observability.audit_entries import Entries, Entry
from outlive.store.audit.audit_trail import AuditTrail

_logger = logging.getLogger(__name__)

_Happened = tuple[int, Event | Entry]  # nanoseconds since 1970, and the event


class _Witness(NamedTuple):
    """A caller that waits until everything queued before it is in the file, or until that has failed."""

    loop: asyncio.AbstractEventLoop
    written: "asyncio.Future[bool]"

    def notify(self, *, is_written: bool) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the caller is gone
            self.loop.call_soon_threadsafe(self._settle, is_written)

    def _settle(self, is_written: bool) -> None:  # noqa: FBT001 -- call_soon_threadsafe passes no keywords
        if not self.written.done():
            self.written.set_result(is_written)


_CAPACITY = 65_536  # some 40 MB of entries at most
# How long a caller waits for room in the queue. A full queue means a disk below 30 MB/s: better late than
# without an entry.
_ROOM_S = 2.0
# Entries are collected for so long: a thread that wakes for each one takes the interpreter lock from the
# event loop.
_COLLECT_S = 0.05
_RETRY_S = 1.0  # after the disk has refused
_WITNESS_S = (
    5.0  # for an entry that has to be in the file first, on a slow disk; no longer than a person would wait
)
_CLOSE_S = 5.0  # for the last entries at the end of the server


class AuditLog:
    """Enters events into an `AuditTrail`. `open` starts its thread, `close` writes the waiting entries.

    `note` is called on the event loop, `enter` from any thread; both only queue, and the thread makes the
    entries.
    """

    def __init__(self, trail: AuditTrail, *, redact: Callable[[str], str], capacity: int = _CAPACITY) -> None:
        """Write to `trail`; `redact` removes secrets from texts."""
        self._trail = trail
        self._entries = Entries(redact=redact)
        self._capacity = capacity
        self._queue: queue.SimpleQueue[_Happened | _Witness | None] = queue.SimpleQueue()
        self._is_refused = False  # whether the disk has refused the last attempt
        self._lost = 0  # entries that could not be queued, and are not recorded yet
        self._thread: threading.Thread | None = None
        self._naming = threading.Lock()
        self._name: Callable[[int], None] | None = None
        self._hurry = threading.Event()  # set while a witness waits for an entry
        self._witnesses: list[
            _Witness
        ] = []  # taken from the queue, not notified yet; used by the thread only
        self._number = 0  # the log's number, once an entry of this server is in its files
        self._has_begun = threading.Event()

    def open(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write the waiting entries, for at most 5 seconds."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_CLOSE_S)
        self._thread = None

    async def witness(self, deed: AuditEvent) -> None:
        """Return when an entry is in the log's file, so that the action may happen now. On the event loop.

        Raises:
            BackendUnavailable: `audit_unavailable`: the disk refuses it, or does not answer in time.

        Cancellation: safe; the entry is made.
        """
        loop = asyncio.get_running_loop()
        witness = _Witness(loop, loop.create_future())
        is_written = self.note(deed)
        if is_written:
            self._queue.put(witness)
            self._hurry.set()
            try:
                async with asyncio.timeout(_WITNESS_S):
                    is_written = await witness.written
            except TimeoutError:
                text = f"The audit log has not taken the entry within {_WITNESS_S:.0f} s."
                raise BackendUnavailable("audit_unavailable", text) from None
        if not is_written:
            raise BackendUnavailable("audit_unavailable", "The audit log cannot be written.")

    def enter(self, what: str, **fields: str | int | None) -> None:
        """Enter something that is no event of the engine: the server's start, its end."""
        self.note({"what": what, **fields})

    def tell_name(self, hear: Callable[[int], None]) -> None:
        """Call `hear` with the log's number once the log has an entry: at once, or later from the writing
        thread.
        """
        with self._naming:
            self._name = hear
            if self._number:
                hear(self._number)

    def wait_begun(self) -> None:
        """Return when the log has an entry, or after 2 seconds. Blocks."""
        self._has_begun.wait(_ROOM_S)

    def note(self, happened: Event | Entry) -> bool:
        """Queue an event of the engine with its time; False: there was no room, and it is counted as lost."""
        now_ns = time.time_ns()
        if self._queue.qsize() >= self._capacity and not self._has_room():
            self._lost += 1
            return False
        self._queue.put((now_ns, happened))
        return True

    def _has_room(self) -> bool:
        """Wait a moment for room in the queue; not at all while the disk refuses."""
        deadline = time.monotonic() + _ROOM_S
        while self._queue.qsize() >= self._capacity:
            if self._is_refused or time.monotonic() > deadline:
                return False
            time.sleep(_COLLECT_S)
        return True

    def _run(self) -> None:
        """Write until `close`; the thread's only function."""
        is_open = True
        waiting: list[Entry] = []
        while is_open or waiting:
            is_open = self._collect(waiting) and is_open
            is_written = not waiting or self._write(waiting)
            while self._witnesses:
                self._witnesses.pop().notify(is_written=is_written)
            if not is_written:
                if not is_open:
                    return  # the server is ending, and the disk still refuses: the entries are lost
                self._hurry.wait(_RETRY_S)
        # fsync only at the end: each commit of the file system's journal would stall the keeper's starts and
        # logs, too.
        with contextlib.suppress(OSError):
            self._trail.sync()

    def _collect(self, waiting: list[Entry]) -> bool:
        """Take the queued events, and wait for the first one if there is none; False: `close` was called."""
        if not waiting:
            if not self._take(self._queue.get(), waiting):
                return False
            self._hurry.wait(_COLLECT_S)
        self._hurry.clear()
        with contextlib.suppress(queue.Empty):
            while len(waiting) < _CAPACITY:
                if not self._take(self._queue.get_nowait(), waiting):
                    return False
        return True

    def _take(self, happened: _Happened | _Witness | None, waiting: list[Entry]) -> bool:
        if happened is None:
            waiting += self._entries.rest(time.time_ns())
            return False
        if isinstance(happened, _Witness):
            self._witnesses.append(happened)
            return True
        waiting += self._entries.of(*happened)
        return True

    def _write(self, waiting: list[Entry]) -> bool:
        """Append entries, and one about those that were lost; False: the disk refuses, and they stay in
        `waiting`.
        """
        lost = self._lost  # read once: the loop may count more meanwhile
        loss: Entry = {"what": "audit", "reason": "entries_lost", "lost": lost}
        about_loss = self._entries.of(time.time_ns(), loss) if lost else ()
        try:
            self._trail.append([*waiting, *about_loss])
        except (OSError, ValueError) as error:
            if not self._is_refused:  # one line for each time that the disk begins to refuse
                reason = _words(error)
                _logger.warning("the audit log cannot be written: entries wait", extra={"reason": reason})
            self._is_refused = True
            return False
        if self._is_refused:
            _logger.warning("the audit log is written again", extra={"lost": lost})
        self._begun()
        self._is_refused = False
        self._lost -= lost
        waiting.clear()
        return True

    def _begun(self) -> None:
        """Report the log's number after the first entry."""
        if self._number:
            return
        with self._naming:
            self._number = self._trail.log_number()
            if self._name is not None and self._number:
                self._name(self._number)
        self._has_begun.set()


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
