"""The output of processes as MCP resources, and who is notified of it: official clients of both eras, and the
parts alone.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.types import ResourceUpdatedNotification, TextContent, TextResourceContents

from outlive.config import Settings
from outlive.core.errors import AccessDenied, LimitExceeded, ProcessNotFound
from outlive.engine import Engine, Process
from outlive.frontends.mcp.http.resources import (
    MAX_RESOURCES,
    OutputResources,
    OutputSubscriber,
    OutputSubscribers,
)
from outlive.frontends.mcp.tools import Caller, Toolbox
from outlive.policy.access import Scope
from tests.mcp_http.modern_caller import ModernCaller
from tests.mcp_http.raw_caller import BACKGROUND, RawCaller, events_of
from tests.mcp_tools.calling import a_caller, answer, live_process
from tests.support.processes import Gate
from tests.support.server import OutliveServer

_ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
_NOT_FOUND = {"legacy": -32002, "2026-07-28": -32602}


class _Heard:
    """Which resources a client was told of."""

    def __init__(self) -> None:
        self.uris: list[str] = []
        self._woken = anyio.Event()

    async def hear(self, message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            await self.note(message.params.uri)

    async def note(self, uri: str) -> None:
        self.uris.append(uri)
        self._woken.set()
        self._woken = anyio.Event()

    async def until(self) -> None:
        """Wait for the next one."""
        with anyio.fail_after(20):
            await self._woken.wait()


async def _background(client: Client, command: str) -> str:
    """Start a command and return the address of its output."""
    (block,) = (await client.call_tool(BACKGROUND, {"cmd": command})).content
    assert isinstance(block, TextContent)
    return f"outlive://process/{block.text.rpartition(' ')[2]}/output"


async def _text(client: Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    return contents.text


@contextlib.asynccontextmanager
async def _subscribed(client: Client, era: str, heard: _Heard, uri: str) -> AsyncIterator[None]:
    """Let `heard` hear of a resource, by the way of the client's revision."""
    if era == "legacy":
        with pytest.warns(MCPDeprecationWarning):
            await client.subscribe_resource(uri)
        yield
        return
    async with client.listen(resource_subscriptions=[uri], tools_list_changed=True) as subscription:
        honored = subscription.honored
        assert (honored.resource_subscriptions, honored.tools_list_changed) == ([uri], None)

        async def pass_on() -> None:
            async for event in subscription:
                await heard.note(event.uri)  # type: ignore[union-attr] # nothing else was honored

        async with anyio.create_task_group() as group:
            group.start_soon(pass_on)
            yield
            group.cancel_scope.cancel()


@_ERAS
@pytest.mark.promise("M.resources", "M.resources.updates", "M.official")
async def test_a_subscriber_is_notified_of_new_output_and_of_the_end(
    server: OutliveServer, gate: Gate, era: str
) -> None:
    heard = _Heard()
    async with Client(server.mcp_url, mode=era, message_handler=heard.hear) as client:
        uri = await _background(client, f"echo one; {gate.wait}; echo two; exit 3")
        async with _subscribed(client, era, heard, uri):
            with anyio.fail_after(20):
                async with anyio.create_task_group() as group:
                    group.start_soon(heard.until)  # at least one is heard, though reading might be faster
                    gate.open()
            while await _text(client, uri) != "one\ntwo":
                await heard.until()
            listed = {one.uri: one for one in (await client.list_resources()).resources}
            while "exit" not in str(listed[uri].description) and "failed" not in str(listed[uri].description):
                await heard.until()
                listed = {one.uri: one for one in (await client.list_resources()).resources}
        assert set(heard.uris) == {uri}
        assert listed[uri].name.startswith("echo one; until")
        (template,) = (await client.list_resource_templates()).resource_templates
        assert template.uri_template == "outlive://process/{process_id}/output"


@_ERAS
@pytest.mark.promise("M.resources", "M.resources.updates")
async def test_what_is_declared_is_what_works(server: OutliveServer, era: str) -> None:
    async with Client(server.mcp_url, mode=era) as client:
        declared = client.server_capabilities.model_dump(by_alias=True)
        if era != "legacy":
            declared = ModernCaller(server.mcp_url).result("server/discover")["capabilities"]
        assert declared["resources"]["subscribe"] is True
        assert not declared["resources"]["listChanged"]
        assert not declared["tools"]["listChanged"]
        for uri in (
            "outlive://process/zzz/output",
            "file:///etc/passwd",
            "outlive://process/../../etc/output",
        ):
            with pytest.raises(MCPError) as error:
                await client.read_resource(uri)
            assert error.value.error.code == _NOT_FOUND[era]


