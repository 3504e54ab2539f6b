"""The entrance of REST: its paths, its two probes, and nothing else until the first request.

What serves it (`service`) arrives with the first request, in a thread (decision 41). The probes do without
it, so that a server that is only watched never loads it.
"""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

from starlette.routing import BaseRoute, Match, NoMatchFound, Route
from starlette.types import Receive, Scope, Send

from outlive.core.errors import OutliveError
from outlive.core.hints import hint_for
from outlive.core.layout import DEGRADED
from outlive.engine import Engine
from outlive.frontends.rest.problems import DOCS_PATH, send_problem
from outlive.server.error_formats import SendError, send_json
from outlive.server.http.front_page import refuse_method

PATH = "/v1"
ALIVE = {"status": "alive"}
READY = {"status": "ready", "keeper": "reachable", "registry": "writable"}

_SERVICE = "outlive.frontends.rest.service"
_ALIVE_PATH, _READY_PATH = PROBE_PATHS = ("/healthz", "/readyz")
_PATHS = frozenset({DOCS_PATH, "/openapi.json"})
_PREFIXES = (f"{PATH}/", "/api/")  # the second one is promise S4.7


def dialect() -> dict[str, SendError]:
    """Return the format of errors that are answered before REST is reached, by path
    (`server.error_formats`).
    """
    return dict.fromkeys((PATH, *_PATHS, *_PREFIXES, *PROBE_PATHS), send_problem)


def found_so_far(engine: Engine) -> dict[str, object]:
    """Return what `/readyz` says of an engine that still finds again what lived before the server was
    started.
    """
    progress = engine.reconciliation.progress
    return {} if progress is None else {"finding": progress.view()}


class LoadedRest(Protocol):
    """What the entrance uses of `service.RestService`, without importing it."""

    def hang_up(self) -> None:
        """End what clients merely keep open."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request or WebSocket."""


class RestFrontend:
    """REST over HTTP. Serve `routes()` inside `async with door`, that inside `async with engine`.

    Leaving the block ends no process.
    """

    def __init__(
        self,
        build: Callable[[], LoadedRest],
        check: Callable[[], Awaitable[None]],
        more: Callable[[], Mapping[str, object]] = dict,
    ) -> None:
        """Make the service by `build` at the first request; `check` raises when the server is not ready.

        `more`: what the answer says beside that it is.
        """
        self._build = build
        self._check = check
        self._more = more
        self._opening = asyncio.Lock()
        self._checking = asyncio.Lock()
        self._service: LoadedRest | None = None

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what is still kept open."""
        self.hang_up()

    def hang_up(self) -> None:
        """End streams and waits: their clients come again."""
        if self._service is not None:
            self._service.hang_up()

    def routes(self) -> list[BaseRoute]:
        """Return what the application serves."""
        return [
            Route(_ALIVE_PATH, _Probe(_alive)),
            Route(_READY_PATH, _Probe(self._ready)),
            RestPaths(self.service),
        ]

    async def service(self) -> LoadedRest:
        """Return the service, made now if this is the first request."""
        async with self._opening:
            if self._service is None:
                await asyncio.to_thread(importlib.import_module, _SERVICE)
                self._service = self._build()
        return self._service

    async def _ready(self) -> Mapping[str, object]:
        async with (
            self._checking
        ):  # probes that come while one waits for a slow disk do not pile up in threads
            await self._check()
        return {**READY, **self._more()}


async def _alive() -> Mapping[str, object]:
    return ALIVE


class _Probe:
    """An ASGI application that answers GET and HEAD with what a check returns, or with why it failed."""

    def __init__(self, check: Callable[[], Awaitable[Mapping[str, object]]]) -> None:
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 -- ASGI
        if scope["method"] not in {"GET", "HEAD"}:
            await refuse_method(scope, send, send_problem)
            return
        try:
            body = await self._check()
        except OutliveError as error:
            # 503 whatever it is: what asks (a load balancer, systemd) understands "not ready" by that alone.
            await send_problem(
                scope,
                send,
                status=503,
                error=error.code,
                message=error.message,
                hint=hint_for(error, "rest"),
                details=error.details,
                degraded={"degraded": error.code} if error.code in DEGRADED else {},
            )
        else:
            await send_json(scope, send, status=200, body=body)


class RestPaths(BaseRoute):
    """Everything that the service answers: HTTP and WebSocket alike, below its prefixes."""

    def __init__(self, service: Callable[[], Awaitable[LoadedRest]]) -> None:
        """Let what `service` returns answer."""
        self._service = service

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match every path of REST's."""
        if scope["type"] in {"http", "websocket"}:
            path = scope["path"]
            if path in _PATHS or path.startswith(_PREFIXES):
                return Match.FULL, {}
        return Match.NONE, {}

    def url_path_for(self, name: str, /, **path_params: object) -> NoMatchFound:  # type: ignore[override] # there are no names here
        """Raise: there are no names here."""
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or upgrade."""
        service = await self._service()
        await service(scope, receive, send)
