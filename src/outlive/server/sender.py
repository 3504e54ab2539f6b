"""When a subscription is sent: `Sender`, woken by changes of the process, held back by a client that does not
read.

What is sent is decided by a `Sendable`: a cursor on a process's log that returns frames in bounded turns.
Nothing is queued here.

Each wake-up (`kick`: something changed) takes one bounded turn and writes once. While more is left, or while
the client does not read, one task repeats: wait until the connection is writable, take a turn, let other
tasks run. A slow client therefore costs one waiting task, and a process with much output gets one turn
between those of all others (promise S0.16).
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import Generic, Protocol, TypeVar

from outlive.core.values import dataclass, field
from outlive.engine import Process
from outlive.server.http.websocket_io import Outbox

_logger = logging.getLogger(__name__)

Spawn = Callable[[Coroutine[None, None, None]], None]

_IDLE_S = 0.1  # a partial line that rests this long is a prompt (promise S0.6)
# A partial line that changes all the time, a progress bar for instance, is shown this often.
_IDLE_MAX_S = 1.0


class Sendable(Protocol):
    """What comes next on the wire about one process."""

    @property
    def process(self) -> Process:
        """What is followed."""

    @property
    def is_completed(self) -> bool:
        """Whether the process's end was returned."""

    @property
    def is_over(self) -> bool:
        """Whether the last message was returned."""

    @property
    def has_partial(self) -> bool:
        """Whether something unfinished waits for its rest."""

    def show_partial(self) -> bytes:
        """Return the frames of what is unfinished."""

    def turn(self) -> tuple[bytes, bool]:
        """Return the frames of one bounded turn, and whether there is more at once."""


_Followed = TypeVar("_Followed", bound=Sendable)


@dataclass(eq=False, slots=True)
class Sender(Generic[_Followed]):
    """Sends one subscription to one connection. Used on the event loop only.

    `begin` starts it, `close` ends it without a message; it ends itself after its last message.

    Attributes:
        subscription: What is sent.
        outbox: Where frames leave.
        spawn: Runs a coroutine in the connection's task group.
        fail: Called after an unexpected error here: it must close the connection, which would look alive but
            stay silent.
        shows_partial: Whether idle partial lines are sent (terminals and stdin pipes).
        reads: Whether output is sent at all.
    """

    subscription: _Followed
    outbox: Outbox
    spawn: Spawn
    fail: Callable[[], None]
    shows_partial: bool
    reads: bool
    _holds: int = field(default=0, init=False)
    _is_draining: bool = field(default=False, init=False)
    _is_closed: bool = field(default=False, init=False)
    _touched_at: float = field(default=0.0, init=False)
    _partial_since: float = field(default=0.0, init=False)
    _idle_timer: asyncio.TimerHandle | None = field(default=None, init=False)
    _unsubscribe: Callable[[], None] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Send what there is, and go on until the end."""
        self._unsubscribe = self.subscription.process.subscribers.add(self.kick, reads=self.reads)
        self.kick()

    def close(self) -> None:
        """End silently; may be called more than once."""
        self._is_closed = True
        if self._unsubscribe is not None:
            self._unsubscribe()
            # It refers to the process, which referred to this sender: without the cycle no garbage collection
            # is needed.
            self._unsubscribe = None
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    def hold(self) -> None:
        """Send nothing until `release`: the answer to a control goes first (promise S0.4)."""
        self._holds += 1

    def release(self) -> None:
        """Go on after `hold`."""
        self._holds -= 1
        self.kick()

    def kick(self) -> None:
        """Send after a change: take one turn, and leave the rest to the draining task. Never raises."""
        if self._is_draining or self._is_closed or self._holds:
            return
        has_more = True
        if self.outbox.is_ready:
            try:
                frames, has_more = self._turn()
                if frames:
                    self.outbox.write(frames)
            except Exception:
                _logger.exception("following a process failed", extra=self._break_down())
                return
        elif self.outbox.is_closed:
            self.close()
            return
        if has_more:
            self._is_draining = True
            self.spawn(self._drain())

    def _may_send(self) -> bool:
        return not (self._is_closed or self._holds)

    async def _drain(self) -> None:
        """Take turns while the client reads and something is left."""
        try:
            while self._may_send():
                await self.outbox.wait_ready()
                if self.outbox.is_closed:
                    self.close()
                if not self._may_send():
                    return
                frames, has_more = self._turn()
                if frames:
                    await self.outbox.send(frames)
                elif not has_more:
                    return  # no `await` since the turn: no kick can have been missed
                await asyncio.sleep(0)
        except Exception:
            _logger.exception("following a process failed", extra=self._break_down())
        finally:
            self._is_draining = False

    def _turn(self) -> tuple[bytes, bool]:
        frames, has_more = self.subscription.turn()
        if self.subscription.is_over:
            self.close()
        elif self.shows_partial:
            self._watch_partial()
        return frames, has_more

    def _break_down(self) -> dict[str, str]:
        """End this sender and its connection; return the fields of the log entry."""
        self.close()
        self.fail()
        return {"reference": secrets.token_hex(4), "process_id": self.subscription.process.process_id}

    def _watch_partial(self) -> None:
        """Start the timer that shows a line without its newline, if there is one."""
        loop = asyncio.get_running_loop()
        self._touched_at = loop.time()
        if self._idle_timer is None and self.subscription.has_partial:
            self._partial_since = self._touched_at
            self._idle_timer = loop.call_later(_IDLE_S, self._on_idle)

    def _on_idle(self) -> None:
        """Send the partial lines if they have not changed for a while, else look again later."""
        self._idle_timer = None
        if self._is_closed or self.subscription.is_completed or not self.subscription.has_partial:
            return
        loop = asyncio.get_running_loop()
        rest = min(self._touched_at + _IDLE_S, self._partial_since + _IDLE_MAX_S) - loop.time()
        if rest > 0 or self._is_draining or self._holds or not self.outbox.is_ready:
            self._idle_timer = loop.call_later(max(rest, _IDLE_S / 4), self._on_idle)
            return
        try:
            self.outbox.write(self.subscription.show_partial())
        except Exception:
            _logger.exception("following a process failed", extra=self._break_down())
