"""Another server as a node of this one: `NodeClient` for requests in the wire's own words, `AsyncFeed` for
its events and output.

The rest of this folder writes what comes to files and decides when to try again;
nothing is kept here. A feed never connects again by itself: it reports the loss, and another one is opened
and attached at the files' ends. Messages that are not taken are kept up to `channel`'s bound.
"""

import contextlib
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar, cast

from outlive.client.channel import ClientConnection, greet
from outlive.client.link import Link, Way
from outlive.client.messages import FollowedMessage, OutputPiece, read_info, read_page
from outlive.client.options import StartOptions, execute_params
from outlive.client.results import Page, ProcessInfo
from outlive.client.runtime import ConnectionLost, Runtime, Unreachable
from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, BackendUnavailable, OutliveError
from outlive.core.identity import ProcessId

_T = TypeVar("_T")

_FEED_ANSWER_S = 20.0
# What changes a process. That one was started is said of those that are followed (`Begun`), in a tenth of the
# bytes.
_EVENTS = ("queued", "recovered", "paused", "resumed", "stopping", "ended", "closed", "removed")
_BATCH_BYTES = 2 * 1024 * 1024
_ANSWER_S = 45.0  # longer than any deadline over there; a start's is 25 s, a write's 30 s
_PAGE_BYTES = 256 * 1024  # the largest page
_PATIENCE_S = 3.0  # enough to open a cut connection again; a node that stays away is handled by `link`


class AsyncFeed:
    """The messages of one connection.

    `hear` is for one task; other tasks may call `attach` and `beat` meanwhile.

    Attributes:
        is_raw: Whether output comes with its secrets; False where the node does not show them to this caller.
    """

    def __init__(self, channel: ClientConnection) -> None:
        self._channel = channel
        self.is_raw = channel.hello.scope == "admin"

    def expect(self, process_id: str) -> dict[str, object]:
        """Return what a start says so that its output comes over this connection from its beginning, without
        an `attach`.
        """
        self._channel.followed.add(process_id)
        asked: dict[str, object] = {"output": "binary", "output_session": self._channel.hello.session_id}
        return asked | {"raw": True} if self.is_raw else asked

    def follows(self, process_id: str) -> bool:
        """Return whether a process's output comes over this connection."""
        return process_id in self._channel.followed

    def leave(self, process_id: str) -> None:
        """Pass on nothing more about a process."""
        self._channel.followed.discard(process_id)

    async def listen(self) -> None:
        """Receive what changes processes from now on.

        Raises:
            BackendUnavailable: `server_lost`, `timeout`.
        """
        await self._passing(
            self._channel.listen({"events": _EVENTS, "distinct": True}, answer_s=_FEED_ANSWER_S)
        )

    async def attach(self, process_id: str, cursor: Cursor) -> None:
        """Receive a process's output from `cursor` on, beside everything else; `Attached` comes
        first.

        The process's state is a message and not returned: a caller that wakes late would take it
        for newer than the events that came meanwhile.

        Raises:
            BackendUnavailable: `server_lost`, `timeout`.
            ProcessNotFound: The node does not know it, or does not show it to this caller.
        """
        if self.is_raw:
            try:
                await self._attach(process_id, cursor, raw=True)
            except AccessDenied:
                self.is_raw = False
            else:
                return
        await self._attach(process_id, cursor, raw=False)

    async def _attach(self, process_id: str, cursor: Cursor, *, raw: bool) -> None:
        asking = self._channel.attach(process_id, cursor, answer_s=_FEED_ANSWER_S, raw=raw, beside=True)
        await self._passing(asking)

    async def describe(self) -> Mapping[str, Any]:
        """Return what the node's own machine has for commands (`local` of its `nodes`).

        Raises:
            BackendUnavailable: `server_lost`, `timeout`.
        """
        answer = await self._passing(self._channel.request("nodes", {}, answer_s=_FEED_ANSWER_S))
        found: Mapping[str, Any] = answer["local"]
        return found

    async def beat(self, *, answer_s: float) -> None:
        """Return when the node has answered a small request (a heartbeat).

        Raises:
            BackendUnavailable: No answer came in time.
        """
        await self._passing(self._channel.request("nodes", {}, answer_s=answer_s))

    async def hear(self) -> list[FollowedMessage | None]:
        """Wait for messages, and return them in their order: at most some 2 MiB.

        None, the last one, stands for messages that were dropped: then the caller has to attach every process
        again, at its cursor.

        Raises:
            BackendUnavailable: `server_lost`: the connection has ended.
        """
        messages: list[FollowedMessage | None] = []
        size = 0
        try:
            while True:
                message = await self._channel.next_message()
                messages.append(message)
                size += len(message.data) if isinstance(message, OutputPiece) else 0
                if message is None or size >= _BATCH_BYTES or not self._channel.has_message:
                    return messages
        except ConnectionLost as lost:
            raise BackendUnavailable("server_lost", str(lost)) from lost

    async def close(self) -> None:
        """End the connection. Safe to repeat."""
        await self._channel.close()

    @staticmethod
    async def _passing(asking: Awaitable[_T]) -> _T:
        try:
            return await asking
        except ConnectionLost as lost:
            raise BackendUnavailable("server_lost", str(lost)) from lost


