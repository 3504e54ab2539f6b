"""HTTP and WebSocket service on sockets that are already open: uvicorn's protocols, without its process
handling.

Owns connections from accept to close, and measures how long requests wait for their answers (`Timed`, an ASGI
layer that reports each duration). `Shared` does what is to be done from time to time for all of them, while
there is something to do. It opens no socket (`listeners` does), handles no signal
(`cli.server.server_process` does) and knows no route (`app` builds them).
"""

import asyncio
import contextlib
import gc
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from email.utils import formatdate
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlive.server.access.peers import PEER, Peer
from outlive.server.http.listeners import BACKLOG
from outlive.server.http.uvicorn_parts import (
    STATUS_LINE,
    ClientDisconnected,
    Config,
    HttpToolsProtocol,
    ServerState,
)
from outlive.server.http.websocket_io import WORK, RawWebSocketProtocol
from outlive.server.limiters import SWEEP_S, ConnectionLimiter, ConnectionPhase

_PING_INTERVAL_S = 20.0  # keep-alive by ping frames alone (promise S0.21)
_CLOSE_PATIENCE_S = 2.0  # for clients that do not read their last messages
_POLL_S = 0.01
_MOST_PIPELINED = 16  # requests behind one that is being answered; hardly any client sends even one
_MOST_HEAD_BYTES = 64 * 1024  # of a request line and its headers; no client of ours sends a tenth of it
# libuv accepts one connection of a listening socket in each turn of the loop: a health check would wait one
# turn for each connection before it (decision 91). Each duplicate of the socket accepts one more in the same
# turn.
_ACCEPTED_A_TURN = 8
_ABSOLUTE = re.compile(rb"([^/?#]*)(.*)", re.DOTALL)  # authority, and what follows it (RFC 3986, section 3)
_HANDSHAKE_S = 10.0  # of TLS; a connection that sends nothing for so long is closed
_QUIET = 0.1  # of one core, between two sweeps
_WORTH_A_LOOK = 1_000  # objects since the last look for garbage: a dozen connections


