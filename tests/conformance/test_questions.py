"""Questions of the server to a client of a handshake revision, which only the fixtures ask: the official client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import orjson
import pytest
from mcp.client.client import Client
from mcp.types import CallToolResult, ElicitRequestParams, ElicitResult, ErrorData, TextContent

from tests.mcp_http.raw_caller import RawCaller, request
from tests.support.server import OutliveServer

_OFFICIAL = {"Content-Type": "application/json", "MCP-Protocol-Version": "2025-11-25"}
_CALL = {"name": "test_elicitation", "arguments": {"message": "Who are you?"}}


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
    caller = RawCaller.begin(fixture_server.mcp_url)
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _CALL})
    official = {**_OFFICIAL, "Accept": "application/json"}
    raw = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    for headers in (official, raw):
        sent = {**headers, "Mcp-Session-Id": caller.session_id}
        answer = request(fixture_server.mcp_url, "POST", body=body, headers=sent)
        assert (answer.status, b"no back-channel" in answer.body) == (200, True)


@pytest.mark.promise("M.official")
def test_an_answer_to_what_nobody_asked_is_acknowledged(fixture_server: OutliveServer) -> None:
    caller = RawCaller.begin(fixture_server.mcp_url)
    body = orjson.dumps({"jsonrpc": "2.0", "id": "outlive-0000", "result": {}})
    sent = {**_OFFICIAL, "Accept": "application/json, text/event-stream", "Mcp-Session-Id": caller.session_id}
    assert request(fixture_server.mcp_url, "POST", body=body, headers=sent).status == 202
