"""The composition root: builds engine, doors and observers from settings.

The only file that knows all of them.
"""

import asyncio
import contextlib
import functools
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Self

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, Router
from starlette.types import ASGIApp

from outlive import __version__
from outlive.config import EffectiveSetting, Settings
from outlive.config.settings import marked
from outlive.core.events import Event, KeeperConnected
from outlive.core.layout import Layout
from outlive.discovery.config_paths import own_files
from outlive.engine.commands.policy_check import log_openness
from outlive.engine.terminals import terminals_of
from outlive.execution import engine_and_routing
from outlive.extensions.contract import extensions, load
from outlive.extensions.server_part import Built, Given, ServerPart
from outlive.frontends.jsonrpc.door import PATH as JSONRPC_PATH
from outlive.frontends.jsonrpc.door import JsonRpcFrontend
from outlive.frontends.mcp.http.door import PATHS as MCP_PATHS
from outlive.frontends.mcp.http.door import McpHttpFrontend, McpService, send_rpc_error
from outlive.frontends.rest.door import PATH as REST_PATH
from outlive.frontends.rest.door import PROBE_PATHS, LoadedRest, RestFrontend, found_so_far
from outlive.frontends.rest.door import dialect as rest_dialect
from outlive.frontends.rest.problems import DOCS_PATH
from outlive.frontends.terminal.door import PATH as TERMINAL_PATH
from outlive.frontends.terminal.door import TerminalFrontend, send_refusal
from outlive.frontends.web.door import WebFrontend
from outlive.observability.audit import AuditLog, audited_kinds
from outlive.observability.logs import ProcessLog, logged_kinds
from outlive.observability.metrics import (
    CONTENT_TYPE,
    Family,
    LiveView,
    Metrics,
    counted_kinds,
    families,
    render,
)
from outlive.operations.table import all_operations
from outlive.policy.redaction import Redactor
from outlive.policy.secret_patterns import parse_patterns
from outlive.server.access.authenticator import Authenticator, TokenBook
from outlive.server.access.guard import Guard, Names
from outlive.server.access.peers import Peers
from outlive.server.error_formats import ErrorFormats
from outlive.server.http.boundary import AuditedErrors, ErrorBoundary
from outlive.server.http.front_page import HEALTH_PATH, JsonDocument, health_route, unknown_path
from outlive.server.http.http_server import Timed
from outlive.server.http.listeners import local_address
from outlive.server.http.tls import certificate_names
from outlive.server.limiters import RateLimiter, counting
from outlive.server.operations import Operations, TerminalCalls
from outlive.store.audit.audit_trail import AuditTrail
from outlive.store.token_file import TokenFile

# Beyond a process's own grace period: KILL, the walk over its tree, and the drain of its pipes.
_STOP_PATIENCE_S = 5.0


