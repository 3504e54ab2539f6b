"""The methods of MCP, each once for both eras: `method_table`, from a method's name to what answers it.

A handler gets an `McpRequest` and returns the result as all revisions have it; what 2026-07-28 adds
(`protocols.mcp.messages`), HTTP and cancels are `endpoint`'s. It raises McpError for the error that its
caller shall get.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from types import MappingProxyType
from typing import Any

import orjson

from outlive import __version__
from outlive.core.errors import OutliveError, ProcessNotFound
from outlive.core.values import dataclass
from outlive.frontends.mcp.http.calls import Calls, InFlight
from outlive.frontends.mcp.http.exchange import EventStream
from outlive.frontends.mcp.http.resources import (
    MAX_RESOURCES,
    MIME_TYPE,
    URI_TEMPLATE,
    OutputResources,
    OutputSubscribers,
)
from outlive.frontends.mcp.tools.calls import Caller, Outcome, Progress, UnknownTool
from outlive.frontends.mcp.tools.toolbox import Tasks, Toolbox
from outlive.protocols.mcp.messages import (
    STATELESS_REVISION,
    SUBSCRIPTION_ID,
    Code,
    Declared,
    McpError,
    Message,
    id_of,
    object_param,
    progress_token,
    text_param,
    wrong_param,
)
from outlive.protocols.mcp.tasks import REQUIRED_CAPABILITY, TASKS_EXTENSION, call_result
from outlive.protocols.sse import encode_event

Result = Mapping[str, Any]

SERVER: Mapping[str, str] = MappingProxyType({"name": "outlive", "version": __version__})
_INSTRUCTIONS = (
    "Runs commands that outlive their caller. A call that takes long answers with an id: read, wait and "
    "list find the command again, also after a restart."
)
_CAPABILITIES: Mapping[str, Any] = MappingProxyType(
    {"resources": {"subscribe": True, "listChanged": False}, "tools": {"listChanged": False}}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpRequest:
    """One request.

    `stream` carries its answer, and what comes ahead of that; None where the answer can be no stream.
    """

    message: Message
    caller: Caller
    declared: Declared
    in_flight: InFlight
    stream: EventStream | None

    @property
    def params(self) -> Mapping[str, Any]:
        """Its parameters."""
        return self.message.params

    @property
    def is_stateless(self) -> bool:
        """Whether it is of 2026-07-28."""
        return self.declared.revision == STATELESS_REVISION

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message ahead of the answer; without a stream it is dropped."""
        if self.stream is not None:
            await self.stream.write(encode_event("message", orjson.dumps(message)))

    async def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification, as `send` does."""
        await self.send({"jsonrpc": "2.0", "method": method, "params": params})


@dataclass(frozen=True, slots=True, kw_only=True)
class McpMethod:
    """What answers a method, and in which eras there is one of that name."""

    answer: Callable[[McpRequest], Awaitable[Result]]
    in_sessions: bool = True
    is_stateless: bool = True


def method_table(toolbox: Toolbox, calls: Calls, subscriptions: OutputSubscribers) -> dict[str, McpMethod]:
    """Return all methods: the tools of `toolbox`, run by `calls`, its tasks, and its processes' output."""
    tools = ToolMethods(toolbox, calls)
    tasks = TaskMethods(toolbox.tasks)
    resources = ResourceMethods(OutputResources(toolbox), subscriptions)
    return {
        "initialize": McpMethod(answer=_initialize, is_stateless=False),
        "ping": McpMethod(answer=_ping, is_stateless=False),
        "server/discover": McpMethod(answer=_discover, in_sessions=False),
        "tools/list": McpMethod(answer=tools.list),
        "tools/call": McpMethod(answer=tools.call),
        "tasks/get": McpMethod(answer=tasks.get, in_sessions=False),
        "tasks/update": McpMethod(answer=tasks.update, in_sessions=False),
        "tasks/cancel": McpMethod(answer=tasks.cancel, in_sessions=False),
        "resources/list": McpMethod(answer=resources.list),
        "resources/templates/list": McpMethod(answer=resources.list_templates),
        "resources/read": McpMethod(answer=resources.read),
        "resources/subscribe": McpMethod(answer=resources.subscribe, is_stateless=False),
        "resources/unsubscribe": McpMethod(answer=resources.unsubscribe, is_stateless=False),
        "subscriptions/listen": McpMethod(answer=resources.listen, in_sessions=False),
    }


