"""How the client waits and opens sockets, as protocols: `Runtime`, `Transport`, `WakeEvent`.

Without an event loop: `run`, `blocking`.

The client is written once, in coroutines. With `asyncio_runtime` they wait as coroutines do. With
`thread_runtime` every await blocks the thread instead, so the coroutine ends in its first step, and `run`
returns its result; `blocking` makes a method of the blocking client so. No module but these two imports
asyncio or starts a thread.
"""

import functools
import socket
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from outlive.core.documents import decode_json
from outlive.core.errors import SLUGS, OutliveError, error_from_slug

CONNECTING_S = 30.0  # a server that has just started lets its callers wait until it has recovered

_STATUS_SLUGS = {401: "key_missing", 403: "foreign_origin", 421: "foreign_host"}

_T = TypeVar("_T")
_A = TypeVar("_A")
_P = ParamSpec("_P")


class ConnectionLost(Exception):
    """The connection has ended; `was_sent` tells whether the server may have read the last frame."""

    def __init__(self, *, was_sent: bool = True) -> None:
        super().__init__("the connection to the server was lost")
        self.was_sent = was_sent


class Unreachable(Exception):
    """No server answers at the address now."""


class Transport(Protocol):
    """An open WebSocket. One caller receives at a time; any number may send."""

    async def send(self, frame: str | bytes) -> None:
        """Send a text frame, or a binary one; returns when there is room for more.

        Raises:
            ConnectionLost: The connection has ended.
        """

    async def receive(self, timeout_s: float | None) -> str | bytes:
        """Return the next frame; frames that are not received stay in the socket.

        Cancellation: safe, no frame is lost.

        Raises:
            ConnectionLost: The connection has ended.
            TimeoutError: None came in time.
        """

    async def close(self) -> None:
        """End the connection at once; frames on their way are lost. Safe to repeat."""


class WakeEvent(Protocol):
    """Wakes one waiter."""

    def set(self) -> None:
        """Wake it, now or when it waits."""

    def clear(self) -> None:
        """Forget earlier wake-ups."""

    async def wait(self, timeout_s: float | None) -> None:
        """Return when it is set, or when the time is up."""


class Runtime(Protocol):
    """Time, locks and sockets."""

    def now(self) -> float:
        """Return monotonic seconds."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def lock(self) -> AbstractContextManager[object]:
        """Return a lock that is held for moments, never while waiting."""

    def turns(self) -> AbstractAsyncContextManager[object]:
        """Return a lock that may be held while waiting."""

    def wake_event(self) -> WakeEvent:
        """Return a wake event."""

    async def aside(self, work: Callable[[], _T]) -> _T:
        """Return the result of `work`, which may block for milliseconds."""

    async def reach(self, find: Callable[[Callable[[], bool]], socket.socket]) -> socket.socket:
        """Return the result of `find`, which may block for seconds.

        Its argument says whether the caller has given up.
        """

    async def open(
        self,
        url: str,
        connection: socket.socket | None,
        headers: dict[str, str],
        *,
        ca_file: str | None = None,
    ) -> Transport:
        """Open a WebSocket, over a connected Unix socket where there is one.

        Args:
            url: Where; a `wss://` address is checked by its certificate.
            connection: The Unix socket.
            headers: Sent with the request.
            ca_file: Authorities whose certificates count, instead of the system's.

        Raises:
            Unreachable: No server listens, or it went away.
            OutliveError: The server does not let this caller in.
        """


def run(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that never suspends, because its runtime blocks instead."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return cast(_T, ended.value)
    coroutine.close()
    raise AssertionError("a coroutine of the blocking client waited for an event loop")


class Blocking(Generic[_A]):
    """A class of the blocking client: the asynchronous twin of an object is its only state."""

    def __init__(self, twin: _A) -> None:
        self._twin = twin


def blocking(
    method: Callable[Concatenate[_A, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Blocking[_A], _P], _T]:
    """Return the blocking twin of an asynchronous method, with the same parameters, types and docstring."""

    @functools.wraps(method)
    def call(self: Blocking[_A], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return run(method(self._twin, *args, **kwargs))
        except StopAsyncIteration:  # the end of an iterator; a coroutine could not have raised the other one
            raise StopIteration from None

    return call


def refused(status: int, answer: bytes) -> Exception:
    """Return the error for an answer's status and body; `Unreachable` where another moment may bring
    better.
    """
    try:
        body = decode_json(answer)
        slug, message, hint = str(body["error"]), str(body["message"]), str(body["hint"])
    except (ValueError, KeyError, TypeError):
        slug, message, hint = (
            _STATUS_SLUGS.get(status, ""),
            f"The server refused the connection (HTTP {status}).",
            "",
        )
    if slug not in SLUGS and status >= 500:
        return Unreachable(message)
    found = error_from_slug(slug, message, hint=hint)
    return found if slug in SLUGS else OutliveError("internal_error", message, hint=hint)
