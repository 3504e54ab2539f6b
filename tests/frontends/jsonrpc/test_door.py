"""The door over plain ASGI: every answer, every refusal, every way a client can leave and come back."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlive.core.errors import BackendUnavailable, InvalidState
from outlive.core.process import Owner
from outlive.frontends.jsonrpc.connection import Connection
from outlive.frontends.jsonrpc.subscriptions import Subscription
from tests.frontends.jsonrpc.playing import SETTINGS, Client, House, PlayedEngine, opened

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with opened(PlayedEngine(tmp_path)) as house:
        yield house


@pytest.fixture
async def client(house: House) -> AsyncIterator[Client]:
    async with house.client() as client:
        yield client


async def test_without_the_extension_everything_arrives_message_by_message(
    house: House, client: Client
) -> None:
    """S0.4: the order of the promise; text and binary frames."""
    process_id = await client.execute(output="binary")
    written = house.engine.written(process_id)
    assert (await client.notification("process.started"))["cursor"] == "0.0"
    written.write(b"a\n")
    frame = await client.from_server.get()
    assert frame["bytes"].endswith(b"\na\n")
    written.end(3)
    completed = await client.notification("process.completed")
    assert (completed["exit_code"], completed["cursor"]) == (3, "2.0")


@pytest.mark.parametrize("verb", ["PAUSE", "RESUME", "CANCEL"])
async def test_what_a_control_causes_comes_behind_its_answer(house: House, client: Client, verb: str) -> None:
    """S0.4, S0.10: even when the process ends before the answer is written."""
    process_id = await client.execute()
    written = house.engine.written(process_id)
    asked = asyncio.create_task(client.ask("control", type=verb))
    await house.engine.until_called(verb.lower())
    written.write(b"bye\n")
    written.end()
    await asked
    await client.notification("process.completed")
    word = {"PAUSE": "paused", "RESUME": "resumed", "CANCEL": "cancelled"}[verb]
    kinds = [message.get("method", "response") for message in client.seen]
    assert kinds[-4:] == ["response", f"process.{word}", "process.output", "process.completed"]


@pytest.mark.parametrize(
    ("method", "params"), [("control", {"type": "CANCEL"}), ("signal", {"signal": "TERM"})]
)
async def test_a_control_that_fails_holds_nothing_back(
    house: House, client: Client, method: str, params: dict[str, object]
) -> None:
    """S0.11: the stream goes on behind the error."""
    process_id = await client.execute()
    house.engine.failure = InvalidState("process_ended", "It has ended.")
    answer = await client.ask(method, **params)
    assert answer["error"]["data"]["reason"] == "process_ended"
    house.engine.failure = None
    house.engine.written(process_id).write(b"on\n")
    assert (await client.notification("process.output"))["data"] == "on\n"


async def test_other_watchers_hear_of_a_control(house: House, client: Client) -> None:
    """S0.10: a detached process is watched by several; each hears it once, with its own cursor."""
    process_id = await client.execute(detach=True)
    async with house.client() as watcher:
        await watcher.ask("attach", process_id=process_id)
        async with house.client() as stranger:
            await client.ask("control", type="PAUSE")
            house.engine.written(process_id).end()
            await watcher.notification("process.completed")
            await stranger.ask("list")
            methods = [message.get("method") for message in stranger.seen]
    assert methods == ["connected", None]
    assert "process.paused" not in [
        message.get("method") for message in watcher.seen
    ]  # no raw outbox: not ready


async def test_every_method_reaches_the_engine(house: House, client: Client) -> None:
    """S0.19: with the running process when none is named."""
    process_id = await client.execute(stdin="pipe")
    data = base64.b64encode(b"\xff").decode()
    assert (await client.ask("write", data="ä"))["result"] == {"written": 2}
    assert (await client.ask("write", data=data, encoding="base64"))["result"] == {"written": 1}
    assert (await client.ask("write", data="?", encoding="base64"))["error"]["code"] == -32602
    assert (await client.ask("close_stdin"))["result"] == {"status": "closed"}
    assert (await client.ask("resize", rows=3, cols=4))["result"] == {"rows": 3, "cols": 4}
    assert (await client.ask("signal", signal="usr1", whole_tree=True))["result"]["signal"] == 10
    assert (await client.ask("signal", signal=2, whole_group=True))["result"]["signal"] == 2
    assert (await client.ask("signal", signal=2, whole_group=True, whole_tree=True))["error"][
        "code"
    ] == -32602
    assert (await client.ask("close_output", type="stderr"))["result"] == {"status": "closed"}
    assert (await client.ask("close_output", type="other"))["error"]["code"] == -32602
    assert (await client.ask("release", unbound=True))["result"] == {"status": "released"}
    assert (await client.ask("release", cursor="9.0"))["error"]["data"]["reason"] == "invalid_cursor"
    assert (await client.ask("signal", signal=0))["error"]["code"] == -32602
    assert (await client.ask("get"))["result"]["process_id"] == process_id
    assert (await client.ask("wait", wait_s=0))["result"]["timed_out"] is True
    assert [call for call, _ in house.engine.calls if not call.startswith(("start", "wait"))] == [
        "write b'\\xc3\\xa4'",
        "write b'\\xff'",
        "close_stdin",
        "resize 3 4",
        "signal 10 tree",
        "signal 2 group",
        "close_output 1",
        "release 0 0 True",
    ]


async def test_read_gives_pages_and_refuses_cursors_behind_the_end(house: House, client: Client) -> None:
    """S0.19 read: `more` and `completed` tell how it goes on."""
    process_id = await client.execute()
    written = house.engine.written(process_id)
    written.write(b"one\ntwo\xe2")
    page = (await client.ask("read", limit=4))["result"]
    assert (page["chunks"][0]["data"], page["cursor"], page["more"]) == ("one\n", "4.0", True)
    page = (await client.ask("read", cursor="4.0"))["result"]
    assert (page["chunks"][0]["data"], page["cursor"], page["completed"]) == ("two", "7.0", False)
    written.end()
    page = (await client.ask("read", process_id=process_id, cursor="7.0"))["result"]
    assert (page["chunks"][0]["data"], page["cursor"], page["more"]) == ("\ufffd", "8.0", False)
    answer = await client.ask("read", process_id=process_id, cursor="9.0")
    assert answer["error"]["data"]["reason"] == "invalid_cursor"
    assert answer["error"]["data"]["end"] == "8.0"


async def test_lists_hold_what_a_client_may_see(house: House, client: Client) -> None:
    """S0.13: its own and the principal's detached ones, newest first, in pages."""
    own = [await client.execute(concurrent=True) for _ in range(3)]
    async with house.client() as other:
        shared = await other.execute(detach=True)
        await other.execute(concurrent=True)
    listed = (await client.ask("list"))["result"]
    assert [entry["process_id"] for entry in listed["processes"]] == [shared, *reversed(own)]
    assert listed["more"] is False
    page = (await client.ask("list", limit=2, before=shared))["result"]
    assert [entry["process_id"] for entry in page["processes"]] == [own[2], own[1]]
    assert page["more"] is True
    async with house.client(principal="somebody else") as stranger:
        assert (await stranger.ask("list"))["result"]["processes"] == []
        assert (await stranger.ask("get", process_id=shared))["error"]["code"] == -32003


