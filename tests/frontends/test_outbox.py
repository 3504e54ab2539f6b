"""Where frames leave: through the extension in one write, else one by one; nothing after the close."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from starlette.websockets import WebSocket, WebSocketState

from outlive.core.cursor import Cursor
from outlive.frontends.jsonrpc.subscriptions import OutputFormat, Subscriptions
from outlive.protocols.jsonrpc.output import FrameHeads
from outlive.protocols.websocket_frames import binary_frame, text_frame
from outlive.server.http.websocket_io import MessageOutbox, RawOutbox, open_outbox
from tests.frontends.jsonrpc.following import TestOutbox, WrittenProcess

pytestmark = pytest.mark.anyio


class _Server:
    """The server's side of a WebSocket, with or without the extension."""

    def __init__(self, *, has_extension: bool) -> None:
        self.written: list[bytes] = []
        self.sent: list[Any] = []
        self.writable = asyncio.Event()
        self.writable.set()
        self.is_closed = False
        raw = {"put": self._put, "writable": self.writable, "is_closed": lambda: self.is_closed}
        scope = {"type": "websocket", "extensions": {"outlive.send_raw": raw} if has_extension else {}}
        self.websocket = WebSocket(scope, self._receive, self._send)
        self.websocket.client_state = self.websocket.application_state = WebSocketState.CONNECTED

    def _put(self, frames: bytes) -> None:
        assert not self.is_closed, "who writes has to ask before"
        self.written.append(frames)

    async def _receive(self) -> dict[str, Any]:
        raise AssertionError("an outbox only sends")

    async def _send(self, message: Any) -> None:  # noqa: ANN401 -- ASGI
        await asyncio.sleep(0)
        if self.is_closed:
            raise OSError("gone")
        self.sent.append(message.get("text") or message.get("bytes"))


async def test_the_extension_takes_many_frames_in_one_write() -> None:
    """S0.16: and makes a writer wait while the send buffer is full."""
    server = _Server(has_extension=True)
    outbox = open_outbox(server.websocket)
    assert isinstance(outbox, RawOutbox)
    assert outbox.is_ready
    outbox.write(b"ab")
    await outbox.send(b"cd")
    server.writable.clear()
    assert not outbox.is_ready
    waiting = asyncio.create_task(outbox.send(b"ef"))
    await asyncio.sleep(0)
    assert server.written == [b"ab", b"cd"]
    server.writable.set()
    await waiting
    await outbox.wait_ready()
    assert server.written == [b"ab", b"cd", b"ef"]


async def test_of_many_waiters_only_as_many_write_as_there_is_room() -> None:
    """S0.16: fifty loud processes of one slow client: each waits without frames in its hands."""
    server = _Server(has_extension=True)
    outbox = open_outbox(server.websocket)
    server.writable.clear()
    woken: list[int] = []

    async def wait_and_fill(number: int) -> None:
        await outbox.wait_ready()
        woken.append(number)
        server.writable.clear()

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(wait_and_fill(number))
        for count in (1, 2, 3):
            await asyncio.sleep(0)
            server.writable.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(woken) == count
    assert sorted(woken) == [0, 1, 2]


async def test_an_answer_leaves_together_with_what_follows_it_at_once() -> None:
    """S0.4: the answer first, and its client is woken once."""
    server = _Server(has_extension=True)
    outbox = open_outbox(server.websocket)
    await outbox.send(b"answer,", (lambda: outbox.write(b"started,"), lambda: outbox.write(b"more")))
    assert server.written == [b"answer,started,", b"more"]
    called: list[str] = []
    await outbox.send(b"alone", (lambda: called.append("then"),))
    assert server.written[2:] == [b"alone"]

    def fail() -> None:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        await outbox.send(b"answer of a broken one", (fail,))
    outbox.write(b"next")
    assert server.written[3:] == [b"answer of a broken one", b"next"]
    server.is_closed = True
    await outbox.send(b"too late", (lambda: called.append("late"),))
    assert called == ["then", "late"]
    assert len(server.written) == 5


async def test_what_follows_an_answer_happens_where_messages_are_sent_one_by_one() -> None:
    server = _Server(has_extension=False)
    outbox = open_outbox(server.websocket)
    await outbox.send(text_frame(b"answer"), (lambda: server.sent.append("then"),))
    assert server.sent == ["answer", "then"]


async def test_after_the_close_nothing_is_written() -> None:
    server = _Server(has_extension=True)
    outbox = open_outbox(server.websocket)
    server.is_closed = True
    assert outbox.is_closed
    assert not outbox.is_ready
    await outbox.send(b"y")
    assert server.written == []


async def test_without_the_extension_frames_go_one_by_one_and_stay_together() -> None:
    """Two senders at once: the frames of one are not mixed with the other's."""
    server = _Server(has_extension=False)
    outbox = open_outbox(server.websocket)
    assert isinstance(outbox, MessageOutbox)
    assert not outbox.is_ready
    await outbox.wait_ready()
    await asyncio.gather(
        outbox.send(text_frame(b"1") + binary_frame(b"\xff") + text_frame(b"2")),
        outbox.send(text_frame(b"3")),
    )
    assert server.sent == ["1", b"\xff", "2", "3"]
    with pytest.raises(AssertionError):
        outbox.write(b"")


async def test_without_the_extension_a_client_that_is_gone_is_noticed() -> None:
    server = _Server(has_extension=False)
    outbox = open_outbox(server.websocket)
    server.is_closed = True
    assert not outbox.is_closed
    await outbox.send(text_frame(b"1") + text_frame(b"2"))
    assert outbox.is_closed


async def test_news_go_to_clients_that_follow_and_read(tmp_path: Path) -> None:
    """S0.10: a control by somebody else.

    Not to who does not follow, not behind the end, not into a full buffer.
    """
    written, outbox = WrittenProcess(tmp_path), TestOutbox()
    process_id = written.process.process_id

    def news(cursor: Cursor) -> bytes:
        return b'{"method":"process.paused","params":{"cursor":"%s"}}' % str(cursor).encode()

    async with asyncio.TaskGroup() as group:

        def spawn(work: Coroutine[None, None, None]) -> None:
            group.create_task(work)

        subscriptions = Subscriptions(outbox, FrameHeads(), spawn=spawn, fail=lambda: None)
        subscriptions.announce(process_id, news)
        assert outbox.sent == b""
        subscriptions.follow(written.process, Cursor(), OutputFormat("lines", 100))
        written.write(b"one\n")
        subscriptions.announce(process_id, news)
        assert outbox.messages[-1]["params"] == {"cursor": "4.0"}
        outbox.writable.clear()
        subscriptions.announce(process_id, news)
        outbox.writable.set()
        written.end()
        subscriptions.announce(process_id, news)
        assert outbox.methods == ["output", "paused", "completed"]
        assert subscriptions.undelivered() == {}
        subscriptions.follow(written.process, Cursor(), OutputFormat("chunk", 100))
        assert outbox.methods[3:] == ["output", "completed"]
        subscriptions.close()