class Shared(ServerState):
    """What all connections share. Its timer runs only after work: an idle server does not wake for it."""

    def __init__(self, limiter: ConnectionLimiter) -> None:
        super().__init__()
        self.limiter = limiter
        self._timer: asyncio.TimerHandle | None = None
        self._worked_s = 0.0

    def note_work(self) -> None:
        """Tend to what connections need or leave, until there is no more of it."""
        if self._timer is None:
            self.limiter.sweep()
            self._tend_soon()

    def _tend_soon(self) -> None:
        """Keep the Date header of responses current meanwhile (RFC 9110, section 6.6.1)."""
        self.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
        self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._tend)

    def _tend(self) -> None:
        """Refuse requests that are too slow, and look for garbage while no client waits.

        Each connection leaves some that only a look finds, and a look takes milliseconds. Of a burst it is
        gone before the next one comes, which then need not wait for the look.
        """
        self._timer = None
        before_s, self._worked_s = self._worked_s, time.thread_time()
        is_busy = self._worked_s - before_s >= _QUIET * SWEEP_S
        if not is_busy and gc.get_count()[0] >= _WORTH_A_LOOK:
            gc.collect(1)  # with what was in use at the last look
            self._worked_s = time.thread_time()
        if self.limiter.sweep() or is_busy:
            self._tend_soon()


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP connection.

    It is counted by the connection limiter (as a `LimitedConnection`) and records for the guard which peer is
    at the other end.
    """

    def __init__(self, *, shared: Shared, **uvicorns: Any) -> None:  # noqa: ANN401 -- passed on as they are
        super().__init__(server_state=shared, **uvicorns)
        self._shared = shared
        self._limiter = shared.limiter
        self._head_bytes = 0
        self._peer: Peer | None = None
        self._answering: Any = (
            None  # the request that is being answered; uvicorn's `cycle` is the newest one received
        )
        self.phase = ConnectionPhase.HEAD
        self.since = 0.0

    @property
    def is_answered(self) -> bool:
        """Whether no answer is being made or sent."""
        cycle: object | None = self.cycle  # None until the first request, whatever uvicorn's annotation says
        return cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Begin a connection."""
        super().connection_made(transport)
        self._shared.note_work()
        self._limiter.enter(self)
        connection = transport.get_extra_info("socket")
        if connection is not None and connection.family == socket.AF_UNIX:
            peer = Peer.of_unix(connection, transport.abort, self._limiter.turns)
        else:
            local, remote = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
            peer = Peer(local=local and local[:2], remote=remote and remote[:2], hang_up=transport.abort)
        self._peer = peer
        self.app_state = {**self.app_state, PEER: peer}

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._limiter.leave(self)
        self._shared.note_work()
        self._forget_requests()
        if self._peer is not None:
            self._peer.close()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; a head without an end is refused (431)."""
        super().data_received(data)
        if self.phase is ConnectionPhase.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEAD_BYTES and not self.transport.is_closing():
                self.turn_away(431)

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._head_bytes = 0
        self._shared.note_work()
        self._limiter.begin(self, ConnectionPhase.HEAD)

    def on_headers_complete(self) -> None:
        """Begin a request's body, and the work on it."""
        self._limiter.begin(self, ConnectionPhase.BODY)
        if not self.url.startswith(b"/"):
            self._apply_absolute_target()
        super().on_headers_complete()
        if len(self.pipeline) > _MOST_PIPELINED:
            self.drop()

    def on_message_complete(self) -> None:
        """End a request."""
        super().on_message_complete()
        self._limiter.begin(self, ConnectionPhase.REST if self.is_answered else ConnectionPhase.ANSWER)

    def on_response_complete(self) -> None:
        """End an answer."""
        super().on_response_complete()
        # uvicorn has just resumed reading. A client that pipelines faster than it is answered would fill our
        # memory.
        if self.pipeline:
            self.flow.pause_reading()
        if self.phase is ConnectionPhase.ANSWER:
            self._limiter.begin(self, ConnectionPhase.REST)

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection to the WebSocket protocol."""
        self._limiter.leave(self)
        super().handle_websocket_upgrade()
        # As uvicorn does where a connection ends: parser and protocol refer to each other, which only the
        # collector would free.
        self.parser = None  # type: ignore[assignment]

    def _apply_absolute_target(self) -> None:
        """Split an absolute-form target into path and host (RFC 9112, section 3.2.2).

        Where its host differs from the Host header, it is added as a second Host: the guard refuses two.
        """
        scheme, separator, rest = self.url.partition(b"://")
        if not separator or not scheme.isalnum():
            return
        authority, path = _ABSOLUTE.fullmatch(rest).groups()  # type: ignore[union-attr] # it matches everything
        hosts = [value.strip(b" \t").lower() for name, value in self.headers if name == b"host"]
        if authority.lower() not in hosts:
            self.headers.append((b"host", authority))
        self.url = path if path.startswith(b"/") else b"/" + path

    def turn_away(self, status: int) -> None:
        """End the connection, with a status and no body unless an answer is on its way."""
        if self.is_answered:
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()

    def drop(self) -> None:
        """End the connection without an answer."""
        self._forget_requests()
        self.transport.abort()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:  # noqa: ANN401 -- uvicorn's own
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def _forget_requests(self) -> None:
        """Mark every request as disconnected, so that none writes to the closed connection.

        Uvicorn marks only the newest.
        """
        self.pipeline.clear()
        if self._answering is not None:
            self._answering.disconnected = True


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp,
    sockets: Sequence[socket.socket],
    *,
    max_message_bytes: int,
    max_http_connections: int = 1000,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[None]:
    """Serve `app` on listening sockets while the block runs, over TCP with `tls`.

    The caller closes the sockets afterwards.

    Leaving the block sends WebSocket clients a close frame (1012, the service restarts), waits up to 2
    seconds for requests to end, then cuts the connections that are left.
    """
    soon = asyncio.get_running_loop().call_soon
    limiter = ConnectionLimiter(max_http_connections, time.monotonic, soon)
    server = _Server(app, max_message_bytes=max_message_bytes, limiter=limiter)
    try:
        await server.open(sockets, tls)
        yield
    finally:
        await asyncio.shield(server.close())


class _Cut:
    """Runs `app`, and reports a cancelled request as one whose client has gone.

    The end of the server cancels every request that is still running. uvicorn would log each as a failed
    application, with a traceback.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            # Over HTTP it knows no such exception, and the connection is gone by then: the request just ends.
            if scope["type"] == "websocket":
                raise ClientDisconnected from None


