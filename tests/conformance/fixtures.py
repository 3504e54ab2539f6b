"""The fixture profile that the conformance suite asks of a server under test: test tools, prompts, resources.

Test-only. `extend` grafts it onto the product's SDK server, beside the product's own tools; transport, sessions and
everything below the handlers stay the product's.
"""

from collections.abc import Callable
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.types import (
    CallToolRequestParams,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParams,
    SetLevelRequestParams,
    SubscribeRequestParams,
    Tool,
    UnsubscribeRequestParams,
)

from tests.conformance.fixture_content import add_content
from tests.conformance.fixture_questions import add_questions
from tests.conformance.fixture_rounds import add_rounds
from tests.conformance.fixture_schemas import JSON_SCHEMA_TOOL
from tests.conformance.fixture_tasks import TaskTools

_TAKEN_OVER = (
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "subscriptions/listen",
)
_PARAMS: dict[str, type[RequestParams]] = {
    "resources/subscribe": SubscribeRequestParams,
    "resources/unsubscribe": UnsubscribeRequestParams,
    "logging/setLevel": SetLevelRequestParams,
}


def extend(server: Server[Any]) -> None:
    """Add the fixtures to `server`; its own tools stay."""
    fixtures = MCPServer("conformance fixtures", log_level="ERROR")
    add_content(fixtures)
    add_questions(fixtures)
    add_rounds(fixtures)
    theirs = fixtures._lowlevel_server
    for method in _TAKEN_OVER:
        entry = theirs.get_request_handler(method)
        assert entry is not None, method
        server.add_request_handler(method, entry.params_type, entry.handler)
    server.add_request_handler("completion/complete", CompleteRequestParams, _complete)
    for method, params_type in _PARAMS.items():
        server.add_request_handler(method, params_type, _acknowledge)
    task_tools = TaskTools()
    task_tools.join(server)
    _join_tools(server, fixtures, task_tools)
    # As MCPServer does it: what a client echoes as requestState was sealed here, or is refused.
    server.middleware.append(
        RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="fixtures")
    )


async def _acknowledge(_context: Any, _params: Any) -> EmptyResult:  # noqa: ANN401 -- three kinds of params
    return EmptyResult()


async def _complete(_context: Any, _params: CompleteRequestParams) -> CompleteResult:  # noqa: ANN401
    return CompleteResult(completion=Completion(values=[], total=0, has_more=False))


def _join_tools(server: Server[Any], fixtures: MCPServer, task_tools: TaskTools) -> None:
    """List the product's tools and the fixtures', and call each where it lives."""
    call_theirs = _handler(fixtures._lowlevel_server, "tools/call")
    list_ours, call_ours = _handler(server, "tools/list"), _handler(server, "tools/call")

    async def fixture_tools() -> list[Tool]:
        return [*await fixtures.list_tools(), *task_tools.definitions(), JSON_SCHEMA_TOOL]

    async def list_tools(context: Any, params: PaginatedRequestParams) -> ListToolsResult:  # noqa: ANN401
        ours: ListToolsResult = await list_ours(context, params)
        return ListToolsResult(tools=[*ours.tools, *await fixture_tools()])

    async def call_tool(context: Any, params: CallToolRequestParams) -> Any:  # noqa: ANN401 -- as the SDK has it
        if params.name in {tool.name for tool in task_tools.definitions()}:
            return await task_tools.call(context, params)
        names = {tool.name for tool in await fixture_tools()}
        return await (call_theirs if params.name in names else call_ours)(context, params)

    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)


def _handler(server: Server[Any], method: str) -> Callable[..., Any]:
    entry = server.get_request_handler(method)
    assert entry is not None, method
    return entry.handler