class NodeClient:
    """One node; nothing is opened before it is needed. Used from one event loop."""

    def __init__(self, address: Way, *, world: Runtime) -> None:
        self._address = address
        self._world = world
        self._link = Link(self._address, world, patience_s=_PATIENCE_S)
        # Files have a connection of their own: a start waits behind no megabytes of theirs.
        self._bulk = Link(self._address, world, patience_s=_PATIENCE_S)

    async def execute(
        self, words: Mapping[str, object], *, process_id: str, subscription: Mapping[str, object]
    ) -> Mapping[str, Any]:
        """Start a command under a process id, only once for any number of calls.

        Return the answer of `execute`.

        Args:
            words: `command` or `argv`, and any of `StartOptions`.
            process_id: Its id on this server and on the node.
            subscription: Where its output goes (`AsyncFeed.expect`).

        Raises:
            OutliveError: What the node answered, or `server_unavailable`.
        """
        options = dict(words)
        line, argv = options.pop("command", None), options.pop("argv", None)
        command = [str(word) for word in argv] if isinstance(argv, list) else str(line)
        params = execute_params(command, cast("StartOptions", options), process_id=ProcessId(process_id))
        return await self._link.request("execute", {**params, **subscription}, answer_s=_ANSWER_S)

    async def request(
        self, method: str, params: Mapping[str, object], *, is_repeatable: bool = True
    ) -> Mapping[str, Any]:
        """Send a request of docs/jsonrpc.md; see `Link.request`."""
        return await self._link.request(method, params, is_repeatable=is_repeatable, answer_s=_ANSWER_S)

    async def files(
        self, method: str, params: Mapping[str, object], data: bytes | memoryview
    ) -> Mapping[str, Any]:
        """Ask a method about files, which may be repeated; `data` goes along with a piece that is written.

        The bytes of a piece that is read are the member `data`.

        Raises:
            OutliveError: What the node answered, or `server_unavailable`.
        """
        if method == "file_read":
            params = {**params, "encoding": "binary"}
        return await self._bulk.request(method, params, answer_s=_ANSWER_S, data=data)

    async def write(self, process_id: str, data: memoryview) -> int:
        """Write the beginning of `data` to a process's input, as large a piece as the node takes, and return
        its size.

        Raises:
            LimitExceeded: `stdin_full`: the details count the bytes of that piece that were written, and
            those that wait.
            BackendUnavailable: `server_lost`: whether the piece was written is not known.
        """
        return await self._link.write(process_id, data, answer_s=_ANSWER_S)

    async def get(self, process_id: str, *, stats: bool = False) -> ProcessInfo:
        """Return the node's description of a process.

        Raises:
            ProcessNotFound: The node does not know it, or does not show it to this caller.
        """
        return read_info(await self.request("get", {"process_id": process_id, "stats": stats}))

    async def read(self, process_id: str, cursor: Cursor, *, raw: bool) -> Page:
        """Return recorded output from `cursor` on; `raw` hides no secrets, and needs the scope admin."""
        params: dict[str, object] = {
            "process_id": process_id,
            "cursor": str(cursor),
            "limit": _PAGE_BYTES,
            "encoding": "base64",
            "raw": raw,
        }
        return read_page(await self.request("read", params), cursor)

    async def feed(self) -> AsyncFeed:
        """Open a connection for events and output.

        Raises:
            BackendUnavailable: `server_unavailable`: no server answers there now.
            OutliveError: The node does not let this caller in, or is no outlive server.
        """
        try:
            return AsyncFeed(await greet(await self._address.dial(self._world, {}), self._world))
        except (Unreachable, ConnectionLost) as error:
            text = f"No server answers at {self._address}: {error}."
            raise BackendUnavailable("server_unavailable", text) from error

    async def open(self) -> None:
        """Open the connection for requests now: the first one then waits for no handshake.

        Where that fails it says why.
        """
        with contextlib.suppress(OutliveError):
            await self._link.channel()

    async def reset(self) -> None:
        """Give up the connection for requests; the next one opens another."""
        await self._link.drop()
        await self._bulk.drop()

    async def close(self) -> None:
        """Close the connection for requests; a call that still waits raises `server_unavailable`."""
        await self._link.close()
        await self._bulk.close()
