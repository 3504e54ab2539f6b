"""Our own extension: it says who it is, shows terminals of the engine's, and may open some itself (decision
100).
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.attacks.attacking import Requests, create_token
from tests.extensions.bridge.extension import DocumentExtension, Message, dialling
from tests.extensions.bridge.knocking import Door
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

_OURS = {"Outlive-Extension": "1"}


class _Own(DocumentExtension):
    """An extension that keeps what it is told, and answers what the document has."""

    def answers(self, message: Message) -> list[str]:
        """Answer; what is only told asks for nothing."""
        told = {"show_terminal", "terminals", "terminal_closed", "terminal_created", "error"}
        return [] if message["type"] in told else super().answers(message)

    def heard(self, kind: str) -> list[Message]:
        """Return what came of a type."""
        return [one for one in self.received if one["type"] == kind]

    async def next(self, kind: str, count: int = 1) -> Message:
        """Return the n-th message of a type, when it has come."""
        await self.until(lambda: len(self.heard(kind)) >= count)
        return self.heard(kind)[count - 1]


@asynccontextmanager
async def _showing(url: str) -> AsyncIterator[_Own]:
    own = _Own()
    async with dialling(url, own, additional_headers=_OURS):
        yield own


@pytest.fixture
def with_engine(serve: ServerFactory) -> OutliveServer:
    """A server with terminals of its own."""
    return serve()


@pytest.mark.promise("S3.6", "S3.7")
async def test_a_terminal_for_vs_code_lives_in_the_engine_and_is_shown_there(
    with_engine: OutliveServer,
) -> None:
    door = Door(with_engine)
    async with _showing(with_engine.bridge_url) as extension:
        assert (await extension.next("terminals"))["data"] == {"terminals": []}
        made = await door("create", name="Build", cwd="/")
        terminal_id = made["terminal_id"]
        assert made["target"] == "engine"
        shown = await extension.next("show_terminal")
        seen = {"terminalId": terminal_id, "terminalName": "Build", "path": f"/ws/terminal/{terminal_id}"}
        assert shown == {"type": "show_terminal", "id": shown["id"], "data": seen}
        # By whichever host somebody comes, it is the engine's terminal.
        for find in (True, False):
            done = await door("execute", terminal_id=terminal_id, command="pwd; (exit 7)", find=find)
            assert (done["output"], done["exit_code"]) == ("/\n", 7)
            await door("resize", terminal_id=terminal_id, find=find)
            await door("write", terminal_id=terminal_id, text="echo typed\n", find=find)
            async with asyncio.timeout(10):
                while "\ntyped\n" not in (await door("read", terminal_id=terminal_id, find=find))["text"]:  # noqa: ASYNC110 -- asked over HTTP
                    await asyncio.sleep(0.05)
        await door("close", terminal_id=terminal_id, find=False)
        closed = await extension.next("terminal_closed")
        assert closed == {"type": "terminal_closed", "id": closed["id"], "data": {"terminalId": terminal_id}}
        assert extension.executed == []
        ids = [one["id"] for one in extension.received]
        assert len(set(ids)) == len(ids)


@pytest.mark.promise("S3.6")
async def test_it_is_told_its_principals_terminals_when_it_connects(with_engine: OutliveServer) -> None:
    door = Door(with_engine)
    token = await asyncio.to_thread(create_token, with_engine, "run", name="other")
    mine = await door("create", target="engine", name="mine")
    theirs = await Door(with_engine, token)("create", target="engine", name="theirs")
    gone = await door("create", target="engine", name="gone")
    await door("close", terminal_id=gone["terminal_id"])
    async with asyncio.timeout(10):
        while len(await door("terminals")) > 1:  # noqa: ASYNC110 -- asked over HTTP
            await asyncio.sleep(0.05)
    for url, own in ((with_engine.bridge_url, mine), (f"{with_engine.bridge_url}/?token={token}", theirs)):
        async with _showing(url) as extension:
            told = await extension.next("terminals")
            assert [one["terminalId"] for one in told["data"]["terminals"]] == [own["terminal_id"]]
            assert told["data"]["terminals"][0]["terminalName"] == own["terminal_name"]
            # What it was told of on connect it is told the end of, too; of others' it hears nothing.
            await asyncio.to_thread(_end, with_engine, own["terminal_id"], token if own is theirs else None)
            closed = await extension.next("terminal_closed")
            assert closed["data"] == {"terminalId": own["terminal_id"]}
            assert len(extension.heard("terminal_closed")) == 1


def _end(server: OutliveServer, process_id: str, token: str | None) -> None:
    reply = Requests(server, token)(
        "POST", f"/v1/processes/{process_id}/control", body={"action": "cancel", "grace": 0}
    )
    assert reply.status == 200, reply


@pytest.mark.promise("S3.6")
async def test_it_opens_terminals_of_the_engines_by_itself(with_engine: OutliveServer) -> None:
    door = Door(with_engine)
    async with _showing(with_engine.bridge_url) as extension:
        await extension.say(
            json.dumps({"type": "create_terminal", "id": "7", "data": {"terminalName": "x", "cwd": "/"}})
        )
        made = await extension.next("terminal_created")
        (known,) = await door("terminals")
        terminal_id = known["terminal_id"]
        seen = {"terminalId": terminal_id, "terminalName": "x", "path": f"/ws/terminal/{terminal_id}"}
        assert made == {"type": "terminal_created", "id": "7", "data": seen}
        assert known["target"] == "engine"
        await extension.say(
            json.dumps({"type": "create_terminal", "id": "8", "data": {"cwd": "/no/such/folder"}})
        )
        refused = await extension.next("error")
        assert (refused["id"], refused["data"]["code"]) == ("8", "cwd_missing")
        assert all(refused["data"][member] for member in ("error", "hint"))
        await extension.say(json.dumps({"type": "create_terminal", "id": "9", "data": {"cwd": 9}}))
        await door("close", terminal_id=terminal_id)
        await extension.next("terminal_closed")


@pytest.mark.promise("S3.6")
async def test_a_server_without_terminals_of_its_own_says_so(serve: ServerFactory) -> None:
    server = serve(OUTLIVE_TEST_NO_ENGINE_TERMINALS="1")
    async with _showing(server.bridge_url) as extension:
        assert (await extension.next("terminals"))["data"] == {"terminals": []}
        await extension.say('{"type":"create_terminal","id":"1"}')
        assert (await extension.next("error"))["data"]["code"] == "no_terminal_host"
        assert (await Door(server).refusal("create")).code == "no_terminal_host"


@pytest.mark.promise("S3.6")
async def test_another_principals_window_shows_nothing_of_ours(with_engine: OutliveServer) -> None:
    token = await asyncio.to_thread(create_token, with_engine, "run", name="other")
    url = f"{with_engine.bridge_url}/?token={token}"
    async with _showing(url):
        assert (await Door(with_engine).refusal("create")).code == "no_terminal_host"


@pytest.mark.promise("S3.2")
async def test_an_extension_that_says_nothing_of_itself_hears_nothing_new(with_engine: OutliveServer) -> None:
    door = Door(with_engine)
    async with dialling(with_engine.bridge_url) as extension:
        made = await door("create", target="engine")
        two = await door("create")
        await door("execute", terminal_id=two["terminal_id"], command="date")
        await door("close", terminal_id=made["terminal_id"])
        assert {one["type"] for one in extension.received} == {"create_terminal", "execute"}


@pytest.mark.promise("S3.8")
async def test_many_wanted_at_once_are_bounded(with_engine: OutliveServer) -> None:
    async with _showing(with_engine.bridge_url) as extension:
        await extension.next("terminals")
        for number in range(100):
            await extension.say(json.dumps({"type": "create_terminal", "id": f"w{number}"}))
        await extension.until(
            lambda: len(extension.heard("terminal_created")) >= 8 and len(extension.heard("error")) >= 1
        )
        for answer in extension.heard("error"):
            assert answer["data"]["code"] == "rate_limited"
