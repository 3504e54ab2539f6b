"""The way to the server: `Address` opens one connection, `Link` opens another when it was lost, `Links` are
all of one client.

`Patience` (pure; the time comes as an argument) decides whether and when to try again. What travels over a
connection belongs to `channel`.
"""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from outlive.client.channel import ClientConnection, greet
from outlive.client.runtime import ConnectionLost, Runtime, Transport, Unreachable
from outlive.core.errors import BackendUnavailable, LimitExceeded, OutliveError
from outlive.discovery.own_kind import own_token, token_headers
from outlive.discovery.server import Server
from outlive.discovery.state_folder import layout_of, open_state_folder

_T = TypeVar("_T")

ANSWER_S = 60.0  # longer than any deadline inside the server
_PATH = "/ws/mcp"
_FIRST_S = 0.02  # the first pause is short: a server that was started again may listen already
_LONGEST_S = 0.5  # the last ones: two attempts a second cost nothing
_FACTOR = 1.6
# Errors that a later attempt may not meet; every other error is the server's answer.
_PASSING = frozenset({"caller_undetermined", "connection_limit", "keeper_unavailable", "timeout"})


def say_nothing(_line: str) -> None:
    """Discard the line."""


class Way(Protocol):
    """How a server is reached: an `Address`, or the connections that it opens itself (`joined`).

    Attributes:
        is_started_here: Whether a server is started when none runs.
        was_reached: Whether the server has ever answered; then the client waits for it to come back.
    """

    is_started_here: bool
    was_reached: bool

    async def dial(self, world: Runtime, query: Mapping[str, str]) -> Transport:
        """Return an open WebSocket; see `Address.dial`."""


class Address:
    """One server, to which any number of connections are opened, one after another.

    Attributes:
        is_started_here: Whether a server is started when none runs.
        was_reached: Whether the server has ever answered; then the client waits for it to come back.
        starts: How many commands are being started now; while any is, a server that its operator has stopped
            is started, too.
    """

    def __init__(
        self,
        state_dir: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        starts_server: bool = True,
        say: Callable[[str], None] = say_nothing,
    ) -> None:
        """Name the server.

        Args:
            state_dir: Its state folder; None for the usual one (`OUTLIVE_STATE_DIR`, else in the home
                folder).
            url: Its `ws://…` or `wss://…` address instead.
            token: Sent as `Authorization: Bearer …`; None takes the one in `OUTLIVE_TOKEN`, if any; "" sends
                none.
            ca_file: PEM file of the authorities that count for a `wss://` address; None takes the system's.
            starts_server: Whether a server is started for the state folder when none runs.
            say: Called with one line of text when a server is started.
        """
        if url is not None and state_dir is not None:
            raise ValueError("pass either state_dir or url")
        self._url = f"ws://localhost{_PATH}" if url is None else url
        self._headers = token_headers((own_token() if token is None else token) or None)
        self._ca_file = None if ca_file is None else os.fspath(ca_file)
        self._is_local = url is None
        self._state_dir = None if state_dir is None else os.fspath(state_dir)
        self._say = say
        self._server: Server | None = None
        self.was_reached = False
        self.starts = 0
        self.is_started_here = starts_server and self._is_local

    def __str__(self) -> str:
        """Return the address as error messages show it."""
        return self._url if self._server is None else f"the state folder {self._server.root}"

    async def dial(self, world: Runtime, query: Mapping[str, str]) -> Transport:
        """Return an open WebSocket; starts the server if that was asked for.

        Raises:
            Unreachable: No server listens now, or it went away.
            BackendUnavailable: The server that was started does not answer.
            ConfigInvalid: It ended at once, or the state folder cannot be used.
            AccessDenied: This caller is not let in.
        """
        url = self._url
        if query:
            # Start-up time: 1.4 ms, and only a connection that resumes its session has a query.
            from urllib.parse import urlencode  # noqa: PLC0415

            url += ("&" if "?" in url else "?") + urlencode(query)
        connection = None
        if self._is_local:
            if self._server is None:
                self._server = await world.aside(self._find)
            server = self._server
            connection = server.dial()
            if connection is None and self.is_started_here:
                after_stop = self.starts > 0
                connection = await world.reach(
                    lambda gone: server.connect(is_abandoned=gone, after_stop=after_stop)
                )
            if connection is None:
                raise Unreachable(f"No server runs at {self}.")
        return await world.open(url, connection, self._headers, ca_file=self._ca_file)

    def _find(self) -> Server:
        layout = layout_of(self._state_dir)
        if self.is_started_here:
            layout = open_state_folder(layout.root, to_write=False)
        return Server(layout, say=self._say)


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


class Link:
    """One caller's way to the server, over any number of connections.

    With `keeps_session` the next connection resumes the session of the last one, and so keeps its private
    processes; their output is not sent before an `attach`.
    """

    def __init__(
        self, address: Way, world: Runtime, *, patience_s: float, keeps_session: bool = False
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
        data: bytes | memoryview = b"",
    ) -> Mapping[str, Any]:
        """Send a request and return its result, over as many connections as it takes.

        Args:
            method: Its method, as in docs/jsonrpc.md.
            params: Its parameters.
            is_repeatable: Whether doing it twice is as good as once.
            answer_s: Seconds that an answer may take.
            data: Bytes that go along, where the method takes any.

        Raises:
            BackendUnavailable: `server_lost`: whether the request was done is not known (never for repeatable
                ones); `server_unavailable`: there is no server, or it did not come back in time.
            OutliveError: What the server answered.
        """

        async def ask(channel: ClientConnection) -> Mapping[str, Any]:
            return await channel.request(method, params, data=data, answer_s=answer_s)

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
        """Return a new connection; None after a failure that allows another attempt (the pause is over
        then).
        """
        query: dict[str, str] = {}
        if self._session_id and self._keeps_session:
            query = {"session_id": self._session_id, "output": "none"}
        try:
            channel = await greet(await self._address.dial(self._world, query), self._world)
        except Unreachable as error:
            if not (self._address.was_reached or self._address.is_started_here):
                # It has never answered: an address without a server is an error at once, not something to
                # wait for.
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


class Links:
    """All connections of one client; closing it closes them.

    Attributes:
        shared: The link of all requests but those about private processes.
    """

    def __init__(self, address: Address, world: Runtime, *, patience_s: float) -> None:
        self._address = address
        self._world = world
        self._patience_s = patience_s
        self._is_closed = False
        self._open: set[Link] = set()
        self.shared = self.new()

    def new(self, *, keeps_session: bool = False) -> Link:
        """Return another link; see `Link`."""
        link = Link(self._address, self._world, patience_s=self._patience_s, keeps_session=keeps_session)
        if self._is_closed:
            link.shut()
        self._open.add(link)
        return link

    async def drop(self, link: Link) -> None:
        """Close a link that is no longer needed."""
        self._open.discard(link)
        await link.close()

    async def close(self) -> None:
        """Close all links; new ones open nothing. Safe to repeat."""
        self._is_closed = True
        while self._open:
            await self._open.pop().close()