async def _initialize(request: McpRequest) -> Result:
    return {
        "protocolVersion": request.declared.revision,
        "capabilities": dict(_CAPABILITIES),
        "serverInfo": dict(SERVER),
        "instructions": _INSTRUCTIONS,
    }


async def _ping(request: McpRequest) -> Result:
    object_param(request.params, "_meta")
    return {}


async def _discover(_request: McpRequest) -> Result:
    return {
        "supportedVersions": [STATELESS_REVISION],
        "capabilities": {**_CAPABILITIES, "extensions": {TASKS_EXTENSION: {}}},
        "instructions": _INSTRUCTIONS,
    }


def _check_page(params: Mapping[str, Any]) -> None:
    """Let pass what asks for a list: all of it is in one answer, whatever page is asked for."""
    if params.get("cursor") is not None:
        text_param(params, "cursor")


class ToolMethods:
    """tools/list and tools/call."""

    def __init__(self, toolbox: Toolbox, calls: Calls) -> None:
        self._toolbox = toolbox
        self._calls = calls

    async def list(self, request: McpRequest) -> Result:
        """Return the tools that the caller is offered."""
        _check_page(request.params)
        return {"tools": self._toolbox.definitions(request.caller)}

    async def call(self, request: McpRequest) -> Result:
        """Run a tool.

        Cancellation: stops what the call started, unless it runs in the background.
        """
        name, arguments = text_param(request.params, "name"), object_param(request.params, "arguments")
        token = progress_token(request.message)
        progress = None if token is None else _progress(request, token)
        partial = _partial_results(request) if self._toolbox.settings.mcp_partial_results else None
        try:
            outcome = await self._calls.call(
                name, arguments, request.caller, progress, request=request.in_flight, partial=partial
            )
        except UnknownTool as error:
            raise McpError(Code.INVALID_PARAMS, f"{error.message} {error.hint}") from error
        return result_of(outcome)


