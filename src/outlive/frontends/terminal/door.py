"""The terminal frontend's route: it finds the process, checks the caller's rights, and counts viewers.

A connection that is accepted belongs to `viewer`. Refusals are answered before the upgrade, as plain HTTP
errors.
"""

from collections import Counter

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.types import Scope as AsgiScope
from starlette.types import Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from outlive.core.errors import LimitExceeded, OutliveError
from outlive.core.events import AuditEvent
from outlive.core.hints import worded
from outlive.core.process import Owner
from outlive.engine import Asker, Engine
from outlive.frontends.terminal.terminal_output import newest_history
from outlive.frontends.terminal.viewer import TerminalHolds, View, Viewer
from outlive.policy.access import Access, Scope
from outlive.protocols.terminal_messages import CONTROLLED, Opening, chosen_subprotocol
from outlive.server.access.guard import access_of
from outlive.server.error_formats import STATUS, Headers, send_error
from outlive.server.http.websocket_io import open_outbox
from outlive.server.limiters import Take
from outlive.server.shown_output import check_within

PATH = "/ws/terminal/"
_MOST_VIEWERS = (
    256  # of one principal; each may hold 128 KiB of output and 64 KiB of input in the server's memory
)


class TerminalFrontend:
    """Raw output and input of a process over a WebSocket; `routes()` are served inside `async with
    engine`.
    """

    def __init__(self, engine: Engine, *, take: Take = lambda _principal, _count: 0.0) -> None:
        """Serve the processes of `engine`; `take` counts a principal's message, and returns the seconds to
        wait before it.
        """
        self._engine = engine
        self._take = take
        self._viewers: Counter[str] = Counter()
        self._holds = TerminalHolds()

    @property
    def open_count(self) -> int:
        """How many viewers are connected."""
        return self._viewers.total()

    def routes(self) -> list[BaseRoute]:
        """Return what the application serves."""
        return [WebSocketRoute(f"{PATH}{{process_id}}", self._serve, name="terminal")]

    async def _serve(self, websocket: WebSocket) -> None:
        access = access_of(websocket.scope)
        owner = access.owner("terminal")
        subprotocol = chosen_subprotocol(websocket.scope["subprotocols"])
        try:
            self._check_crowd(access.principal)
            view = await self._view(websocket, access, owner, is_controlled=subprotocol == CONTROLLED)
        except OutliveError as error:
            await self._refuse(websocket, owner, error)
            return
        self._viewers[access.principal] += 1
        try:
            await websocket.accept(subprotocol)
            viewer = Viewer(
                websocket,
                open_outbox(websocket),
                view,
                engine=self._engine,
                take=self._take,
                holds=self._holds,
            )
            await viewer.run()
        except WebSocketDisconnect:
            pass  # gone before it was accepted
        finally:
            self._viewers[access.principal] -= 1
            if not self._viewers[access.principal]:
                del self._viewers[access.principal]

    def _check_crowd(self, principal: str) -> None:
        if self._viewers[principal] >= _MOST_VIEWERS:
            text = f"{_MOST_VIEWERS} viewers of this principal are connected."
            raise LimitExceeded("connection_limit", text, hint="Close one of them.")

    async def _view(self, websocket: WebSocket, access: Access, owner: Owner, *, is_controlled: bool) -> View:
        """Return what this viewer may see and do; raises an `OutliveError` where it may not."""
        access.require(Scope.READ)
        opening = Opening.parse(websocket.query_params)
        asker = Asker(principal=access.principal, project=websocket.query_params.get("project"))
        process = await self._engine.lookup.find(websocket.path_params["process_id"], asker)
        log = process.raw_log if opening.raw else process.log
        if opening.cursor is not None:
            check_within(process, opening.cursor)
        cursor = newest_history(log) if opening.cursor is None else opening.cursor
        acting = self._engine.as_(owner)
        if opening.raw:
            await self._engine.as_(owner).read_raw(process.process_id, cursor)
        return View(
            process=process,
            log=log,
            cursor=cursor,
            principal=access.principal,
            acting=acting,
            is_controlled=is_controlled,
            is_readonly=opening.readonly or access.scope < Scope.RUN,
            size=opening.size,
            hold=opening.hold if is_controlled else None,
            ahead=opening.ahead if is_controlled else None,
            lag=opening.lag if is_controlled else None,
        )

    async def _refuse(self, websocket: WebSocket, owner: Owner, error: OutliveError) -> None:
        """Refuse the upgrade, and record a missing scope in the audit log."""
        if error.code == "scope_missing":
            details = {"path": websocket.url.path[:200]}
            self._engine.events.publish(
                AuditEvent(what="access", by=owner, decision="denied", reason=error.code, details=details)
            )
        await self._engine.events.recorded()
        self._engine.redaction.finish(error)
        await send_refusal(
            websocket.scope,
            websocket.send,
            status=STATUS[error.code],
            error=error.code,
            message=error.message,
            hint=error.hint,
        )


async def send_refusal(
    scope: AsgiScope, send: Send, *, status: int, error: str, message: str, hint: str, headers: Headers = ()
) -> None:
    """Refuse an upgrade in plain JSON.

    Hints use REST's words, because clients of this path find processes by REST.
    """
    hint = worded(error, hint, "rest")
    await send_error(scope, send, status=status, error=error, message=message, hint=hint, headers=headers)
