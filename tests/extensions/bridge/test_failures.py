"""What goes wrong between two programs: nonsense, silence, repetition, disappearance.

Nothing ever runs twice.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from tests.extensions.bridge.extension import DocumentExtension, Message, dialling
from tests.extensions.bridge.knocking import Door, Refused
from tests.support.fixtures import ServerFactory
from tests.support.processes import poll_until
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]


class _Odd(DocumentExtension):
    """An extension that answers some requests in its own way."""

    def __init__(self, *, kind: str, answer: Callable[[Message], list[str]]) -> None:
        """Answer messages of one type by `answer`."""
        super().__init__()
        self.kind = kind
        self.answer = answer

    def answers(self, message: Message) -> list[str]:
        """Answer."""
        return self.answer(message) if message["type"] == self.kind else super().answers(message)


def _mute(kind: str) -> _Odd:
    return _Odd(kind=kind, answer=lambda _: [])


def _asked(extension: DocumentExtension, kind: str) -> list[Message]:
    return [one for one in extension.received if one["type"] == kind]


@pytest.mark.promise("S3.5")
async def test_nothing_is_executed_in_a_terminal_that_nobody_knows(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url) as extension:
        await door("create")
        for terminal_id in ("", "nobody's", "MCP Terminal 1", "01k9zq3v8d4t6r2m5x7b1n0c9f"):
            for find in (True, False):
                refused = await door.refusal("execute", terminal_id=terminal_id, command="date", find=find)
                assert refused.code == "terminal_not_found"
            assert (await door.refusal("close", terminal_id=terminal_id)).code == "terminal_not_found"
        assert extension.executed == []


@pytest.mark.promise("S3.3.broken", "S3.3")
async def test_nonsense_is_ignored_and_told_and_ends_nothing(own_bridge: OutliveServer) -> None:
    nonsense: list[str | bytes] = [
        "",
        "{",
        "[]",
        "null",
        '"pong"',
        "[" * 100_000,
        b"\x00\xff",
        '{"type":"pong"}',
        '{"type":"pong","id":7}',
        '{"id":"x"}',
        '{"type":"weather","id":"x","data":{"sun":true}}',
        '{"type":"create_terminal","id":"x","data":{"terminalName":"mine"}}',
        '{"type":"success","id":"never asked","data":{"output":"x"}}',
        '{"type":"terminal_created","id":"never asked","data":{"terminalId":"t","terminalName":"t"}}',
        '{"type":"error","id":"","data":{"error":"x"}}',
    ]
    door = Door(own_bridge)
    async with dialling(own_bridge.bridge_url) as extension:
        for frame in nonsense:
            await extension.say(frame)
        made = await door("create")
        assert (await door("execute", terminal_id=made["terminal_id"], command="date"))["is_complete"]
        assert extension.connections == 1
        assert await door.vscode() == [made["terminal_id"]]
    await poll_until(lambda: "an extension is gone" in own_bridge.stderr)
    lines = [json.loads(one) for one in own_bridge.stderr.splitlines() if "message was ignored" in one]
    assert len(lines) == len(nonsense)
    assert [one["kind"] for one in lines if one["what"] == "unknown type"] == ["weather", "create_terminal"]
    assert {one["level"] for one in lines[:10]} == {"warning"}
    assert {one["level"] for one in lines[10:]} == {"debug"}


@pytest.mark.promise("S3.4")
async def test_answers_with_missing_or_wrong_fields_are_not_believed(
    bridge: OutliveServer, door: Door
) -> None:
    answers: list[Message] = [
        {"type": "terminal_created", "data": {"terminalName": "t"}},
        {"type": "terminal_created", "data": {"terminalId": 7, "terminalName": "t"}},
        {"type": "terminal_created", "data": {"terminalId": "", "terminalName": "t"}},
        {"type": "terminal_created", "data": {"terminalId": "a\nb", "terminalName": "t"}},
        {"type": "terminal_created", "data": {"terminalId": "a" * 300, "terminalName": "t"}},
        {"type": "terminal_created", "data": {"terminalId": "t"}},
        {"type": "terminal_created"},
        {"type": "success", "data": {"output": "made"}},
        {"type": "pong"},
        {"type": "error", "data": {}},
        {"data": {}},
    ]
    odd = _Odd(kind="create_terminal", answer=lambda asked: [json.dumps({**answer, "id": asked["id"]})])
    async with dialling(bridge.bridge_url, odd) as extension:
        for answer in answers:
            refused = await door.refusal("create")
            assert refused.code == "extension_lost", answer
            assert "makes no sense" in refused.message
        assert await door.vscode() == []
        odd.kind = ""
        await door("create")
        assert extension.connections == 1


@pytest.mark.promise("S3.4.once", "S3.4")
async def test_a_command_without_an_answer_is_not_known_to_have_run(own_bridge: OutliveServer) -> None:
    door = Door(own_bridge)
    async with dialling(own_bridge.bridge_url, _mute("execute")) as extension:
        made = await door("create")
        refused = await door.refusal("execute", terminal_id=made["terminal_id"], command="date")
        assert refused.code == "extension_lost"
        assert "whether the command ran is not known" in refused.message
        assert len(_asked(extension, "execute")) == 1
        # What comes after the time is up is told in the log, and is no answer to anything.
        late = _asked(extension, "execute")[0]["id"]
        await extension.say(json.dumps({"type": "success", "id": late, "data": {"output": "late"}}))
        await poll_until(lambda: '"why": "late"' in own_bridge.stderr)


@pytest.mark.promise("S3.3", "S3.6")
async def test_who_does_not_wait_is_told_that_it_still_runs_and_nothing_comes_in_between(
    own_bridge: OutliveServer,
) -> None:
    door = Door(own_bridge)
    async with dialling(own_bridge.bridge_url, _mute("execute")) as extension:
        made = await door("create")
        done = await door("execute", terminal_id=made["terminal_id"], command="date", wait_s=0)
        assert (done["is_complete"], done["output"], done["exit_code"]) == (False, "", None)
        assert [one["state"] for one in await door("terminals")] == ["busy"]
        refused = await door.refusal("execute", terminal_id=made["terminal_id"], command="ls")
        assert refused.code == "terminal_busy"
        answer = {"type": "success", "id": _asked(extension, "execute")[0]["id"], "data": {"output": "done"}}
        await extension.say(json.dumps(answer))
        await extension.until(lambda: len(_asked(extension, "ping")) > 3)
        assert [one["state"] for one in await door("terminals")] == ["unknown"]


@pytest.mark.promise("S3.3")
async def test_an_answer_that_comes_twice_counts_once(own_bridge: OutliveServer) -> None:
    def twice(asked: Message) -> list[str]:
        created = {"terminalId": asked["id"], "terminalName": "t"}
        again = {"terminalId": asked["id"] + "-again", "terminalName": "t"}
        return [
            json.dumps({"type": "terminal_created", "id": asked["id"], "data": data})
            for data in (created, again)
        ]

    door = Door(own_bridge)
    async with dialling(own_bridge.bridge_url, _Odd(kind="create_terminal", answer=twice)):
        made = await door("create")
        await poll_until(lambda: '"why": "again"' in own_bridge.stderr)
        assert await door.vscode() == [made["terminal_id"]]


@pytest.mark.promise("S3.4")
async def test_a_connection_without_pong_is_closed(serve: ServerFactory) -> None:
    server = serve("--bridge-ping", "0.1", "--bridge-timeout", "0.3")
    mute = _mute("ping")
    async with dialling(server.bridge_url, mute) as extension:
        await extension.until(lambda: extension.connections >= 2)
        assert "did not answer a ping" in server.stderr
        mute.kind = ""
        made = await Door(server)("create")
        before = len(_asked(extension, "ping"))
        await extension.until(lambda: len(_asked(extension, "ping")) > before + 5)
        assert await Door(server).vscode() == [made["terminal_id"]]


@pytest.mark.promise("S3.4")
@pytest.mark.parametrize(
    "wrong", [{"type": "success", "data": {"output": "pong"}}, {"type": "error", "data": {"error": "pong"}}]
)
async def test_only_a_pong_is_a_pong(serve: ServerFactory, wrong: Message) -> None:
    server = serve("--bridge-ping", "0.1", "--bridge-timeout", "0.3")
    odd = _Odd(kind="ping", answer=lambda asked: [json.dumps({**wrong, "id": asked["id"]})])
    async with dialling(server.bridge_url, odd) as extension:
        await extension.until(lambda: extension.connections >= 2)


class _Leaver(DocumentExtension):
    """An extension that is cut off when it is asked for something, having done it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def answers(self, message: Message) -> list[str]:
        """Do it, and vanish."""
        frames = super().answers(message)
        if message["type"] != self.kind:
            return frames
        self.kind = ""
        assert self.socket is not None
        self.socket.transport.abort()
        return []