def result_of(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as a CallToolResult, or as the task that it has become."""
    if outcome.task is not None:
        return outcome.task.to_created()
    return call_result(outcome.text, outcome.structured, is_error=outcome.is_error)


def _progress(request: McpRequest, token: str | int) -> Progress:
    numbers = count(1)  # must grow; how far a command is, is not known

    async def report(text: str) -> None:
        params = {"progressToken": token, "progress": next(numbers), "message": text}
        await request.notify("notifications/progress", params)

    return report


def _partial_results(request: McpRequest) -> Progress | None:
    """Return what sends a piece of output ahead of a call's result (SEP-2998, a draft; decision 184).

    None for a call that has not asked for it: it declares `partialResults` and has a `partialResultToken`.
    Calls of revisions with sessions declare nothing for themselves, and the draft is not for them.
    """
    token = id_of(request.message.meta.get("partialResultToken"))
    if token is None or not (request.is_stateless and "partialResults" in request.declared.capabilities):
        return None
    numbers = count()

    async def send(text: str) -> None:
        content = [{"type": "text", "text": text}]
        params = {"partialResultToken": token, "seq": next(numbers), "content": content}
        await request.notify("notifications/tools/partial_result", params)

    return send


class TaskMethods:
    """The methods of the extension `io.modelcontextprotocol/tasks` (its specification of 2026-07-28, "Error
    Handling").
    """

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    async def get(self, request: McpRequest) -> Result:
        """Return a task as it is now."""
        with _named_task(request) as task_id:
            return (await self._tasks.get(task_id, request.caller)).to_detailed()

    async def update(self, request: McpRequest) -> Result:
        """Take responses to what a task has asked for."""
        with _named_task(request) as task_id:
            responses = object_param(request.params, "inputResponses", is_needed=True)
            await self._tasks.update(task_id, responses, request.caller)
            return {}

    async def cancel(self, request: McpRequest) -> Result:
        """Ask for a task's end."""
        with _named_task(request) as task_id:
            await self._tasks.cancel(task_id, request.caller)
            return {}


def require_tasks(caller: Caller) -> None:
    """Refuse a request that does not declare the extension.

    Raises:
        McpError: It does not.
    """
    if not caller.has_tasks:
        message = f"This needs the client capability {TASKS_EXTENSION}, declared with the request."
        raise McpError(Code.MISSING_CAPABILITY, message, dict(REQUIRED_CAPABILITY))


@contextmanager
def _named_task(request: McpRequest) -> Iterator[str]:
    """Give the task that a request names; what is wrong with it is an error of the protocol."""
    task_id = text_param(request.params, "taskId")
    require_tasks(request.caller)
    try:
        yield task_id
    except ProcessNotFound as error:
        message = "There is no such task, or it was removed some time after its end."
        raise McpError(Code.INVALID_PARAMS, message) from error
    except OutliveError as error:
        raise McpError(Code.INTERNAL_ERROR, error.message) from error


class ResourceMethods:
    """The output of processes as resources, and the subscriptions of both eras."""

    def __init__(self, resources: OutputResources, subscriptions: OutputSubscribers) -> None:
        self._resources = resources
        self._subscriptions = subscriptions

    async def list(self, request: McpRequest) -> Result:
        """Return the newest resources."""
        _check_page(request.params)
        with _refused(request):
            return {"resources": await self._resources.list(request.caller)}

    async def list_templates(self, request: McpRequest) -> Result:
        """Return the one form of an address."""
        _check_page(request.params)
        template = {
            "uriTemplate": URI_TEMPLATE,
            "name": "process output",
            "description": "What a process has written: stdout, then stderr; of much output head and tail.",
            "mimeType": MIME_TYPE,
        }
        return {"resourceTemplates": [template]}

    async def read(self, request: McpRequest) -> Result:
        """Return a process's output."""
        uri = text_param(request.params, "uri")
        with _refused(request, uri):
            text = await self._resources.read(uri, request.caller)
        return {"contents": [{"uri": uri, "mimeType": MIME_TYPE, "text": text}]}

    async def subscribe(self, request: McpRequest) -> Result:
        """Notify the caller's session of a resource from now on."""
        uri = text_param(request.params, "uri")
        with _refused(request, uri):
            process = await self._resources.find(uri, request.caller)
            self._subscriptions.of(request.caller).add(uri, process)
        return {}

    async def unsubscribe(self, request: McpRequest) -> Result:
        """Notify it no more."""
        self._subscriptions.of(request.caller).remove(text_param(request.params, "uri"))
        self._subscriptions.release(request.caller)
        return {}

    async def listen(self, request: McpRequest) -> Result:
        """Acknowledge the resources that the caller has, then notify it of them until it leaves or the server
        stops.

        Lists that change are not announced, so nothing else that was asked for is acknowledged.
        """
        wanted = object_param(request.params, "notifications", is_needed=True)
        uris = wanted.get("resourceSubscriptions")
        if not (uris is None or (isinstance(uris, list) and all(isinstance(one, str) for one in uris))):
            raise wrong_param("resourceSubscriptions is a list of strings.")
        meta = {SUBSCRIPTION_ID: request.message.request_id}
        with self._subscriptions.stream() as subscriber:
            honored: list[str] = []
            with _refused(request):
                for uri in (uris or ())[:MAX_RESOURCES]:
                    with suppress(ProcessNotFound):
                        subscriber.add(uri, await self._resources.find(uri, request.caller))
                        honored.append(uri)
            acknowledged = {"resourceSubscriptions": honored} if honored else {}
            params = {"notifications": acknowledged, "_meta": meta}
            await request.notify("notifications/subscriptions/acknowledged", params)

            async def updated(uri: str) -> None:
                await request.notify("notifications/resources/updated", {"uri": uri, "_meta": meta})

            await subscriber.follow(updated)
        return {"_meta": meta}


@contextmanager
def _refused(request: McpRequest, uri: str = "") -> Iterator[None]:
    """Turn what is wrong with a request for a resource into the error of its revision, which names the
    resource (SEP-2164).
    """
    try:
        yield
    except ProcessNotFound as error:
        code = Code.INVALID_PARAMS if request.is_stateless else Code.RESOURCE_NOT_FOUND
        raise McpError(code, "Resource not found", {"uri": uri}) from error
    except OutliveError as error:
        raise McpError(Code.INTERNAL_ERROR, error.message) from error
