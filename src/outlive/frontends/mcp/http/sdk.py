"""The official MCP SDK behind the endpoint: only this file and `sdk_methods`, which adds methods to it, import it.

Importing this takes 0.6 s: `handshake.SdkLoader` does that in a thread, at the first request. Requests of the handshake
revisions run one by one through the SDK's driver for single exchanges, whatever became of the server in between;
2026-07-28 is the SDK's own HTTP entry.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import orjson
from mcp.server.connection import Connection
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.runner import serve_one
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data, progress_token_from_params
from mcp.shared.message import MessageMetadata, ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp.types import (
    REQUEST_TIMEOUT,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    ListToolsResult,
    PaginatedRequestParams,
    ServerCapabilities,
    TextContent,
    Tool,
)
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from outlive.frontends.mcp.http.calls import Calls, unexpected
from outlive.frontends.mcp.http.handshake import Ask, Extend
from outlive.frontends.mcp.http.requests import Message
from outlive.frontends.mcp.http.resources import OutputResources
from outlive.frontends.mcp.http.sdk_methods import (
    CALLER,
    Context,
    caller_of,
    offer_resources,
    offer_tasks,
    partial_results,
)
from outlive.frontends.mcp.http.subscriptions import OutputSubscribers
from outlive.frontends.mcp.tools.calls import Caller, Outcome, UnknownTool
from outlive.frontends.mcp.tools.toolbox import Toolbox

_INVALID_PARAMS = -32602


class _DeclaringServer(Server[dict[str, Any]]):
    """The SDK's server, which takes whatever listens to subscriptions for a server that announces changed lists: ours does not."""

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> ServerCapabilities:
        """Return what is declared."""
        found = super().get_capabilities(
            notification_options,
            experimental_capabilities,
            extensions,
            protocol_version=protocol_version,
        )
        for declared in (found.tools, found.resources):
            if declared is not None:
                declared.list_changed = False
        return found


class Sdk:
    """One SDK server for all sessions and both eras. Serve inside `async with running()`."""

    def __init__(
        self,
        toolbox: Toolbox,
        calls: Calls,
        subscriptions: OutputSubscribers,
        *,
        version: str,
        max_message_bytes: int,
        instructions: str,
        extend: Extend | None = None,
    ) -> None:
        """Offer the tools of `toolbox`, run by `calls`, its processes' output to `subscriptions`, and what `extend` adds."""
        self._calls = calls
        self._toolbox = toolbox
        self._server: Server[dict[str, Any]] = _DeclaringServer(
            "outlive",
            version=version,
            instructions=instructions,
            on_list_tools=self._list_tools,
        )
        self._server.add_request_handler("tools/call", CallToolRequestParams, self._call_tool)
        offer_tasks(self._server, toolbox.tasks)
        offer_resources(self._server, OutputResources(toolbox), subscriptions)
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
                params.name,
                params.arguments or {},
                caller,
                progress if has_token else None,
                partial=partial_results(context) if self._toolbox.settings.has_partial_results else None,
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