class Application:
    """One server's parts, wired; `async with` opens them in order and closes them in reverse.

    Attributes:
        asgi: What the HTTP server serves, only inside the `async with`.
        routes: What it answers, behind the guard.
        terminals: The hosts of terminals; they join it as they come.

    Leaving it stops no process: the keeper has them.
    """

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        *,
        working_folder: str,
        ports: Mapping[str, int] = MappingProxyType({}),
        effective: Iterable[EffectiveSetting] = (),
    ) -> None:
        """Build everything; nothing is opened.

        Args:
            settings: What the user chose.
            layout: The state folder.
            working_folder: Where commands run by default.
            ports: Where each frontend listens, by its name; those that are not there listen at no TCP port.
            effective: The settings for people, with where each came from.
        """
        self._settings = settings
        self._layout = layout
        self._begun = time.monotonic()
        redactor = redactor_of(settings)
        self._stack = contextlib.AsyncExitStack()
        given = Given(
            settings=settings,
            layout=layout,
            working_folder=working_folder,
            own_files=(
                *own_files(os.environ, working_folder=working_folder),
                *marked(settings, "secret file"),
            ),
            ports=ports,
            environ=os.environ,
        )
        self._parts: list[ServerPart] = [load(one.server)(given) for one in extensions() if one.server]
        all_operations()  # what is wrong with one keeps the server from starting, not its callers from asking
        engine, routing = engine_and_routing(given, redactor=redactor, parts=self._parts)
        self._engine = engine
        engine.reports.show_settings(effective)
        self._process_log = ProcessLog()
        self._audit = None if settings.audit_off else _audit_log(settings, layout, redactor)
        self._metrics = metrics = Metrics()
        self._take = counting(settings.max_request_rate)
        self.terminals = terminals = terminals_of(engine, max_output_bytes=settings.max_output_bytes)
        self._operations = operations = Operations(engine, TerminalCalls(terminals, wait_s=settings.wait_s))
        self._jsonrpc = JsonRpcFrontend(
            engine,
            settings,
            take=self._take,
            observe=functools.partial(metrics.observe_request, "jsonrpc"),
            operations=operations,
        )
        self._terminal = TerminalFrontend(engine, take=self._take)
        self._mcp = McpHttpFrontend(self._mcp_service)
        self._rest = RestFrontend(
            self._rest_service,
            engine.health.check,
            functools.partial(found_so_far, engine),
        )
        own_uid = os.getuid()
        self._peers = Peers(layout, own_uid=own_uid, living=engine.queries.may_live)
        built = Built(
            engine=engine,
            routing=routing,
            terminals=terminals,
            sessions=self._jsonrpc,
            peers=self._peers,
            take=self._take,
            metric_families=self._metric_families,
        )
        for part in self._parts:
            part.join(built)
            operations.add(part.carriers())
        self._web = WebFrontend(
            layout,
            address=local_address(ports, settings.host, has_tls=bool(settings.tls_cert)),
            front=JsonDocument(self._describe, headers=((b"vary", b"accept"),)),
            events=engine.events,
        )
        self.routes = self._all_routes()
        self._tokens = TokenBook(TokenFile(layout), engine.grants.find, known=engine.queries.known)
        self.asgi: ASGIApp = self._guarded(settings, self._entry(settings, own_uid))

    def _entry(self, settings: Settings, own_uid: int) -> Authenticator:
        return Authenticator(
            self._peers,
            self._tokens,
            own_uid=own_uid,
            api_key=settings.mcp_api_key,
            bridge_paths=frozenset().union(*(part.token_paths for part in self._parts)),
            offering_paths=(TERMINAL_PATH, JSONRPC_PATH),
            origins=frozenset(settings.allow_origin),
            hello_paths=frozenset() if settings.hello_off else frozenset(MCP_PATHS),
            entrances=[part.entrance for part in self._parts if part.entrance is not None],
        )

    def _guarded(self, settings: Settings, entry: Authenticator) -> ASGIApp:
        """Return the routes behind everything that every request and upgrade has to pass."""
        mcp_dialect = dict.fromkeys(MCP_PATHS, send_rpc_error)
        dialects = ErrorFormats({**mcp_dialect, TERMINAL_PATH: send_refusal, **rest_dialect()})
        return Guard(
            Timed(
                RateLimiter(
                    ErrorBoundary(_router(self.routes, self._parts), dialects),
                    self._take,
                    free_paths=frozenset({HEALTH_PATH, *PROBE_PATHS}),
                    answer=dialects,
                ),
                self._metrics.observe_request,
                doors={MCP_PATHS[0]: "mcp", REST_PATH: "rest", "/api/": "rest"},
            ),
            entry,
            names=_names(settings),
            origins=frozenset(settings.allow_origin),
            open_paths=frozenset({HEALTH_PATH}),
            answer=AuditedErrors(dialects, self._engine.events),
        )

    def _mcp_service(self) -> McpService:
        """Build the MCP service, at the first MCP request."""
        # Start-up time: a quarter of the whole start, which only MCP callers have to wait for.
        from outlive.frontends.mcp.http.endpoint import McpEndpoint  # noqa: PLC0415
        from outlive.frontends.mcp.tools.toolbox import Toolbox  # noqa: PLC0415

        tools = Toolbox(self._engine, self._settings, self._operations)
        return McpEndpoint(tools, self._layout, max_message_bytes=self._settings.max_message_bytes)

    def _rest_service(self) -> LoadedRest:
        """Build the REST service, at the first REST request."""
        from outlive.frontends.rest.service import RestService  # noqa: PLC0415 -- most servers have none

        return RestService(self._engine, self._settings, self._operations)

    def _all_routes(self) -> list[BaseRoute]:
        return [
            *self._web.routes(),
            health_route(self._health),
            *self._jsonrpc.routes(),
            *self._terminal.routes(),
            *self._mcp.routes(),
            *self._rest.routes(),
            *(route for part in self._parts for route in part.routes()),
            Route("/metrics", self._show_metrics, methods=["GET"]),
        ]

    async def __aenter__(self) -> Self:
        """Open engine and doors.

        Processes of an earlier server become known afterwards (`engine.recovery.reconciliation`).

        Raises:
            BackendUnavailable: The keeper could not be started.
            StoreCorrupt: The registry could not even be made anew.
        """
        settings, engine = self._settings, self._engine
        if engine.settings.policy.is_active or settings.allowed_commands:
            path = engine.environment.get("PATH", "")
            await asyncio.to_thread(log_openness, settings, engine.settings.policy, path)
        if self._audit is not None:
            self._audit.open()
            self._stack.callback(self._audit.close)
            self._stack.callback(self._audit.enter, "server_stopped", pid=os.getpid())
            self._audit.enter("server_started", pid=os.getpid(), version=__version__)
            self._stack.callback(self._engine.events.subscribe(self._audit.note, kinds=audited_kinds()))
            self._engine.events.witness_with(self._audit.witness, self._audit.recorded)
        self._stack.callback(self._process_log.flush)
        self._stack.callback(engine.events.subscribe(self._learn, kinds=(KeeperConnected,)))
        self._stack.callback(self._engine.events.subscribe(self._process_log.note, kinds=logged_kinds()))
        self._stack.callback(self._engine.events.subscribe(self._metrics.note, kinds=tuple(counted_kinds())))
        try:
            await self._stack.enter_async_context(self._tokens)
            for part in self._parts:
                await part.begin()
                self._stack.push_async_callback(part.end)
            await self._stack.enter_async_context(self._engine)
            if self._audit is not None:
                await self._engine.records.remember_audit_log(self._audit.tell_name)
                # A short life, too, must leave the log's name in the registry, which closes with the engine.
                self._stack.push_async_callback(asyncio.to_thread, self._audit.wait_begun)
            await self._stack.enter_async_context(self._jsonrpc)
            await self._stack.enter_async_context(self._mcp)
            await self._stack.enter_async_context(self._rest)
            for part in self._parts:
                await self._stack.enter_async_context(part)
            await self._stack.enter_async_context(self._web)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the doors, then the engine."""
        await self._stack.aclose()

    @property
    def living_count(self) -> int:
        """How many processes, or what they left running, live now."""
        # A finished process stays among the live ones until its last state is committed.
        found = sum(
            not process.status.is_closed or process.record.descendants > 0
            for process in self._engine.queries.live()
        )
        finding = self._engine.reconciliation.progress
        return found if finding is None else max(found, finding.of)

    @property
    def folder_moved(self) -> asyncio.Future[str]:
        """The state folder's new path, once it was moved."""
        return self._engine.disk.moved

    def _learn(self, event: Event) -> None:
        if isinstance(event, KeeperConnected):
            self._peers.learn(event.sessions, event.bounds)

    def hang_up(self) -> None:
        """End what clients merely keep open, before the server waits for its connections to end."""
        self._mcp.hang_up()
        self._rest.hang_up()
        for part in self._parts:
            part.hang_up()

    async def stop_processes(self) -> None:
        """End every process (TERM, grace period, KILL) and wait until all have ended, or patience has."""
        grace_s = self._settings.grace_s
        note = "The server was stopped together with its processes."
        await self._engine.bulk.cancel(note=note, grace_s=grace_s, deadline_s=grace_s + _STOP_PATIENCE_S)

    async def _show_metrics(self, _request: Request) -> Response:
        await self._engine.disk.refresh()
        return Response(render(self._metric_families()), headers={"content-type": CONTENT_TYPE})

    def _metric_families(self) -> list[Family]:
        found = families(self._metrics, self._live_view(), version=__version__)
        return [*found, *(family for part in self._parts for family in part.families())]

    def _live_view(self) -> LiveView:
        live = [process for process in self._engine.queries.live() if not process.status.is_complete]
        return LiveView(
            starts=self._engine.starts.outcomes.started_count,
            states=Counter(process.status.state for process in live),
            stdout_bytes=sum(process.status.stdout_bytes for process in live),
            stderr_bytes=sum(process.status.stderr_bytes for process in live),
            subscribers=sum(len(process.subscribers) for process in self._engine.queries.live()),
            lag_bytes=self._jsonrpc.lag_bytes,
            connections=self._jsonrpc.open_count + self._terminal.open_count,
            approvals=len(self._engine.approvals),
            questions=sum(process.status.is_asking for process in live),
            free_bytes=self._engine.disk.free_bytes,
        )

    async def _health(self) -> dict[str, object]:
        return {
            "status": "ok",
            **await self._engine.disk.view(),
            "version": __version__,
            "pid": os.getpid(),
            "uptime_s": round(time.monotonic() - self._begun, 3),
            "processes": self.living_count,
            "connections": self._jsonrpc.open_count + self._terminal.open_count,
            **{name: value for part in self._parts for name, value in part.health().items()},
        }

    def _describe(self) -> dict[str, object]:
        return {
            "name": "outlive",
            "version": __version__,
            "about": "Runs commands that outlive their caller.",
            "endpoints": {
                "jsonrpc": JSONRPC_PATH,
                "terminal": TERMINAL_PATH,
                "mcp": MCP_PATHS[0],
                "rest": REST_PATH,
                **{name: path for part in self._parts for name, path in part.endpoints.items()},
                "docs": DOCS_PATH,
                "health": HEALTH_PATH,
                "metrics": "/metrics",
            },
        }


def _names(settings: Settings) -> Names:
    found = frozenset(settings.public_name)
    if settings.tls_cert:
        found |= certificate_names(settings.tls_cert)
    return Names(found)


def _router(routes: Iterable[BaseRoute], parts: Iterable[ServerPart]) -> Router:
    known = list(routes)
    hints = " ".join(hint for part in parts if (hint := part.socket_hint))
    return Router(known, default=unknown_path(known, sockets=hints), redirect_slashes=False)


def redactor_of(settings: Settings) -> Redactor:
    """Return what is hidden in everything that this server shows and writes.

    Raises:
        ConfigInvalid: One of the operator's patterns is none.
    """
    extra = parse_patterns("redact_extra", settings.redact_extra)
    if settings.redact == "off":
        return Redactor(patterns=False)
    own = [settings.mcp_api_key.encode()]
    return Redactor(patterns=settings.redact == "all", values=own, extra=extra)


def _audit_log(settings: Settings, layout: Layout, redactor: Redactor) -> AuditLog:
    trail = AuditTrail(
        layout.audit,
        key_file=layout.audit_key,
        max_bytes=settings.audit_max_bytes,
        max_files=settings.audit_files,
    )
    return AuditLog(trail, redact=redactor.mask_text)