@pytest.mark.promise("S3.4.once", "S3.4.again")
async def test_a_cut_in_mid_request_repeats_nothing_and_the_terminal_is_known_again(
    bridge: OutliveServer, door: Door
) -> None:
    async with dialling(bridge.bridge_url, _Leaver("execute")) as extension:
        made = await door("create")
        refused = await door.refusal("execute", terminal_id=made["terminal_id"], command="rm -r build")
        assert refused.code == "extension_lost"
        assert "whether the command ran is not known" in refused.message
        await extension.until(lambda: extension.connections == 2)
        assert await door.vscode() == [made["terminal_id"]]
        await door("execute", terminal_id=made["terminal_id"], command="ls")
        assert [command for _, command in extension.executed] == ["rm -r build", "ls"]
        assert extension.terminals == {made["terminal_id"]: "MCP Terminal 1"}


@pytest.mark.promise("S3.4.once")
@pytest.mark.parametrize("kind", ["create_terminal", "close_terminal"])
async def test_a_cut_while_terminals_come_and_go_is_said(
    bridge: OutliveServer, door: Door, kind: str
) -> None:
    async with dialling(bridge.bridge_url, _Leaver(kind)) as extension:
        if kind == "create_terminal":
            refused = await door.refusal("create")
        else:
            made = await door("create")
            refused = await door.refusal("close", terminal_id=made["terminal_id"])
        assert refused.code == "extension_lost"
        assert "is not known" in refused.message
        assert len(_asked(extension, kind)) == 1


