"""Fixtures of the extension `io.modelcontextprotocol/tasks`: tools whose calls become tasks in memory."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.server.lowlevel import Server
from mcp.types import (
    CallToolRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    Tool,
)

from outlive.frontends.mcp.http.sdk_methods import Context, TaskParams, caller_of, offer_tasks, require_tasks
from outlive.frontends.mcp.tools.calls import Caller
from outlive.protocols.mcp.tasks import tool_result
from tests.conformance.memory_tasks import Job, MemoryTasks

_Result = Mapping[str, object] | InputRequiredResult
_Asked = CallToolRequestParams
_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
_SHORT_S = 1.0  # how long the suite wants a job that fails to take


class TaskTools:
    """The suite's task tools and their tasks; unlike the product's tools they become tasks at once."""

    def __init__(self) -> None:
        """Begin without tasks."""
        self._tasks = MemoryTasks()
        self._calls: dict[str, Callable[[_Asked, Caller], Awaitable[_Result]]] = {
            "slow_compute": self._slow_compute,
            "failing_job": self._failing_job,
            "protocol_error_job": self._protocol_error_job,
            "confirm_delete": self._confirm_delete,
            "multi_input": self._multi_input,
            "test_tool_with_task": self._tool_with_task,
        }

    def definitions(self) -> list[Tool]:
        """Return the tools; each takes whatever it is called with."""
        schema: dict[str, Any] = {"type": "object"}
        return [Tool(name=name, description="Becomes a task.", input_schema=schema) for name in self._calls]

    async def call(self, context: Context, params: _Asked) -> dict[str, Any] | InputRequiredResult:
        """Call one of them."""
        result = await self._calls[params.name](params, caller_of(context))
        return result if isinstance(result, InputRequiredResult) else dict(result)

    def join(self, server: Server[Any]) -> None:
        """Serve these tasks beside those that `server` has already."""
        theirs: dict[str, Callable[..., Awaitable[Any]]] = {}
        for method in _METHODS:
            entry = server.get_request_handler(method)
            assert entry is not None, method
            theirs[method] = entry.handler
        offer_tasks(server, self._tasks)
        for method in _METHODS:
            entry = server.get_request_handler(method)
            assert entry is not None, method
            server.add_request_handler(method, entry.params_type, _either(entry.handler, theirs[method]))

    def _begin(self, work: Callable[[Job], Awaitable[Mapping[str, object]]], caller: Caller) -> _Result:
        require_tasks(caller)
        return self._tasks.create(work, caller).to_created()

    async def _slow_compute(self, params: _Asked, caller: Caller) -> _Result:
        arguments = params.arguments or {}

        async def work(_job: Job | None) -> Mapping[str, object]:
            await asyncio.sleep(float(arguments.get("seconds", 0)))
            return tool_result(f"computed {arguments.get('label', '')}", None, is_error=False)

        return self._begin(work, caller) if caller.has_tasks else await work(None)

    async def _failing_job(self, _params: _Asked, caller: Caller) -> _Result:
        async def work(_job: Job) -> Mapping[str, object]:
            await asyncio.sleep(_SHORT_S)
            return tool_result("It failed.", None, is_error=True)

        return self._begin(work, caller)

    async def _protocol_error_job(self, _params: _Asked, caller: Caller) -> _Result:
        async def work(_job: Job) -> Mapping[str, object]:
            raise RuntimeError("It could not even begin.")

        return self._begin(work, caller)

    async def _confirm_delete(self, params: _Asked, caller: Caller) -> _Result:
        name = (params.arguments or {}).get("filename")

        async def work(job: Job) -> Mapping[str, object]:
            (answer,) = await job.ask(_form(f"Delete {name}?", "confirm", "boolean"))
            return tool_result(f"asked about {name}: {answer}", None, is_error=False)

        return self._begin(work, caller)

    async def _multi_input(self, _params: _Asked, caller: Caller) -> _Result:
        async def work(job: Job) -> Mapping[str, object]:
            answers = await job.ask(_form("First?", "name"), _form("Second?", "name"))
            return tool_result(f"both came: {answers}", None, is_error=False)

        return self._begin(work, caller)

    async def _tool_with_task(self, params: _Asked, caller: Caller) -> _Result:
        require_tasks(caller)
        answer = (params.input_responses or {}).get("user_name")
        if not isinstance(answer, ElicitResult):
            return InputRequiredResult(input_requests={"user_name": _elicit("Who are you?", "name")})

        async def work(_job: Job) -> Mapping[str, object]:
            return tool_result(f"Hello, {(answer.content or {}).get('name')}!", None, is_error=False)

        return self._begin(work, caller)


def _either(
    ours: Callable[..., Awaitable[Any]], theirs: Callable[..., Awaitable[Any]]
) -> Callable[..., Awaitable[Any]]:
    async def handle(context: Context, params: TaskParams) -> Any:  # noqa: ANN401 -- as the SDK has it
        return await (ours if params.task_id.startswith("fixture-") else theirs)(context, params)

    return handle


def _elicit(message: str, name: str, kind: str = "string") -> ElicitRequest:
    schema: dict[str, Any] = {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _form(message: str, name: str, kind: str = "string") -> dict[str, object]:
    return _elicit(message, name, kind).model_dump(mode="json", by_alias=True, exclude_none=True)
