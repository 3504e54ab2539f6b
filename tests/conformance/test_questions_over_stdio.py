"""Questions of the server that travel through `outlive mcp`: sampling and elicitation, asked of the official
client.
"""

from pathlib import Path

import anyio
import pytest
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    SamplingMessage,
    TextContent,
)

from tests.mcp_stdio.hosting import INITIALIZE, environment, hosting, words
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough

_ELICITED = 'User response: action=accept, content={"username": "me"}'


def _relay(state_dir: Path) -> StdioServerParameters:
    program, *arguments = words(state_dir)
    return StdioServerParameters(command=program, args=arguments, env=environment())


def _text(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def _sampled(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
    (message,) = params.messages
    assert isinstance(message, SamplingMessage)
    assert isinstance(message.content, TextContent)
    answer = TextContent(type="text", text=message.content.text.upper())
    return CreateMessageResult(role="assistant", content=answer, model="m")


async def _elicited(context: object, params: ElicitRequestParams) -> ElicitResult:
    assert params.message == "Who are you?"
    return ElicitResult(action="accept", content={"username": "me"})


@pytest.mark.promise("M.handshake", "M.official")
async def test_the_clients_model_and_user_are_asked_through_the_relay(fixture_server: OutliveServer) -> None:
    """Several at once: each answer goes to the call that asked."""
    texts: dict[str, str] = {}
    async with Client(
        _relay(fixture_server.state_dir),
        mode="legacy",
        sampling_callback=_sampled,
        elicitation_callback=_elicited,
    ) as client:

        async def sample(word: str) -> None:
            texts[word] = _text(await client.call_tool("test_sampling", {"prompt": word}))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as calls:
                for word in ("one", "two", "three"):
                    calls.start_soon(sample, word)
                result = await client.call_tool("test_elicitation", {"message": "Who are you?"})
    assert texts == {word: f"LLM response: {word.upper()}" for word in ("one", "two", "three")}
    assert _text(result) == _ELICITED


@pytest.mark.promise("M.handshake", "M.ids")
def test_a_question_and_its_answer_are_one_line_each(fixture_server: OutliveServer) -> None:
    """What no client library hides: the question has an id of ours, comes before the answer, and is answered
    once.
    """
    with hosting(fixture_server.state_dir) as host:
        host.send("initialize", 0, **{**INITIALIZE, "capabilities": {"elicitation": {}}})
        assert "result" in host.answer(0)
        host.send("notifications/initialized")
        host.call(5, "test_elicitation", message="Who are you?")
        question = host.next()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Who are you?"
        assert question["id"] != 5
        host.respond(question["id"], {"action": "accept", "content": {"username": "me"}})
        assert host.text(5) == _ELICITED
        assert host.leave() == 0