async def test_an_unexpected_failure_gives_a_reference_and_nothing_else(
    house: House, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """S0.11: the log has the traceback; the connection goes on."""
    house.engine.failure = ZeroDivisionError("a secret path")
    with caplog.at_level(logging.CRITICAL):  # quiet: the record is looked at below
        answer = await client.ask("execute", command="x")
    error = answer["error"]
    assert (error["code"], error["data"]["reason"]) == (-32603, "internal_error")
    assert error["data"]["reference"] in error["message"]
    assert "secret" not in json.dumps(answer)
    house.engine.failure = None
    assert "result" in await client.ask("list")


async def test_a_start_that_fails_leaves_the_place_free(house: House, client: Client) -> None:
    """S0.13."""
    house.engine.failure = BackendUnavailable("timeout", "Nobody answered.")
    assert (await client.ask("execute", command="x"))["error"]["data"]["reason"] == "timeout"
    house.engine.failure = None
    await client.execute()
    busy = await client.ask("execute", command="x")
    assert (busy["error"]["code"], busy["error"]["data"]["pid"]) == (-32602, 7)
    await client.execute(concurrent=True, detach=True)
    assert (await client.ask("control", type="PAUSE"))["error"]["data"]["reason"] == "process_ambiguous"


async def test_two_starts_at_once_are_one_too_many(client: Client) -> None:
    """S0.13: also in one batch with a concurrent one, while the first is still starting."""
    request = {"jsonrpc": "2.0", "method": "execute", "params": {"command": "x"}}
    concurrent = {**request, "id": 1, "params": {"command": "x", "concurrent": True}}
    await client.send(json.dumps(concurrent))
    await client.send(json.dumps({**request, "id": 2}))
    answers = [await client.until(lambda message: "id" in message) for _ in range(2)]
    assert sorted("error" in answer for answer in answers) == [False, True]


async def test_a_long_wait_blocks_nobody_and_has_an_end_in_number(house: House, client: Client) -> None:
    """S0.19: 256 of them may be open, one more is refused; everything else is answered meanwhile."""
    process_id = await client.execute(stdin="pipe")
    for number in range(2, 258):
        method, params = ("write", {"data": "block"}) if number % 2 else ("wait", {})
        await client.send(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
    assert "result" in await client.ask("list")
    refused = await client.ask("wait")
    assert "answers" in refused["error"]["data"]["hint"]
    await client.send(
        json.dumps([{"jsonrpc": "2.0", "method": "wait"}])
    )  # a notification: refused in silence
    house.engine.unblock.set()
    house.engine.written(process_id).end()
    answered: set[int] = set()
    while len(answered) < 256:
        answered.add((await client.until(lambda message: "id" in message))["id"])
    assert answered == set(range(2, 258))


async def test_a_binary_frame_is_refused(client: Client) -> None:
    """S0.11."""
    await client.send(b"{}")
    assert (await client.receive())["error"]["data"]["reason"] == "binary_frame"


@pytest.mark.parametrize("query", ["cursor=x", "session_id=a&output=morse"])
async def test_nonsense_in_the_url_is_refused(house: House, query: str) -> None:
    """S0.11: an error without a request, close 1008."""
    async with house.client(query, greeted=False) as client:
        assert (await client.receive())["error"]["code"] == -32602
        assert await client.receive() == {"close": 1008}


async def test_the_connection_above_the_limit_is_refused(tmp_path: Path) -> None:
    """S0.15: -32001 with id null, close 1013; coming back to an open place is no new one."""
    settings = replace(SETTINGS, max_connections=1)
    async with opened(PlayedEngine(tmp_path), settings) as house, house.client() as first:
        assert house.door.open_count == 1
        async with house.client(greeted=False) as second:
            refused = await second.receive()
            assert (refused["id"], refused["error"]["code"]) == (None, -32001)
            assert await second.receive() == {"close": 1013}
        async with house.client(f"session_id={first.hello['session_id']}") as again:
            assert again.hello["resumed"] is True
            assert await first.receive() == {"close": 4001}
            assert house.door.open_count == 1


async def test_a_return_continues_every_process_where_it_is_told(house: House) -> None:
    """S0.14: named cursors; what has ended meanwhile; each in its own format; no second process.started."""
    async with house.client() as client:
        lines = await client.execute(concurrent=True)
        chunks = await client.execute(concurrent=True, output="chunk")
        for process_id in (lines, chunks):
            house.engine.written(process_id).write(b"one\ntwo\n")
    house.engine.written(chunks).end(4)
    session_id = client.hello["session_id"]
    async with house.client(f"session_id={session_id}&cursor={lines}:4.0,{chunks}:0,unknown:0") as again:
        assert (again.hello["session_id"], again.hello["resumed"]) == (session_id, True)
        assert [entry["process_id"] for entry in again.hello["processes"]] == [lines, chunks]
        completed = await again.notification("process.completed")
        assert (completed["process_id"], completed["exit_code"]) == (chunks, 4)
        house.engine.written(lines).end()
        await again.notification("process.completed")
    told = [(m["method"], m["params"].get("data")) for m in again.seen[1:]]
    assert told == [
        ("process.output", "two\n"),
        ("process.output", "one\ntwo\n"),
        ("process.completed", None),
        ("process.completed", None),
    ]


async def test_a_return_may_choose_another_format(house: House) -> None:
    """S0.14: output=chunk in the URL."""
    async with house.client() as client:
        house.engine.written(await client.execute()).write(b"one\ntwo\n")
    async with house.client(f"session_id={client.hello['session_id']}&cursor=0&output=chunk") as again:
        assert (await again.notification("process.output"))["data"] == "one\ntwo\n"


async def test_a_return_with_a_cursor_behind_the_end_is_refused(house: House) -> None:
    """S0.11: an error without a request, close 1008."""
    async with house.client() as client:
        await client.execute()
    query = f"session_id={client.hello['session_id']}&cursor=99.0"
    async with house.client(query, greeted=False) as again:
        assert (await again.receive())["error"]["data"]["reason"] == "invalid_cursor"
        assert await again.receive() == {"close": 1008}


async def test_another_principal_cannot_take_a_session(house: House, client: Client) -> None:
    """S0.13: to anybody else the id does not exist."""
    query = f"session_id={client.hello['session_id']}"
    async with house.client(query, principal="somebody else") as stranger:
        assert stranger.hello["resumed"] is False
        assert stranger.hello["session_id"] != client.hello["session_id"]
    assert "result" in await client.ask("list")


async def test_who_stays_away_loses_private_processes_only(house: House) -> None:
    """S0.14: after the grace; the note says why."""
    async with house.client() as client:
        private = await client.execute(concurrent=True)
        await client.execute(concurrent=True, detach=True)
    assert await house.engine.until_called("cancel") == private
    assert "0.05 s" in house.engine.calls[-1][0]
    async with house.client(f"session_id={client.hello['session_id']}") as late:
        assert late.hello["resumed"] is True  # the place is gone, what ran in it is still known


@pytest.mark.parametrize(
    "failure", [BackendUnavailable("timeout", "x"), InvalidState("process_ended", "x"), ZeroDivisionError()]
)
async def test_the_grace_survives_failures(
    house: House, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """S0.14: a keeper that does not answer is asked again; anything else ends that cancel alone."""
    async with house.client() as client:
        await client.execute()
    with caplog.at_level(logging.CRITICAL):
        house.engine.failure = failure
        await house.engine.until_called("cancel")
        house.engine.failure = None
        house.engine.calls.clear()
        if isinstance(failure, BackendUnavailable):
            await house.engine.until_called("cancel")
    async with house.client() as other:
        assert "result" in await other.ask("list")


async def test_clients_of_an_earlier_server_have_a_grace_too(tmp_path: Path) -> None:
    """S0.14: it begins with this server; coming back in time keeps the process."""
    engine = PlayedEngine(tmp_path)
    for name in ("gone", "back"):
        engine.add(Owner(principal="me", connection_id=name))
    engine.returning = {"gone", "back", "forgotten"}
    settings = replace(SETTINGS, reconnect_grace_s=0.1)
    async with opened(engine, settings) as house, house.client("session_id=back&cursor=0") as client:
        assert client.hello["resumed"] is True
        ended = await engine.until_called("cancel")
        assert engine.written(ended).process.connection_id == "gone"


async def test_a_connection_that_breaks_down_inside_says_so(
    house: House, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing may look alive that is not: close 1011, and the session can be resumed."""

    async def break_down(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Connection, "_answer", break_down)
    with caplog.at_level(logging.CRITICAL):
        await client.send("{}")
        assert await client.receive() == {"close": 1011}


async def test_a_client_that_is_gone_before_the_answer_leaves_nothing_behind(house: House) -> None:
    """Bad input: it asks and vanishes."""
    async with house.client() as client:
        client.is_gone = True
        await client.send(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "execute", "params": {"command": "x"}})
        )
        await house.engine.until_called("start")
        await client.disconnect()
    assert house.door.open_count == 0


async def test_a_follower_that_breaks_down_ends_the_connection(
    house: House, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream that silently stops is the worst failure: close 1011, then the client resumes at its
    cursor.
    """
    process_id = await client.execute()
    with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL):
        patched.setattr(Subscription, "turn", lambda _: 1 // 0)
        house.engine.written(process_id).write(b"one\n")
        assert (await client.until(lambda message: "close" in message))["close"] == 1011
    async with house.client(f"session_id={client.hello['session_id']}&cursor=0") as again:
        assert (await again.notification("process.output"))["data"] == "one\n"
