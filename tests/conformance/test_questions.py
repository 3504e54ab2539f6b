"""Questions of the server to a client of a handshake revision, which only the fixtures ask: the official
client.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest
from mcp.client.client import Client
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, ErrorData, TextContent

from tests.mcp_http.raw_caller import RawCaller, events_of
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough

_REVISION = {"MCP-Protocol-Version": "2025-11-25"}
_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "test_elicitation", "arguments": {"message": "Who are you?"}},
}


@asynccontextmanager
async def _client(server: OutliveServer, answer: ElicitResult | ErrorData) -> AsyncIterator[Client]:
    async def elicited(context: object, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        assert params.message.startswith("Who are you")
        return answer

    async with Client(server.mcp_url, mode="legacy", elicitation_callback=elicited) as client:
        yield client


def _text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.promise("M.handshake", "M.official")
async def test_a_client_answers_what_a_request_asks_it(fixture_server: OutliveServer) -> None:
    answer = ElicitResult(action="accept", content={"username": "me"})
    async with _client(fixture_server, answer) as client:
        results: list[str] = []

        async def call(number: int) -> None:
            asked = {"message": f"Who are you, {number}?"}
            results.append(_text(await client.call_tool("test_elicitation", asked)))

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(call, number)
    assert results == ['User response: action=accept, content={"username": "me"}'] * 3


@pytest.mark.promise("M.handshake")
async def test_a_client_that_refuses_a_question_ends_it(fixture_server: OutliveServer) -> None:
    async with _client(fixture_server, ErrorData(code=-32000, message="not now")) as client:
        with pytest.raises(Exception, match="not now"):
            await client.call_tool("test_elicitation", {"message": "Who are you?"})


@pytest.mark.promise("M.raw", "M.official")
def test_who_cannot_be_asked_is_told_so(fixture_server: OutliveServer) -> None:
    raw = RawCaller.begin(fixture_server.mcp_url)
    without_stream = replace(raw, headers=_REVISION)
    with raw.stream("test_elicitation", message="Who are you?") as stream:
        assert b"no back-channel" in stream.read()
    answer = without_stream.post(_CALL, headers={"Accept": "application/json"})
    assert (answer.status, b"no back-channel" in answer.body) == (200, True)


@pytest.mark.promise("M.handshake", "M.official")
def test_only_the_session_that_was_asked_is_heard(fixture_server: OutliveServer) -> None:
    asked, other = (replace(RawCaller.begin(fixture_server.mcp_url), headers=_REVISION) for _ in range(2))
    with asked.stream("test_elicitation", message="Who are you?") as stream:
        events = events_of(stream)
        _, question = next(events)
        assert question["method"] == "elicitation/create"
        for caller, name in ((other, "somebody else"), (asked, "me"), (asked, "too late")):
            result = {"action": "accept", "content": {"username": name}}
            response = {"jsonrpc": "2.0", "id": question["id"], "result": result}
            assert caller.post(response, official=True).status == 202
        ((_, answer),) = events
    assert (
        answer["result"]["content"][0]["text"] == 'User response: action=accept, content={"username": "me"}'
    )
