"""Fixtures of the extension `io.modelcontextprotocol/tasks`: tools whose calls become tasks in memory."""

import asyncio
from collections.abc import Awaitable, Callable

from outlive.frontends.mcp.http.methods import McpMethod, McpRequest, TaskMethods, require_tasks
from outlive.protocols.mcp.tasks import tool_result
from tests.conformance.fixture_rounds import form, form_answer, need
from tests.conformance.fixture_tools import FixtureTool, Object
from tests.conformance.memory_tasks import Job, MemoryTasks

_SHORT_S = 1.0  # how long the suite wants a job that fails to take


class TaskTools:
    """The suite's task tools and their tasks; unlike the product's tools they become tasks at once."""

    def __init__(self) -> None:
        self._tasks = MemoryTasks()

    def tools(self) -> tuple[FixtureTool, ...]:
        """Return the tools; each takes whatever it is called with."""
        return (
            FixtureTool("slow_compute", self._slow_compute),
            FixtureTool("failing_job", self._failing_job),
            FixtureTool("protocol_error_job", self._protocol_error_job),
            FixtureTool("confirm_delete", self._confirm_delete),
            FixtureTool("multi_input", self._multi_input),
            FixtureTool("test_tool_with_task", self._tool_with_task),
        )

    def beside(self, methods: dict[str, McpMethod]) -> dict[str, McpMethod]:
        """Return the methods of tasks, for these tasks beside the product's."""
        theirs = TaskMethods(self._tasks)
        return {
            name: McpMethod(answer=_either(answer, methods[name].answer), in_sessions=False)
            for name, answer in {
                "tasks/get": theirs.get,
                "tasks/update": theirs.update,
                "tasks/cancel": theirs.cancel,
            }.items()
        }

    def _begin(self, work: Callable[[Job], Awaitable[Object]], request: McpRequest) -> Object:
        require_tasks(request.caller)
        return self._tasks.create(work, request.caller).to_created()

    async def _slow_compute(self, request: McpRequest, arguments: Object) -> Object:
        async def work(_job: Job | None) -> Object:
            await asyncio.sleep(float(arguments.get("seconds", 0)))
            return tool_result(f"computed {arguments.get('label', '')}", None, is_error=False)

        return self._begin(work, request) if request.caller.has_tasks else await work(None)

    async def _failing_job(self, request: McpRequest, _arguments: Object) -> Object:
        async def work(_job: Job) -> Object:
            await asyncio.sleep(_SHORT_S)
            return tool_result("It failed.", None, is_error=True)

        return self._begin(work, request)

    async def _protocol_error_job(self, request: McpRequest, _arguments: Object) -> Object:
        async def work(_job: Job) -> Object:
            raise RuntimeError("It could not even begin.")

        return self._begin(work, request)

    async def _confirm_delete(self, request: McpRequest, arguments: Object) -> Object:
        async def work(job: Job) -> Object:
            name = arguments.get("filename")
            (answer,) = await job.ask(form(f"Delete {name}?", "confirm", "boolean"))
            return tool_result(f"asked about {name}: {answer}", None, is_error=False)

        return self._begin(work, request)

    async def _multi_input(self, request: McpRequest, _arguments: Object) -> Object:
        async def work(job: Job) -> Object:
            answers = await job.ask(form("First?", "name"), form("Second?", "name"))
            return tool_result(f"both came: {answers}", None, is_error=False)

        return self._begin(work, request)

    async def _tool_with_task(self, request: McpRequest, _arguments: Object) -> Object:
        require_tasks(request.caller)
        answer = form_answer(request, "user_name")
        if answer is None:
            return need({"user_name": form("Who are you?", "name")})

        async def work(_job: Job) -> Object:
            return tool_result(f"Hello, {answer.get('name')}!", None, is_error=False)

        return self._begin(work, request)


_Answer = Callable[[McpRequest], Awaitable[Object]]


def _either(theirs: _Answer, ours: _Answer) -> _Answer:
    async def answer(request: McpRequest) -> Object:
        is_theirs = str(request.params.get("taskId")).startswith("fixture-")
        return await (theirs if is_theirs else ours)(request)

    return answer