@_ERAS
@pytest.mark.promise("M.resources", "S1.8.clip")
async def test_a_resource_shows_as_much_as_a_tool(server: OutliveServer, era: str) -> None:
    async with Client(server.mcp_url, mode=era) as client:
        await client.call_tool("execute_linux_shell_command", {"cmd": "seq 30000"})
        newest = (await client.list_resources()).resources[0]
        text = await _text(client, newest.uri)
    assert (text[:2], text[-6:], len(text) < 31_000) == ("1\n", "\n30000", True)
    assert "bytes omitted" in text


@pytest.mark.promise("M.resources.updates", "S4.1.verbs")
def test_a_raw_caller_hears_on_its_stream_and_the_end_of_its_session_ends_it(
    server: OutliveServer, caller: RawCaller, gate: Gate
) -> None:
    started = caller.call(BACKGROUND, official=True, cmd=f"{gate.wait}; echo two").text
    uri = f"outlive://process/{started.rpartition(' ')[2]}/output"
    message: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "resources/subscribe",
        "params": {"uri": uri},
    }
    assert caller.post(message).json["result"] == {}
    with caller.listen() as response:
        events = events_of(response)
        gate.open()
        told = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
        assert next(events) == ("message", told)
        assert caller.delete().status == 200
        list(events)  # it ends


@pytest.fixture
def resources(toolbox: Toolbox) -> OutputResources:
    """The resources of an engine of the test's own."""
    return OutputResources(toolbox)


@pytest.fixture
def toolbox(engine: Engine) -> Toolbox:
    """All tools with the default settings."""
    return Toolbox(engine, Settings())


@pytest.fixture
async def run(toolbox: Toolbox, engine: Engine) -> Callable[[Caller, str], Awaitable[Process]]:
    """Starts a command of a caller that has no other one."""

    async def start(caller: Caller, command: str) -> Process:
        await answer(toolbox, BACKGROUND, caller, {"cmd": command})
        return await live_process(engine, caller)

    return start


_Run = Callable[[Caller, str], Awaitable[Process]]


@pytest.mark.promise("M.resources.own")
async def test_another_principal_and_another_scope_see_nothing(
    resources: OutputResources, run: _Run, gate: Gate
) -> None:
    owner = a_caller()
    process = await run(owner, f"echo secret; {gate.wait}")
    uri = f"outlive://process/{process.process_id}/output"
    assert (await resources.find(uri, owner)) is process
    assert [one["uri"] for one in await resources.list(owner)] == [uri]
    stranger = a_caller()
    assert not await resources.list(stranger)
    for look in (resources.read, resources.find):
        with pytest.raises(ProcessNotFound, match="There is no such resource"):
            await look(uri, stranger)
    page = a_caller(principal=owner.principal, scope=Scope.HELLO)
    for refused in (resources.read(uri, page), resources.find(uri, page), resources.list(page)):
        with pytest.raises(AccessDenied):
            await refused
    gate.open()


@pytest.mark.thorough
@pytest.mark.promise("M.resources.updates")
async def test_a_flood_is_notified_once_a_second(run: _Run) -> None:
    process = await run(a_caller(), "for n in {1..250}; do echo $n; sleep 0.01; done")
    subscriber, told = OutputSubscriber(), _Heard()
    subscriber.add("one", process)
    following = asyncio.create_task(subscriber.follow(told.note))
    begun = asyncio.get_running_loop().time()
    async with asyncio.timeout(20):
        while not process.status.is_complete:
            await told.until()
    took_s = asyncio.get_running_loop().time() - begun
    subscriber.close()
    await following
    assert 2 <= len(told.uris) <= 2 + took_s


@pytest.mark.promise("M.resources.updates")
async def test_what_a_cut_stream_may_have_lost_is_notified_again(run: _Run, gate: Gate) -> None:
    process = await run(a_caller(), f"{gate.wait}; echo once")
    subscriber, told = OutputSubscriber(), _Heard()
    subscriber.add("one", process)
    first = asyncio.create_task(subscriber.follow(told.note))
    second = asyncio.create_task(subscriber.follow(told.note))  # waits for the first: one stream a message
    gate.open()
    await told.until()
    assert told.uris == ["one"]
    first.cancel()
    await told.until()
    assert told.uris[:2] == ["one", "one"]
    subscriber.remove("one")
    subscriber.close()
    await second
    assert len(process.subscribers) == 0


@pytest.mark.promise("M.resources.updates")
async def test_subscriptions_are_bounded(run: _Run, gate: Gate) -> None:
    process = await run(a_caller(), gate.wait)
    subscriptions = OutputSubscribers()
    first = subscriptions.of(a_caller(principal="first"))
    for number in range(MAX_RESOURCES):
        first.add(str(number), process)
        first.add(str(number), process)
    with pytest.raises(LimitExceeded, match="64 resources"):
        first.add("one more", process)
    assert len(process.subscribers) == MAX_RESOURCES
    for number in range(1001):
        subscriptions.of(a_caller(principal=f"other {number}"))
    assert len(process.subscribers) == 0  # the oldest session without a stream was let go
    gate.open()
