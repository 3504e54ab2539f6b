"""A connection that comes back: `Link` opens a connection when one is needed, and again when it was lost.

`Patience` (pure; the time comes as an argument) decides whether and when to try again. How one connection is opened belongs to
`address`, what travels over it to `channel`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from outlive.client.address import Address
from outlive.client.channel import ClientConnection, greet
from outlive.client.runtime import ConnectionLost, Runtime, Unreachable
from outlive.core.errors import BackendUnavailable, LimitExceeded, OutliveError

_FIRST_S = 0.02  # the first pause is short: a server that was started again may listen already
_LONGEST_S = 0.5  # the last ones: two attempts a second cost nothing
_FACTOR = 1.6
# Errors that a later attempt may not meet; every other error is the server's answer.
_PASSING = frozenset({"caller_undetermined", "connection_limit", "keeper_unavailable", "timeout"})


class Patience:
    """Bounds one streak of failures, however many attempts it has."""

    __slots__ = ("_begun", "_limit_s", "_next_s")

    def __init__(self, limit_s: float) -> None:
        """Give up `limit_s` seconds after the first failure of a streak."""
        self._limit_s = limit_s
        self._begun: float | None = None
        self._next_s = _FIRST_S

    def failed(self, now: float) -> float | None:
        """Return how many seconds to wait before the next attempt; None: there should be none."""
        if self._begun is None:
            self._begun = now
        left = self._begun + self._limit_s - now
        if left <= 0:
            return None
        pause = self._next_s
        self._next_s = min(pause * _FACTOR, _LONGEST_S)
        return min(pause, left)

    def succeeded(self) -> None:
        """End the streak."""
        self._begun = None
        self._next_s = _FIRST_S


def is_passing(error: OutliveError) -> bool:
    """Tell whether trying again can help."""
    return isinstance(error, BackendUnavailable | LimitExceeded) and error.code in _PASSING


_T = TypeVar("_T")

ANSWER_S = 60.0  # longer than any deadline inside the server


class Link:
    """One caller's way to the server, over any number of connections.

    With `keeps_session` the next connection resumes the session of the last one, and so keeps its private processes; their output
    is not sent before an `attach`.
    """

    def __init__(
        self, address: Address, world: Runtime, *, patience_s: float, keeps_session: bool = False
    ) -> None:
        """Open nothing yet; a server that went away is looked for during `patience_s` seconds."""
        self._address = address
        self._world = world
        self._keeps_session = keeps_session
        self._patience = Patience(patience_s)
        self._turns = world.turns()
        self._channel: ClientConnection | None = None
        self._session_id = ""
        self._is_closed = False

    async def request(
        self,
        method: str,
        params: Mapping[str, object],
        *,
        is_repeatable: bool = True,
        answer_s: float = ANSWER_S,
    ) -> Mapping[str, Any]:
        """Send a request and return its result, over as many connections as it takes.

        Args:
            method: Its method, as in docs/jsonrpc.md.
            params: Its parameters.
            is_repeatable: Whether doing it twice is as good as once.
            answer_s: Seconds that an answer may take.

        Raises:
            BackendUnavailable: `server_lost`: whether the request was done is not known (never for repeatable ones);
                `server_unavailable`: there is no server, or it did not come back in time.
            OutliveError: What the server answered.
        """

        async def ask(channel: ClientConnection) -> Mapping[str, Any]:
            return await channel.request(method, params, answer_s=answer_s)

        return await self._over(ask, method, is_repeatable=is_repeatable)

    async def write(self, process_id: str, data: memoryview, *, answer_s: float = ANSWER_S) -> int:
        """Write the beginning of `data` to a process's input and return how many bytes that was.

        Raises:
            LimitExceeded: `stdin_full`, as in `ClientConnection.write`.
            BackendUnavailable: As in `request` without `is_repeatable`.
        """

        async def ask(channel: ClientConnection) -> int:
            return await channel.write(process_id, data, answer_s=answer_s)

        return await self._over(ask, "write", is_repeatable=False)

    async def _over(
        self, ask: Callable[[ClientConnection], Awaitable[_T]], method: str, *, is_repeatable: bool
    ) -> _T:
        while True:
            channel = await self.channel()
            try:
                result = await ask(channel)
            except ConnectionLost as lost:
                # The server may have done it: only a repeatable request is sent again.
                if lost.was_sent and not is_repeatable and not self._is_closed:
                    await self.forget(channel)
                    text = (
                        f"The server went away before it answered {method}: whether it was done is not known."
                    )
                    raise BackendUnavailable("server_lost", text) from lost
                await self.lose(channel)
            else:
                self.succeed()
                return result

    async def channel(self) -> ClientConnection:
        """Return the open channel, or a new one.

        Raises:
            BackendUnavailable: `server_unavailable`.
            OutliveError: The server does not let this caller in.
        """
        async with self._turns:
            while True:
                if self._is_closed:
                    text = "This client was closed."
                    raise BackendUnavailable("server_unavailable", text, hint="Open another one.")
                if self._channel is not None:
                    return self._channel
                self._channel = await self._open()

    async def lose(self, channel: ClientConnection) -> None:
        """Give up a lost connection, and wait before the next one.

        Raises:
            BackendUnavailable: `server_unavailable`: it was lost again and again.
        """
        await self.forget(channel)
        await self.rest(Unreachable("the connection was lost"))

    def succeed(self) -> None:
        """Record that the connection works: the next loss is the first of a new streak."""
        self._patience.succeeded()

    async def forget(self, channel: ClientConnection) -> None:
        """Give up a connection."""
        if self._channel is channel:
            self._channel = None
        await channel.close()

    async def drop(self) -> None:
        """Give up the open connection, if there is one."""
        if self._channel is not None:
            await self.forget(self._channel)

    def shut(self) -> None:
        """Open no more connections."""
        self._is_closed = True

    async def close(self) -> None:
        """End the connection for good; a call that still waits raises `server_unavailable`."""
        self.shut()
        if self._channel is not None:
            await self._channel.close()

    async def _open(self) -> ClientConnection | None:
        """Return a new connection; None after a failure that allows another attempt (the pause is over then)."""
        query: dict[str, str] = {}
        if self._session_id and self._keeps_session:
            query = {"session_id": self._session_id, "output": "none"}
        try:
            channel = await greet(await self._address.dial(self._world, query), self._world)
        except Unreachable as error:
            if not (self._address.was_reached or self._address.is_started_here):
                # It has never answered: an address without a server is an error at once, not something to wait for.
                raise self._absence() from error
            await self.rest(error)
            return None
        except OutliveError as error:
            # A server that has answered before may just be restarted by its operator.
            is_back_soon = self._address.was_reached and error.code == "server_unavailable"
            if not (is_passing(error) or is_back_soon):
                raise
            await self.rest(error)
            return None
        if self._is_closed:  # closed while the connection was opened
            await channel.close()
            return None
        self._address.was_reached = True
        self._session_id = channel.hello.session_id
        return channel

    async def pause(self, seconds: float) -> None:
        """Wait before sending the same request again."""
        await self._world.sleep(seconds)

    async def rest(self, reason: Exception) -> None:
        """Wait before another attempt.

        Raises:
            OutliveError: The time for attempts is over: `reason`, or `server_unavailable`.
        """
        pause_s = self._patience.failed(self._world.now())
        if pause_s is not None:
            await self._world.sleep(pause_s)
        elif isinstance(reason, OutliveError):
            raise reason
        else:
            raise self._absence() from reason

    def _absence(self) -> BackendUnavailable:
        return BackendUnavailable("server_unavailable", f"No server answers at {self._address}.")
