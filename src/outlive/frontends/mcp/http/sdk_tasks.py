"""The methods of the extension `io.modelcontextprotocol/tasks` on the SDK's server, which knows no tasks itself.

Owns what every implementation of `Tasks` shares: the revision, the declared capability, the header Mcp-Name, the
errors. The extension's specification of 2026-07-28 says "Error Handling" and "Routing Headers".

Who makes a request, read from the SDK's context: the principal our endpoint named, and what the client declares.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    EmptyResult,
    RequestParams,
)

from outlive.core.errors import OutliveError, ProcessNotFound
from outlive.frontends.mcp.http.requests import HANDSHAKE_REVISIONS
from outlive.frontends.mcp.tools.calls import Caller
from outlive.frontends.mcp.tools.tasks import Tasks
from outlive.protocols.mcp.tasks import REQUIRED_CAPABILITY, TASKS_EXTENSION

CALLER = "outlive.mcp_caller"  # in the ASGI scope: who asks, without the request's id

Context = ServerRequestContext[dict[str, Any], Any]


def caller_of(context: Context) -> Caller:
    """Return the caller of one request. No handshake revision declares extensions for each request."""
    known: Caller = context.request.scope[CALLER]  # type: ignore[union-attr] # every request comes over HTTP
    capabilities = context.session.client_capabilities
    extensions = (capabilities.extensions if capabilities is not None else None) or {}
    return replace(known, request_id=str(context.request_id), has_tasks=TASKS_EXTENSION in extensions)


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
