"""The fixture profile that the conformance suite asks of a server under test: test tools, prompts, resources.

Test-only. `FixtureEndpoint` is the product's MCP endpoint with more rows in its table of methods; transport,
sessions and the shapes of results stay the product's.
"""

import asyncio
from dataclasses import replace
from typing import Any

from outlive.frontends.mcp.http.endpoint import McpEndpoint
from outlive.frontends.mcp.http.methods import McpMethod, McpRequest
from outlive.frontends.mcp.tools import Caller
from outlive.protocols.mcp.messages import SUBSCRIPTION_ID, Message, object_param
from tests.conformance import fixture_prompts as prompts
from tests.conformance.fixture_prompts import Answer
from tests.conformance.fixture_questions import Questions
from tests.conformance.fixture_rounds import ROUND_TOOLS
from tests.conformance.fixture_tasks import TaskTools
from tests.conformance.fixture_tools import CONTENT_TOOLS, FixtureTool, Object, said

_CHANGES = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
}


class FixtureEndpoint(McpEndpoint):
    """The endpoint of a server that offers the fixtures beside the product's tools."""

    def __init__(self, *parts: Any, **named: Any) -> None:  # noqa: ANN401 -- passed on as they are
        super().__init__(*parts, **named)
        self._questions = Questions()
        self._changes = Changes()
        task_tools = TaskTools()
        tools = (
            *CONTENT_TOOLS,
            *self._changes.tools(),
            *self._questions.tools(),
            *ROUND_TOOLS,
            *task_tools.tools(),
        )
        known = {tool.name: tool for tool in tools}
        ours = self.methods
        added: dict[str, Answer] = {
            "initialize": _declaring(ours["initialize"].answer),
            "server/discover": _declaring(ours["server/discover"].answer),
            "tools/list": _listing(ours["tools/list"].answer, known),
            "tools/call": _calling(ours["tools/call"].answer, known),
            "resources/list": prompts.list_resources,
            "resources/templates/list": prompts.list_templates,
            "resources/read": prompts.reading(ours["resources/read"].answer),
            "resources/subscribe": prompts.acknowledge,
            "resources/unsubscribe": prompts.acknowledge,
            "subscriptions/listen": self._changes.listen,
        }
        rows = {name: replace(ours[name], answer=answer) for name, answer in added.items()}
        self.methods = {
            **ours,
            **rows,
            **task_tools.beside(ours),
            "prompts/list": McpMethod(answer=prompts.list_prompts),
            "prompts/get": McpMethod(answer=prompts.get_prompt),
            "completion/complete": McpMethod(answer=prompts.complete),
            "logging/setLevel": McpMethod(answer=prompts.acknowledge, is_stateless=False),
        }

    async def take(self, message: Message, caller: Caller) -> None:
        """Give responses to what asks."""
        if message.kind == "response":
            self._questions.settle(message, caller)
        await super().take(message, caller)


class Changes:
    """Listeners to changes of lists, and the tools that announce some."""

    def __init__(self) -> None:
        self._listeners: dict[asyncio.Queue[str], frozenset[str]] = {}

    def tools(self) -> tuple[FixtureTool, ...]:
        """Return the tools."""

        def announcing(name: str, change: str) -> FixtureTool:
            async def announce(_request: McpRequest, _arguments: Object) -> Object:
                for queue, wanted in self._listeners.items():
                    if change in wanted:
                        queue.put_nowait(_CHANGES[change])
                return said("told")

            return FixtureTool(name, announce)

        return (
            announcing("test_trigger_tool_change", "toolsListChanged"),
            announcing("test_trigger_prompt_change", "promptsListChanged"),
        )

    async def listen(self, request: McpRequest) -> Object:
        """Answer subscriptions/listen until the client leaves."""
        asked = object_param(request.params, "notifications", is_needed=True)
        honored = frozenset(name for name in _CHANGES if asked.get(name) is True)
        meta = {SUBSCRIPTION_ID: request.message.request_id}
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners[queue] = honored
        try:
            acknowledged = {"notifications": dict.fromkeys(sorted(honored), True), "_meta": meta}
            await request.notify("notifications/subscriptions/acknowledged", acknowledged)
            while True:
                await request.notify(await queue.get(), {"_meta": meta})
        finally:
            del self._listeners[queue]


def _declaring(ours: Answer) -> Answer:
    async def answer(request: McpRequest) -> Object:
        result = await ours(request)
        more = {
            "prompts": {"listChanged": True},
            "tools": {"listChanged": True},
            "completions": {},
            "logging": {},
        }
        return {**result, "capabilities": {**result["capabilities"], **more}}

    return answer


def _listing(ours: Answer, tools: dict[str, FixtureTool]) -> Answer:
    async def answer(request: McpRequest) -> Object:
        listed = (await ours(request))["tools"]
        return {"tools": [*listed, *(tool.definition() for tool in tools.values())]}

    return answer


def _calling(ours: Answer, tools: dict[str, FixtureTool]) -> Answer:
    async def answer(request: McpRequest) -> Object:
        tool = tools.get(str(request.params.get("name")))
        if tool is None:
            return await ours(request)
        return await tool.answer(request, object_param(request.params, "arguments"))

    return answer
