"""Where nodes dial in: `NodeDoor`, one WebSocket path, and `NodeSocket`, one connection that came there.

The guard has checked that the caller shows a code or a credential. Here it gets its next credential, a second
machine with the same one is told from a node that has come back, and the connection becomes its lane's spare
(decision 211). What is said over it later is the client's: here frames are only read, so that an end is
noticed also while no caller waits for one.

Whatever a machine with one code sends, it costs little: few connections of a node wait to be let in, and each
holds one small frame until it is used.
"""

import asyncio
import contextlib
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Mapping

from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.exceptions import WebSocketException

from outlive.backends.remote.joined import JoinedNodes, Lane
from outlive.core.errors import InvalidState, LimitExceeded, OutliveError, ProtocolViolation
from outlive.engine.machines.node_keys import NodeKey, NodeKeys
from outlive.protocols.joined import (
    INSTANCE_HEADER,
    NODE_PATH,
    Here,
    Kept,
    NotLetIn,
    Probe,
    Renewed,
    ServeNow,
    ToNode,
    Welcome,
    encode_joined,
    read_for_gateway,
)
from outlive.server.access.authenticator import credentials
from outlive.server.access.peers import PEER
from outlive.server.access.web_pages import values_of
from outlive.server.error_formats import STATUS, send_error

_logger = logging.getLogger(__name__)

_KEPT_S = 10.0  # to write a small file; a disk that takes longer is no place for commands either
_LIVES_S = 3.0  # as long as a node may take to answer a heartbeat (`backends.remote.link`)
_RENEWED_S = 86400.0  # a node that stays connected for months gets another credential each day
# of up to 256 KiB that wait in memory, as in the client's own connections; the rest stays in the socket
_FRAMES = 4
_HELD_BYTES = 1024 * 1024  # and of larger ones: what waits beside one frame, however many of them there are
_SMALL_BYTES = 64 * 1024  # of a frame before a session: `kept` with the labels that people write
# A node dials one connection at a time; more of them wait only where its link was cut and it has come back
# meanwhile.
_MOST_WAITING = 4
_POLICY_VIOLATION = 1008


class NodeSocket:
    """One connection that a node has opened (see `DialledIn`); `read` has to run.

    Attributes:
        ended: Set once it has ended, or is to end.
        is_lost: Whether the other side has ended it.
    """

    def __init__(self, websocket: WebSocket, instance: str) -> None:
        self.instance = instance
        self.ended = asyncio.Event()
        self.is_lost = False
        self._websocket = websocket
        self._frames: deque[str | bytes] = deque()
        self._held_bytes = 0  # of those
        self._is_used = False
        self._came = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def is_closed(self) -> bool:
        """Whether it has ended, or is to end."""
        return self.ended.is_set()

    @property
    def _is_full(self) -> bool:
        if not self._is_used:
            return bool(self._frames)
        return len(self._frames) >= _FRAMES or self._held_bytes > _HELD_BYTES

    async def read(self) -> None:
        """Take frames until the connection ends; waits while no caller takes them, and so does the node.

        Before a session one small frame is taken at a time: a larger one ends it.
        """
        try:
            while not self.is_closed:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    self.is_lost = True
                    return
                text = message.get("text")
                frame = message["bytes"] if text is None else text
                if not self._is_used and len(frame) > _SMALL_BYTES:
                    return
                self._frames.append(frame)
                self._held_bytes += len(frame)
                self._came.set()
                while self._is_full and not self.is_closed:
                    self._room.clear()
                    await self._room.wait()
        except (WebSocketDisconnect, RuntimeError):  # RuntimeError: starlette's word for "closed already"
            return
        finally:
            self.close()

    async def begin(self, query: Mapping[str, str]) -> None:
        """Ask the node to serve a session."""
        self._is_used = True
        self._room.set()
        await self._say(ServeNow(query=dict(query)))

    async def send(self, frame: str | bytes) -> None:
        """Send a message."""
        if self.is_closed:
            raise EOFError
        try:
            if isinstance(frame, str):
                await self._websocket.send_text(frame)
            else:
                await self._websocket.send_bytes(bytes(frame))
        except (WebSocketDisconnect, RuntimeError) as error:
            self.close()
            raise EOFError from error

    async def receive(self, timeout_s: float | None) -> str | bytes:
        """Return the next message; what has come is passed on first, the end afterwards."""
        if not self._frames:
            async with asyncio.timeout(timeout_s):
                while not self._frames:
                    if self.is_closed:
                        raise EOFError
                    self._came.clear()
                    await self._came.wait()
        frame = self._frames.popleft()
        self._held_bytes -= len(frame)
        self._room.set()
        return frame

    def close(self) -> None:
        """End it."""
        self.ended.set()
        self._came.set()
        self._room.set()

    async def welcome(self, message: Welcome | Renewed) -> Kept:
        """Give the node a credential, and return its answer once it has kept it.

        Raises:
            EOFError: It has ended.
            TimeoutError: No answer came.
            ProtocolViolation: The answer is another one.
        """
        await self._say(message)
        answer = read_for_gateway(await self.receive(_KEPT_S))
        if not isinstance(answer, Kept):
            raise ProtocolViolation(
                "invalid_request", "A node answered something else than that it has kept it."
            )
        return answer

    async def lives(self) -> bool:
        """Return whether the node answers on it."""
        try:
            await self._say(Probe())
            return isinstance(read_for_gateway(await self.receive(_LIVES_S)), Here)
        except (EOFError, TimeoutError, ProtocolViolation):
            return False

    async def refuse(self, error: OutliveError) -> None:
        """Say why the node is not let in, and end."""
        with contextlib.suppress(EOFError, TimeoutError, WebSocketDisconnect, RuntimeError):
            async with asyncio.timeout(_LIVES_S):
                await self._say(NotLetIn(error=error.code, message=error.message))
                await self._websocket.close(_POLICY_VIOLATION)
        self.close()

    async def _say(self, message: ToNode) -> None:
        await self.send(encode_joined(message))


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
            await websocket.close(_POLICY_VIOLATION)  # removed since the guard has looked
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
        if isinstance(spare, NodeSocket) and spare.instance != socket.instance and lane.withdraw(spare):
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