@pytest.mark.promise("S3.4.once", "S3.4.again")
async def test_what_was_never_written_is_sent_when_the_extension_is_back(
    bridge: OutliveServer, door: Door
) -> None:
    extension = DocumentExtension()
    async with dialling(bridge.bridge_url, extension):
        made = await door("create")
    waiting = asyncio.create_task(door("execute", terminal_id=made["terminal_id"], command="date"))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    async with dialling(bridge.bridge_url, extension):
        async with asyncio.timeout(10):
            assert (await waiting)["is_complete"]
        assert extension.executed == [(made["terminal_id"], "date")]


@pytest.mark.promise("S3.4")
async def test_an_extension_that_stays_away_is_not_waited_for_for_ever(serve: ServerFactory) -> None:
    server = serve("--bridge-timeout", "0.5")
    door = Door(server)
    async with dialling(server.bridge_url):
        made = await door("create")
    refused = await door.refusal("execute", terminal_id=made["terminal_id"], command="date")
    assert refused.code == "extension_away"
    assert "Nothing was sent" in refused.hint
    assert (await door.refusal("create")).code == "no_terminal_host"


@pytest.mark.root("a server's memory and descriptors are closed to its user")
@pytest.mark.promise("S3.4")
async def test_everything_is_freed_when_extensions_leave(bridge: OutliveServer, door: Door) -> None:
    descriptors = Path(f"/proc/{bridge.pid}/fd")

    def held() -> int:
        return len(list(descriptors.iterdir()))

    async with dialling(bridge.bridge_url):
        pass
    before = held()
    for _ in range(20):
        async with connect(bridge.bridge_url, proxy=None) as fleeting:
            fleeting.transport.abort()
    await poll_until(lambda: held() <= before)
    assert (await door.refusal("create")).code == "no_terminal_host"


@pytest.mark.promise("S3.4.once", "S3.4")
async def test_an_extension_that_does_not_read_is_told_from_one_that_does_not_answer(
    serve: ServerFactory,
) -> None:
    """Large commands fill what lies between; the one that was not written is certain not to have run."""
    server = serve("--bridge-timeout", "1")
    door = Door(server)
    extension = _Sleeper()
    async with dialling(server.bridge_url, extension, max_queue=1):
        made = [await door("create") for _ in range(12)]
        extension.is_asleep = True
        command = "echo " + "x" * 2_000_000
        outcomes = await asyncio.gather(
            *(door("execute", terminal_id=one["terminal_id"], command=command) for one in made),
            return_exceptions=True,
        )
        codes = [one.code if isinstance(one, Refused) else "done" for one in outcomes]
        assert set(codes) <= {"done", "extension_lost", "extension_away"}
        assert {"extension_lost", "extension_away"} <= set(codes)
        extension.wake.set()
        await extension.until(lambda: len(extension.executed) == 12 - codes.count("extension_away"))
        await asyncio.sleep(0.5)
        assert len(extension.executed) == 12 - codes.count("extension_away"), (
            "what was not written never comes"
        )


class _Sleeper(DocumentExtension):
    """An extension whose program hangs for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.is_asleep = False
        self.wake = asyncio.Event()

    async def serve(self, socket: ClientConnection) -> None:  # type: ignore[override] # it dials only
        """Answer; asleep it takes nothing more from the socket."""
        self.socket = socket
        self.connections += 1
        await self._tell()
        try:
            while True:
                message = json.loads(await socket.recv())
                for answer in self.answers(message):
                    await socket.send(answer)
                await self._tell()
                if self.is_asleep:
                    await self.wake.wait()
        except ConnectionClosed:
            self.socket = None
