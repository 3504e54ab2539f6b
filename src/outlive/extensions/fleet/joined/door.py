"""Where nodes dial in: `NodeDoor`, one WebSocket path, whose connections are `lanes.NodeSocket`.

The guard has checked that the caller shows a code or a credential. Here it gets its next credential, a second
machine with the same one is told from a node that has come back, and the connection becomes its lane's spare
(decision 211).

Whatever a machine with one code sends, it costs little: few connections of a node wait to be let in, and each
holds one small frame until it is used.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.exceptions import WebSocketException

from outlive.core.errors import InvalidState, LimitExceeded, OutliveError
from outlive.extensions.fleet.joined.lanes import POLICY_VIOLATION, JoinedNodes, Lane, NodeSocket
from outlive.extensions.fleet.joined.messages import INSTANCE_HEADER, NODE_PATH, Renewed, Welcome
from outlive.extensions.fleet.node_keys import NodeKey, NodeKeys
from outlive.server.access.authenticator import credentials
from outlive.server.access.peers import PEER
from outlive.server.access.web_pages import values_of
from outlive.server.error_formats import STATUS, send_error

_logger = logging.getLogger(__name__)

_RENEWED_S = 86400.0  # a node that stays connected for months gets another credential each day
# A node dials one connection at a time; more of them wait only where its link was cut and it has come back
# meanwhile.
_MOST_WAITING = 4


class NodeDoor:
    """Takes the connections of nodes.

    Its routes belong behind the guard, which lets in what `keys` finds, and nothing else.
    """

    def __init__(self, keys: NodeKeys, nodes: JoinedNodes, *, renewed_s: float = _RENEWED_S) -> None:
        self._keys = keys
        self._nodes = nodes
        self._renewed_s = renewed_s
        self._waiting: Counter[str] = Counter()  # connections that are to be let in, by node

    def routes(self) -> list[BaseRoute]:
        """Return what the application serves."""
        return [WebSocketRoute(NODE_PATH, self._serve, name="node")]

    async def _serve(self, websocket: WebSocket) -> None:
        key = next(filter(None, map(self._keys.find, credentials(websocket.scope))), None)
        if key is None:
            await websocket.close(POLICY_VIOLATION)  # removed since the guard has looked
            return
        if self._waiting[key.node] > _MOST_WAITING:
            await _turn_away(websocket)
            return
        with contextlib.ExitStack() as place:
            place.enter_context(self._counted(key.node))
            try:
                await websocket.accept()
            except WebSocketDisconnect:
                return  # gone before it was let in
            instances = values_of(websocket.scope, INSTANCE_HEADER.lower().encode())
            socket = NodeSocket(websocket, next(iter(instances), ""))
            try:
                async with asyncio.TaskGroup() as tasks:
                    reading = tasks.create_task(socket.read(), name="node socket")
                    known = await self._let_in(socket, key)
                    place.close()
                    if known is not None:
                        await self._keep(socket, known)
                    reading.cancel()
            finally:
                socket.close()
                if not socket.is_lost:
                    # At once: what lies behind a dead link is never answered. Suppressed: it has just been
                    # closed, or is being closed because the server stops.
                    with contextlib.suppress(RuntimeError, WebSocketException):
                        websocket.scope["state"][PEER].hang_up()

    @contextlib.contextmanager
    def _counted(self, node: str) -> Iterator[None]:
        """Count a connection that is to be let in."""
        self._waiting[node] += 1
        try:
            yield
        finally:
            self._waiting[node] -= 1
            if not self._waiting[node]:
                del self._waiting[node]

    async def _let_in(self, socket: NodeSocket, key: NodeKey) -> NodeKey | None:
        """Let a connection in, and return the key by which the node is known from now on; None where it has
        ended, or is refused.
        """
        lane = self._nodes.lane(key.node)
        try:
            async with _turn(lane, socket):
                await self._check_alone(lane, socket, key)
                shown, key = key, await self._give_credential(socket, key)
                if not self._keys.is_current(key):
                    return None  # removed at this very moment
                if shown.is_code:  # the machine that was the node so far is it no more
                    lane.close()
                await lane.offer(socket)
        except OutliveError as error:
            _logger.warning("a node is not let in: %s: %s", key.node, error.message)
            await socket.refuse(error)
            return None
        except (EOFError, TimeoutError):
            return None
        return key

    async def _keep(self, socket: NodeSocket, key: NodeKey) -> None:
        """Return when a connection has ended that was let in."""
        lane = self._nodes.lane(key.node)
        while not socket.is_closed:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._renewed_s):
                    await socket.ended.wait()
                    return
            async with lane.entering:
                if not lane.withdraw(socket):
                    continue  # it is used, and the node has dialled another one since
                try:
                    key = await self._give_credential(socket, key, is_first=False)
                except (OutliveError, EOFError, TimeoutError):
                    return
                await lane.offer(socket)

    async def _give_credential(self, socket: NodeSocket, key: NodeKey, *, is_first: bool = True) -> NodeKey:
        """Have the node keep another credential; return the key by which it is known from now on."""
        try:
            credential = await self._keys.renew(key)
        except LimitExceeded:
            if key.is_code:
                raise
            credential = ""  # a full disk here costs no node: it keeps the one that it has
        message = (
            Welcome(node=key.node, credential=credential) if is_first else Renewed(credential=credential)
        )
        answer = await socket.welcome(message)
        if not (credential and answer.done):
            return key  # both count, and the next connection tries again
        return await self._keys.kept(key, credential, answer.labels)

    async def _check_alone(self, lane: Lane, socket: NodeSocket, key: NodeKey) -> None:
        """Refuse another machine that shows the credential of a node that lives.

        One that was invited anew may replace it.

        Raises:
            InvalidState: `node_busy`.
        """
        if key.is_code:
            return
        text = (
            f"Another machine is connected as {key.node!r} with the same credential; this one needs "
            "an invitation of its own."
        )
        spare = lane.ready()
        # A node whose machine was restarted has left a connection here that looks open: only an answer shows
        # that it lives.
        if spare is not None and spare.instance != socket.instance and lane.withdraw(spare):
            if await spare.lives():
                await lane.offer(spare)
                raise InvalidState("node_busy", text)
            spare.close()
        # Those in use are asked by whatever uses them, and ended within 4.5 s of silence. There may be no
        # spare: the node has not dialled the next one yet.
        if any(one.instance != socket.instance for one in lane.opened()):
            raise InvalidState("node_busy", text)


@contextlib.asynccontextmanager
async def _turn(lane: Lane, socket: NodeSocket) -> AsyncIterator[None]:
    """Hold the lock `entering` of a lane; a connection that ends waits no longer for it.

    Raises:
        EOFError: The connection has ended before.
    """
    patience = asyncio.timeout(None)

    async def watch() -> None:
        await socket.ended.wait()
        patience.reschedule(0)

    watching = asyncio.ensure_future(watch())
    try:
        async with patience:
            await lane.entering.acquire()
    except TimeoutError:
        raise EOFError from None
    finally:
        watching.cancel()
    try:
        yield
    finally:
        lane.entering.release()


async def _turn_away(websocket: WebSocket) -> None:
    """Refuse a connection before it is accepted, so that nothing it sends is read."""
    code = "node_busy"
    text = "Other connections with this code or credential wait to be let in."
    hint = "The node dials again by itself."
    with contextlib.suppress(WebSocketDisconnect):
        await send_error(
            websocket.scope, websocket.send, status=STATUS[code], error=code, message=text, hint=hint
        )
