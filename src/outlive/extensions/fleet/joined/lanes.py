"""The connections of nodes that dial in: `JoinedNodes` has a `Lane` for each, where one lies ready and `take`
gets it.

A node keeps one connection here that nothing is said over, its spare. A caller that needs a connection to the
node takes the spare, and the node dials the next one. Which machine may bring one is decided where they come
in (`door`). What is said over it later is the client's: here frames are only read, so that an end is
noticed also while no caller waits for one.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Mapping

from starlette.websockets import WebSocket, WebSocketDisconnect

from outlive.core.errors import BackendUnavailable, OutliveError, ProtocolViolation
from outlive.extensions.fleet.joined.messages import (
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

_KEPT_S = 10.0  # to write a small file; a disk that takes longer is no place for commands either
_LIVES_S = 3.0  # as long as a node may take to answer a heartbeat (`extensions.fleet.link`)
# of up to 256 KiB that wait in memory, as in the client's own connections; the rest stays in the socket
_FRAMES = 4
_HELD_BYTES = 1024 * 1024  # and of larger ones: what waits beside one frame, however many of them there are
_SMALL_BYTES = 64 * 1024  # of a frame before a session: `kept` with the labels that people write
POLICY_VIOLATION = 1008


class NodeSocket:
    """One connection that a node has opened; `read` has to run, and one caller at a time uses it.

    Attributes:
        instance: Names the server of the node for as long as that lives.
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
                await self._websocket.close(POLICY_VIOLATION)
        self.close()

    async def _say(self, message: ToNode) -> None:
        await self.send(encode_joined(message))


class Lane:
    """The connections of one node. On the event loop only.

    Attributes:
        entering: Held while a connection is let in: one after another, since each changes the node's
            credential.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.entering = asyncio.Lock()
        self._open: set[NodeSocket] = set()
        self._spare: NodeSocket | None = None
        self._came = asyncio.Condition()

    def __str__(self) -> str:
        """Return how it is named where others have an address."""
        return f"the node {self.name!r}, which dials in"

    def opened(self) -> list[NodeSocket]:
        """Return those that have not ended."""
        self._open = {one for one in self._open if not one.is_closed}
        return list(self._open)

    async def offer(self, spare: NodeSocket) -> None:
        """Take in a connection that nothing is said over.

        It takes the place of an earlier one, which ends.
        """
        async with self._came:
            old, self._spare = self._spare, spare
            self._open.add(spare)
            if old is not None and old is not spare:
                old.close()
            self._came.notify_all()

    def withdraw(self, spare: NodeSocket) -> bool:
        """Take this very one out if it still lies ready, so that no other caller uses it; `offer` puts it
        back.
        """
        if self._spare is not spare or spare.is_closed:
            return False
        self._spare = None
        return True

    def ready(self) -> NodeSocket | None:
        """Return the one that lies ready."""
        return None if self._spare is None or self._spare.is_closed else self._spare

    async def take(self, *, patience_s: float) -> NodeSocket:
        """Return the one that lies ready, waiting for it.

        Raises:
            BackendUnavailable: `server_unavailable`: none came in time.

        Cancellation: safe.
        """
        try:
            async with asyncio.timeout(patience_s), self._came:
                while True:
                    found, self._spare = self.ready(), None
                    if found is not None:
                        return found
                    await self._came.wait()
        except TimeoutError as error:
            text = "It dials in by itself, and has not (again)."
            raise BackendUnavailable("server_unavailable", text) from error

    def close(self) -> None:
        """End all of them."""
        for one in self.opened():
            one.close()
        self._open.clear()
        self._spare = None


class JoinedNodes:
    """The lanes by name."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}

    def lane(self, name: str) -> Lane:
        """Return the lane of a node."""
        if name not in self._lanes:
            self._lanes[name] = Lane(name)
        return self._lanes[name]

    def forget(self, name: str) -> None:
        """End all connections of a node."""
        lane = self._lanes.pop(name, None)
        if lane is not None:
            lane.close()

    def close(self) -> None:
        """End all connections of all nodes."""
        for lane in self._lanes.values():
            lane.close()
