"""What we add to the official SDK's server: the methods of tasks and of resources, and the caller of a request (`caller_of`).

`offer_tasks` adds the methods of the extension `io.modelcontextprotocol/tasks` to the SDK's server, which knows no tasks itself. It
checks what every implementation of `Tasks` shares: the revision, the declared capability, the header Mcp-Name, the errors (the
extension's specification of 2026-07-28, "Error Handling" and "Routing Headers"). `offer_resources` serves the output of processes,
with the subscriptions of both eras: resources/subscribe, whose notifications come on the session's GET stream, and
subscriptions/listen, which is a stream itself (2026-07-28, "Subscriptions"). `caller_of` reads the caller of a request from the
SDK's context: the principal that our endpoint has named, and what the client declares. `partial_results` is a draft's.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any, Literal, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    EmptyResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    Notification,
    NotificationParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    ResourceUpdatedNotification,
    ResourceUpdatedNotificationParams,
    SubscribeRequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from outlive.core.errors import OutliveError, ProcessNotFound
from outlive.frontends.mcp.http.requests import HANDSHAKE_REVISIONS
from outlive.frontends.mcp.http.resources import URI_TEMPLATE, OutputResources
from outlive.frontends.mcp.http.subscriptions import MAX_RESOURCES, OutputSubscribers
from outlive.frontends.mcp.tools.calls import Caller, Progress
from outlive.frontends.mcp.tools.toolbox import Tasks
from outlive.protocols.mcp.tasks import REQUIRED_CAPABILITY, TASKS_EXTENSION
from outlive.protocols.trace_context import traceparent_in

CALLER = "outlive.mcp_caller"  # in the ASGI scope: the caller, without the request's id

_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"  # in `_meta` of every request of 2026-07-28

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
        traceparent=traceparent_in(context.params) or known.traceparent,
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


class _PartialResultParams(NotificationParams):
    partial_result_token: str | int
    seq: int
    content: list[TextContent]


class _PartialResult(Notification[_PartialResultParams, Literal["notifications/tools/partial_result"]]):
    method: Literal["notifications/tools/partial_result"] = "notifications/tools/partial_result"
    params: _PartialResultParams


def partial_results(context: Context) -> Progress | None:
    """Return what sends a piece of output ahead of a call's result (SEP-2998, a draft; decision 184).

    None for a call that has not asked for it: it declares `partialResults` and has a `partialResultToken`. Calls of the handshake
    revisions declare nothing for themselves, and the draft is not for them.
    """
    meta = (context.params or {}).get("_meta") or {}
    token, declared = meta.get("partialResultToken"), meta.get(_CAPABILITIES_KEY)
    is_asked = isinstance(declared, dict) and "partialResults" in declared
    if context.protocol_version in HANDSHAKE_REVISIONS or not is_asked:
        return None
    if not isinstance(token, str | int) or isinstance(token, bool):
        return None
    numbers = count()

    async def send(text: str) -> None:
        content = [TextContent(type="text", text=text)]
        params = _PartialResultParams(partial_result_token=token, seq=next(numbers), content=content)
        # The SDK's union of notifications ends with the revision; what is sent is the model's JSON.
        await context.session.send_notification(
            _PartialResult(params=params),  # type: ignore[arg-type] # as above
            related_request_id=context.request_id,
        )

    return send


# In the handshake revisions ("Resources", Error Handling); later it is INVALID_PARAMS.
_RESOURCE_NOT_FOUND = -32002
_TEXT = "text/plain"


def offer_resources(
    server: Server[dict[str, Any]], resources: OutputResources, subscriptions: OutputSubscribers
) -> None:
    """Serve the output of processes as resources, and notify their subscribers."""
    methods = _ResourceMethods(resources, subscriptions)
    server.add_request_handler("resources/list", PaginatedRequestParams, methods.list)
    server.add_request_handler("resources/templates/list", PaginatedRequestParams, methods.list_templates)
    server.add_request_handler("resources/read", ReadResourceRequestParams, methods.read)
    server.add_request_handler("resources/subscribe", SubscribeRequestParams, methods.subscribe)
    server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, methods.unsubscribe)
    server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, methods.listen)


class _ResourceMethods:
    """The handlers of the methods, as the SDK calls them."""

    def __init__(self, resources: OutputResources, subscriptions: OutputSubscribers) -> None:
        self._resources = resources
        self._subscriptions = subscriptions

    async def list(self, context: Context, _params: PaginatedRequestParams | None) -> ListResourcesResult:
        with _refused(context):
            found = await self._resources.list(caller_of(context))
        return ListResourcesResult(
            resources=[
                Resource(uri=one.uri, name=one.name, description=one.description, mime_type=_TEXT)
                for one in found
            ]
        )

    async def list_templates(
        self, _context: Context, _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        template = ResourceTemplate(
            uri_template=URI_TEMPLATE,
            name="process output",
            description="What a process has written: stdout, then stderr; of much output head and tail.",
            mime_type=_TEXT,
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        with _refused(context):
            text = await self._resources.read(params.uri, caller_of(context))
        contents = TextResourceContents(uri=params.uri, mime_type=_TEXT, text=text)
        return ReadResourceResult(contents=[contents])

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        caller = caller_of(context)
        with _refused(context):
            process = await self._resources.find(params.uri, caller)
            self._subscriptions.of(caller).add(params.uri, process)
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        caller = caller_of(context)
        self._subscriptions.of(caller).remove(params.uri)
        self._subscriptions.release(caller)
        return EmptyResult()

    async def listen(
        self, context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Acknowledge the resources that the caller has, then notify it of them until it leaves or the server stops.

        Lists that change are not announced, so nothing else that was asked for is acknowledged.
        """
        caller, request_id = caller_of(context), context.request_id
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: request_id}
        with self._subscriptions.stream() as subscriber:
            honored = []
            with _refused(context):
                for uri in (params.notifications.resource_subscriptions or ())[:MAX_RESOURCES]:
                    with suppress(ProcessNotFound):
                        subscriber.add(uri, await self._resources.find(uri, caller))
                        honored.append(uri)
            acknowledged = SubscriptionsAcknowledgedNotificationParams(
                notifications=SubscriptionFilter(resource_subscriptions=honored or None), _meta=meta
            )
            await context.session.send_notification(
                SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=request_id
            )

            async def notify(uri: str) -> None:
                changed = ResourceUpdatedNotificationParams(uri=uri, _meta=meta)
                await context.session.send_notification(
                    ResourceUpdatedNotification(params=changed), related_request_id=request_id
                )

            await subscriber.follow(notify)
        return SubscriptionsListenResult(_meta=meta)


@contextmanager
def _refused(context: Context) -> Iterator[None]:
    """Turn what is wrong with a request for a resource into the error of its revision."""
    try:
        yield
    except ProcessNotFound as error:
        has_handshake = context.protocol_version in HANDSHAKE_REVISIONS
        code = _RESOURCE_NOT_FOUND if has_handshake else INVALID_PARAMS
        raise MCPError(code=code, message="Resource not found") from error
    except OutliveError as error:
        raise MCPError(code=INTERNAL_ERROR, message=error.message) from error
