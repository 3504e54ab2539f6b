"""The stream of events by itself, without a server: silence is broken, and waiting ends when it should."""

import asyncio

import anyio
import pytest
from starlette.types import Message

from outlive.frontends.mcp.http import exchange as responses
from outlive.frontends.mcp.http.exchange import EventStream
from outlive.protocols.sse import COMMENT


async def test_a_silent_stream_says_that_it_lives_until_its_answer_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responses, "_QUIET_S", 0.01)
    sent: list[bytes] = []
    heard_twice = asyncio.Event()

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))
        if sent.count(COMMENT) == 2:
            heard_twice.set()

    stream = EventStream(send)
    async with asyncio.TaskGroup() as tasks:
        never = tasks.create_task(asyncio.Event().wait())
        with anyio.fail_after(20):
            await stream.until_first({never, tasks.create_task(heard_twice.wait())})
        never.cancel()
    assert sent[0] == b""  # the head, which the first comment has begun
    assert set(sent[1:]) == {COMMENT}


async def test_an_answer_that_comes_soon_finds_a_stream_that_has_not_begun() -> None:
    async def send(message: Message) -> None:
        raise AssertionError(message)

    stream = EventStream(send)
    with anyio.fail_after(20):
        await stream.until_first({asyncio.ensure_future(asyncio.sleep(0))})
    assert not stream.has_begun