class _Server:
    """The accepting sockets and their connections."""

    def __init__(self, app: ASGIApp, *, max_message_bytes: int, limiter: ConnectionLimiter) -> None:
        self._state = Shared(limiter)
        self._config = Config(
            _Cut(app),
            http=HttpProtocol,
            ws=RawWebSocketProtocol,
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # no proxy is trusted: a forwarded address is only a claim of the caller
            ws_max_size=max_message_bytes,
            ws_ping_interval=_PING_INTERVAL_S,
            ws_ping_timeout=None,  # a slow client is never dropped (promise S0.16)
            ws_per_message_deflate=False,  # impossible with prebuilt frames, and 30-60 % more CPU
        )
        self._config.load()
        self._servers: list[asyncio.Server] = []

    async def open(self, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None) -> None:
        """Accept connections from now on."""
        for listener in sockets:
            duplicates = [listener.dup() for _ in range(_ACCEPTED_A_TURN - 1)]  # the loop closes them
            for one in (listener, *duplicates):
                self._servers.append(await self._accepting(one, tls))

    async def _accepting(self, listener: socket.socket, tls: ssl.SSLContext | None) -> asyncio.Server:
        """Accept connections of a listening socket; they outlive the returned server's `close`."""
        loop = asyncio.get_running_loop()
        # asyncio calls listen(2) again: without our number the backlog would shrink to 100.
        if listener.family == socket.AF_UNIX:
            return await loop.create_unix_server(self._protocol, sock=listener, backlog=BACKLOG)
        handshake_s = None if tls is None else _HANDSHAKE_S
        return await loop.create_server(
            self._protocol, sock=listener, backlog=BACKLOG, ssl=tls, ssl_handshake_timeout=handshake_s
        )

    def _protocol(self) -> asyncio.Protocol:
        app_state: dict[str, Any] = {WORK: self._state.note_work}
        return HttpProtocol(config=self._config, app_state=app_state, shared=self._state)

    async def close(self) -> None:
        """Stop accepting, notify every client, wait a little, cut the rest."""
        for server in self._servers:
            server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._wait_until_idle(_CLOSE_PATIENCE_S)
        for connection in list(self._state.connections):
            connection.transport.abort()
        await self._wait_until_idle(_CLOSE_PATIENCE_S / 4)
        left = list(self._state.tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _wait_until_idle(self, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while (self._state.connections or self._state.tasks) and time.monotonic() < deadline:  # noqa: ASYNC110 -- uvicorn offers no event
            await asyncio.sleep(_POLL_S)


Observe = Callable[[str, str, float], None]  # door, what, seconds
_OTHER = "page"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Timed:
    """Runs `app`; reports the time from a request to the first byte of its answer.

    A path is counted under the frontend whose prefix it begins with, an unknown method as "other": a caller
    cannot invent names, and so cannot make the number of metrics grow.
    """

    def __init__(self, app: ASGIApp, observe: Observe, *, doors: Mapping[str, str]) -> None:
        """Stand around `app`; `doors` maps prefixes of paths to the frontends' names."""
        self._app = app
        self._observe = observe
        self._doors = tuple(doors.items())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, upgrade or lifespan."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun: float | None = time.monotonic()

        async def watch(message: Message) -> None:
            nonlocal begun
            if begun is not None:
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._observe(self._door(scope["path"]), method.lower(), time.monotonic() - begun)
                begun = None
            await send(message)

        await self._app(scope, receive, watch)

    def _door(self, path: str) -> str:
        return next((door for prefix, door in self._doors if path.startswith(prefix)), _OTHER)
