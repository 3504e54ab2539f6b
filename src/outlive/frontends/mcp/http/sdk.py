"""The official MCP SDK behind the endpoint: only this file imports it.

Importing this takes 0.6 s: `handshake.SdkLoader` does that in a thread, at the first request. Requests of the handshake
revisions run one by one through the SDK's driver for single exchanges, whatever became of the server in between;
2026-07-28 is the SDK's own HTTP entry.

`offer_tasks` adds the methods of the extension `io.modelcontextprotocol/tasks` to the SDK's server, which knows no tasks itself. It
checks what every implementation of `Tasks` shares: the revision, the declared capability, the header Mcp-Name, the errors (the
extension's specification of 2026-07-28, "Error Handling" and "Routing Headers"). `caller_of` reads the caller of a request from the
SDK's context: the principal that our endpoint has named, and what the client declares.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import anyio
import orjson
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data, progress_token_from_params
from mcp.shared.message import MessageMetadata, ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp.types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    REQUEST_TIMEOUT,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    ErrorData,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParams,
    TextContent,
    Tool,
)
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from outlive.core.errors import OutliveError, ProcessNotFound
from outlive.frontends.mcp.http.calls import Calls, unexpected
from outlive.frontends.mcp.http.handshake import Ask, Extend
from outlive.frontends.mcp.http.requests import HANDSHAKE_REVISIONS, Message
from outlive.frontends.mcp.tools.calls import Caller, Outcome, UnknownTool
from outlive.frontends.mcp.tools.toolbox import Tasks, Toolbox
from outlive.protocols.mcp.tasks import REQUIRED_CAPABILITY, TASKS_EXTENSION

CALLER = "outlive.mcp_caller"  # in the ASGI scope: the caller, without the request's id

Context = ServerRequestContext[dict[str, Any], Any]


def caller_of(context: Context) -> Caller:
    """Return the caller of one request. No handshake revision declares extensions for each request."""
    known: Caller = context.request.scope[CALLER]  # type: ignore[union-attr] # every request comes over HTTP
    capabilities = context.session.client_capabilities
    extensions = (capabilities.extensions if capabilities is not None else None) or {}
    params = context.session.client_params
    return replace(
        known,
        request_id=str(context.request_id),
        has_tasks=TASKS_EXTENSION in extensions,
        client=known.client if params is None else params.client_info.name.lower(),
    )


_Result = dict[str, Any] | EmptyResult


class TaskParams(RequestParams):
    """What tasks/get and tasks/cancel are asked with."""

    task_id: str


class _UpdateParams(TaskParams):
    input_responses: dict[str, Any]


_Params = TypeVar("_Params", bound=TaskParams)


def offer_tasks(server: Server[dict[str, Any]], tasks: Tasks) -> None:
    """Declare the extension and serve its methods from `tasks`."""

    async def get(params: TaskParams, caller: Caller) -> _Result:
        return (await tasks.get(params.task_id, caller)).to_detailed()

    async def update(params: _UpdateParams, caller: Caller) -> _Result:
        await tasks.update(params.task_id, params.input_responses, caller)
        return EmptyResult()

    async def cancel(params: TaskParams, caller: Caller) -> _Result:
        await tasks.cancel(params.task_id, caller)
        return EmptyResult()

    server.extensions[TASKS_EXTENSION] = {}
    server.add_request_handler("tasks/get", TaskParams, _checked(get))
    server.add_request_handler("tasks/update", _UpdateParams, _checked(update))
    server.add_request_handler("tasks/cancel", TaskParams, _checked(cancel))


def require_tasks(caller: Caller) -> None:
    """Refuse a request that does not declare the extension.

    Raises:
        MCPError: It does not.
    """
    if not caller.has_tasks:
        message = f"This needs the client capability {TASKS_EXTENSION}, declared with the request."
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY, message=message, data=dict(REQUIRED_CAPABILITY)
        )


def _checked(
    answer: Callable[[_Params, Caller], Awaitable[_Result]],
) -> Callable[[Context, _Params], Awaitable[_Result]]:
    async def handle(context: Context, params: _Params) -> _Result:
        if context.protocol_version in HANDSHAKE_REVISIONS:
            raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=context.method)
        caller = caller_of(context)
        require_tasks(caller)
        _check_name(context, params.task_id)
        try:
            return await answer(params, caller)
        except ProcessNotFound as error:
            message = "There is no such task, or it was removed some time after its end."
            raise MCPError(code=INVALID_PARAMS, message=message) from error
        except OutliveError as error:
            raise MCPError(code=INTERNAL_ERROR, message=error.message) from error

    return handle


def _check_name(context: Context, task_id: str) -> None:
    """See that the header says what the body says; the SDK does so for the methods that it knows."""
    request = context.request
    if request is None or decode_header_value(request.headers.get(MCP_NAME_HEADER)) != task_id:
        message = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
        raise MCPError(code=HEADER_MISMATCH, message=message)


_INVALID_PARAMS = -32602


class Sdk:
    """One SDK server for all sessions and both eras. Serve inside `async with running()`."""

    def __init__(
        self,
        toolbox: Toolbox,
        calls: Calls,
        *,
        version: str,
        max_message_bytes: int,
        instructions: str,
        extend: Extend | None = None,
    ) -> None:
        """Offer the tools of `toolbox`, run by `calls`, and what `extend` adds."""
        self._calls = calls
        self._toolbox = toolbox
        self._server: Server[dict[str, Any]] = Server(
            "outlive",
            version=version,
            instructions=instructions,
            on_list_tools=self._list_tools,
        )
        self._server.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        offer_tasks(self._server, toolbox.tasks)
        self._server.middleware.clear()  # OpenTelemetry spans, which are not collected here
        if extend is not None:
            extend(self._server)
        self._modern = StreamableHTTPSessionManager(
            self._server, stateless=True, max_request_body_size=max_message_bytes
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Be ready for `serve_modern` while the block runs; enter and leave it in one task."""
        async with self._modern.run():
            yield

    async def serve_modern(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request of 2026-07-28, or of an unknown revision."""
        await self._modern.handle_request({**scope, CALLER: caller}, receive, send)

    async def exchange(
        self,
        message: Message,
        caller: Caller,
        *,
        revision: str,
        notify: Callable[[bytes], Awaitable[None]] | None,
        ask: Ask | None = None,
    ) -> dict[str, Any]:
        """Serve one request of a handshake revision and return its JSON-RPC response.

        Args:
            message: A request.
            caller: The client.
            revision: The revision that the session speaks.
            notify: Sends a notification (JSON) that belongs to this request; None drops them.
            ask: Asks the client something that belongs to this request; None refuses to.

        Cancellation: stops what the request started, unless it runs in the background.
        """
        if message.request_id is None:
            raise AssertionError("only requests are exchanged")
        context = _Exchange(
            request_id=message.request_id,
            message_metadata=ServerMessageMetadata(request_context=Request({"type": "http", CALLER: caller})),
            progress_token=progress_token_from_params(message.params),
            sink=notify,
            ask=ask,
        )
        response: dict[str, Any] = {"jsonrpc": "2.0", "id": message.request_id}
        try:
            response["result"] = await serve_one(
                self._server,
                context,
                message.method,
                message.params,
                connection=Connection.from_envelope(revision, None, {}),
                lifespan_state={},
            )
        except Exception as error:  # noqa: BLE001 -- the SDK's own boundary is not public; what is unknown is logged
            response["error"] = _error_data(error).model_dump(mode="json", by_alias=True, exclude_none=True)
        return response

    async def _list_tools(self, context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        definitions = self._toolbox.definitions(caller_of(context))
        return ListToolsResult(tools=[Tool.model_validate(definition) for definition in definitions])

    async def _call_tool(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | dict[str, Any]:
        caller = caller_of(context)
        has_token = progress_token_from_params(context.params) is not None
        count = 0

        async def progress(text: str) -> None:
            nonlocal count
            count += 1  # the number must grow; how far a command is, is not known
            await context.session.report_progress(count, message=text)

        try:
            outcome = await self._calls.call(
                params.name, params.arguments or {}, caller, progress if has_token else None
            )
        except UnknownTool as error:
            raise MCPError(code=_INVALID_PARAMS, message=f"{error.message} {error.hint}") from error
        return _result(outcome) if outcome.task is None else outcome.task.to_created()


@dataclass
class _Exchange:
    """The SDK's `DispatchContext` of one request whose answers leave on its own HTTP response."""

    request_id: str | int
    message_metadata: MessageMetadata
    progress_token: str | int | None
    sink: Callable[[bytes], Awaitable[None]] | None
    ask: Ask | None
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    @property
    def can_send_request(self) -> bool:
        """Whether the client can be asked something."""
        return self.ask is not None

    @property
    def transport(self) -> TransportContext:
        """What the SDK needs to know of the transport."""
        return TransportContext(kind="streamable-http", can_send_request=self.can_send_request)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
    ) -> dict[str, Any]:
        """Ask the client and return its result.

        Raises:
            NoBackChannelError: The answer to this request is no stream.
            MCPError: The client answered with an error, or not in time.
        """
        if self.ask is None:
            raise NoBackChannelError(method)
        try:
            response = await self.ask(method, params, (opts or {}).get("timeout"))
        except TimeoutError as error:
            raise MCPError(code=REQUEST_TIMEOUT, message=f"The client did not answer {method}.") from error
        if "error" in response:
            raise MCPError.from_error_data(ErrorData.model_validate(response["error"]))
        result: dict[str, Any] = response["result"]
        return result

    async def notify(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,  # noqa: ARG002 -- the SDK's protocol
    ) -> None:
        """Send a notification with this request's response, where it is a stream."""
        if self.sink is not None:
            await self.sink(orjson.dumps({"jsonrpc": "2.0", "method": method, "params": dict(params or {})}))

    async def progress(
        self,
        progress: float,
        total: float | None = None,
        message: str | None = None,
    ) -> None:
        """Send notifications/progress, where the caller asked for it."""
        if self.progress_token is not None:
            known = {"total": total, "message": message}
            params = {"progressToken": self.progress_token, "progress": progress}
            params |= {name: value for name, value in known.items() if value is not None}
            await self.notify("notifications/progress", params)


def _result(outcome: Outcome) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=outcome.text)],
        structured_content=None if outcome.structured is None else dict(outcome.structured),
        is_error=outcome.is_error,
    )


def _error_data(error: Exception) -> ErrorData:
    known = handler_exception_to_error_data(error)
    if known is not None:
        return known
    return ErrorData(**unexpected(error))
