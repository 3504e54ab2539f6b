"""Who did what: `AuditLog` hears the engine's events and has them written by a thread of its own.

Nobody waits for the disk: what happens is queued with its time and is in the file some milliseconds later, many at once.
The queue is bounded; when it is full whoever has something to enter waits a moment, and what cannot be entered because the
disk refuses for long is counted and told, in the audit log as in the server's.

One thing waits: `witness` returns once its entry is in the file. What must not happen without an entry, happens after it.
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
from outlive.store.audit_trail import AuditTrail

_logger = logging.getLogger(__name__)

_Happened = tuple[int, Event | Entry]  # nanoseconds, what


class _Witness(NamedTuple):
    """Wants to be told when everything that was queued before it is in the file, or that it is not."""

    loop: asyncio.AbstractEventLoop
    written: "asyncio.Future[bool]"

    def tell(self, *, is_written: bool) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is nobody to tell
            self.loop.call_soon_threadsafe(self._tell, is_written)

    def _tell(self, is_written: bool) -> None:  # noqa: FBT001 -- call_soon_threadsafe knows no names
        if not self.written.done():
            self.written.set_result(is_written)


_CAPACITY = 65_536  # some 40 MB of entries at most
_PATIENCE_S = (
    2.0  # a queue that long means a disk that does not take 30 MB/s: better late than without an entry
)
# Entries are collected for so long: a thread that wakes for each takes the interpreter from the event loop.
_COLLECT_S = 0.05
_RETRY_S = 1.0
_WITNESS_S = 5.0  # what has to be in the file first waits for a slow disk; no longer than a person would
_CLOSE_PATIENCE_S = 5.0


class AuditLog:
    """Enters what happens into an `AuditTrail`. `open` starts its thread, `close` writes what waits.

    `note` is called on the event loop, `enter` from anywhere; they only queue, the thread makes entries of it.
    """

    def __init__(self, trail: AuditTrail, *, redact: Callable[[str], str], capacity: int = _CAPACITY) -> None:
        """Write to `trail`; `redact` takes secrets out of texts."""
        self._trail = trail
        self._entries = Entries(redact=redact)
        self._capacity = capacity
        self._queue: queue.SimpleQueue[_Happened | _Witness | None] = queue.SimpleQueue()
        self._is_refused = False  # the disk took nothing at the last try
        self._lost = 0
        self._thread: threading.Thread | None = None
        self._naming = threading.Lock()
        self._name: Callable[[int], None] | None = None
        self._hurry = threading.Event()  # somebody waits for an entry
        self._witnesses: list[_Witness] = []  # whose entries were taken from the queue; the thread's own
        self._number = 0  # of the log, once an entry of ours is in its files
        self._has_begun = threading.Event()

    def open(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write what waits, for at most some seconds."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(_CLOSE_PATIENCE_S)
        self._thread = None

    def note(self, event: Event) -> None:
        """Enter an event of the engine."""
        self._put(event)

    async def witness(self, deed: AuditEvent) -> None:
        """Return when an entry is in the log's file: what it tells of may happen now. On the event loop.

        Raises:
            BackendUnavailable: `audit_unavailable`: the disk refuses it, or does not answer in time.

        Cancellation: safe; the entry is made.
        """
        loop = asyncio.get_running_loop()
        witness = _Witness(loop, loop.create_future())
        is_written = self._put(deed)
        if is_written:
            self._queue.put(witness)
            self._hurry.set()
            try:
                async with asyncio.timeout(_WITNESS_S):
                    is_written = await witness.written
            except TimeoutError:
                is_written = False
        if not is_written:
            raise BackendUnavailable("audit_unavailable", "The audit log cannot be written.")

    def enter(self, what: str, **fields: str | int | None) -> None:
        """Enter something that is no event: the server's start, its end."""
        self._put({"what": what, **fields})

    def tell_name(self, hear: Callable[[int], None]) -> None:
        """Call `hear` with the log's number once something is in it; from any thread, or at once."""
        with self._naming:
            self._name = hear
            if self._number:
                hear(self._number)

    def wait_begun(self) -> None:
        """Return when something is in the log, or soon where the disk refuses it. Blocks."""
        self._has_begun.wait(_PATIENCE_S)

    def _put(self, happened: Event | Entry) -> bool:
        now_ns = time.time_ns()
        if self._queue.qsize() >= self._capacity and not self._has_room():
            self._lost += 1
            return False
        self._queue.put((now_ns, happened))
        return True

    def _has_room(self) -> bool:
        """Wait a moment for room; not for a disk that has said no."""
        deadline = time.monotonic() + _PATIENCE_S
        while self._queue.qsize() >= self._capacity:
            if self._is_refused or time.monotonic() > deadline:
                return False
            time.sleep(_COLLECT_S)
        return True

    def _run(self) -> None:
        is_open = True
        waiting: list[Entry] = []
        while is_open or waiting:
            is_open = self._collect(waiting) and is_open
            is_written = not waiting or self._write(waiting)
            while self._witnesses:
                self._witnesses.pop().tell(is_written=is_written)
            if not is_written:
                if not is_open:
                    return  # the disk says no, and the server is going
                self._hurry.wait(_RETRY_S)
        # Not before the end: each commit of the file system's journal stops the keeper's starts and logs with it.
        with contextlib.suppress(OSError):
            self._trail.sync()

    def _collect(self, waiting: list[Entry]) -> bool:
        """Take what is queued, waiting for the first where there is nothing; False: the end was asked for."""
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
        lost = self._lost
        loss: Entry = {"what": "audit", "reason": "entries_lost", "lost": lost}
        told = self._entries.of(time.time_ns(), loss) if lost else ()
        try:
            self._trail.append([*waiting, *told])
        except (OSError, ValueError) as error:
            if not self._is_refused:
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
        if self._number:
            return
        with self._naming:
            self._number = self._trail.log_number()
            if self._name is not None and self._number:
                self._name(self._number)
        self._has_begun.set()


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
