"""The JSON-RPC door of the server: its route, and what all connections share."""

from types import TracebackType
from typing import Self

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from outlive.config import Settings
from outlive.core.errors import InvalidRequest
from outlive.engine import Engine
from outlive.frontends.jsonrpc.connection import Connection
from outlive.frontends.jsonrpc.context import Observe
from outlive.frontends.jsonrpc.sessions import Sessions
from outlive.policy.access import Access
from outlive.protocols.jsonrpc.output import FrameHeads
from outlive.protocols.jsonrpc.requests import Resumption
from outlive.server.access.guard import access_of
from outlive.server.http.websocket_io import open_outbox
from outlive.server.limiters import Take
from outlive.server.operations import Operations

PATH = "/ws/mcp"  # promise S0.1
# A page that offers its token as a subprotocol has to be answered with another one (WHATWG, "WebSockets";
# decision 110).
SUBPROTOCOL = "outlive.jsonrpc.v1"


class JsonRpcFrontend:
    """JSON-RPC 2.0 over WebSocket.

    Serve `routes()` inside `async with door`, that inside `async with engine`.

    Leaving the block ends no process: reconnect graces stop counting and begin anew with the next server.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        *,
        observe: Observe = lambda _method, _seconds: None,
        take: Take = lambda _principal, _count: 0.0,
        operations: Operations | None = None,
    ) -> None:
        """Stand before `engine`; nothing runs yet.

        Args:
            engine: What is served.
            settings: How.
            observe: Called with each method that was answered, and the seconds that took.
            operations: Carries out what every door answers alike; without, the engine's own.
            take: Counts a message of a principal; returns how many seconds to wait before it is looked at.
        """
        self._observe = observe
        self._take = take
        self._operations = operations or Operations.of(engine, wait_s=settings.wait_s)
        self._engine = engine
        self._settings = settings
        self._heads = FrameHeads()
        self._sessions = Sessions(engine, settings)

    async def __aenter__(self) -> Self:
        """Begin the reconnect graces of clients of an earlier server."""
        await self._sessions.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the background work."""
        await self._sessions.__aexit__(kind, error, trace)

    @property
    def open_count(self) -> int:
        """How many clients are connected."""
        return self._sessions.open_count

    @property
    def lag_bytes(self) -> int:
        """How much output the slowest client has not been sent yet."""
        return self._sessions.lag_bytes()

    def routes(self) -> list[BaseRoute]:
        """Return what the application serves."""
        return [WebSocketRoute(PATH, self._serve, name="jsonrpc")]

    async def _serve(self, websocket: WebSocket) -> None:
        try:
            offered = websocket.scope["subprotocols"]
            await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        except WebSocketDisconnect:
            return  # gone before it was let in
        await self._run(websocket, access_of(websocket.scope))

    async def converse(self, websocket: WebSocket, access: Access) -> None:
        """Serve one session over a WebSocket that this server has opened, until it ends, as over one that
        came in.
        """
        await websocket.accept()
        await self._run(websocket, access)

    async def _run(self, websocket: WebSocket, access: Access) -> None:
        connection = Connection(
            websocket,
            open_outbox(websocket),
            engine=self._engine,
            sessions=self._sessions,
            heads=self._heads,
            settings=self._settings,
            observe=self._observe,
            take=self._take,
            operations=self._operations,
        )
        try:
            resumption = Resumption.parse(dict(websocket.query_params))
        except InvalidRequest as error:
            await connection.refuse(error)
            return
        await connection.run(resumption, access)
