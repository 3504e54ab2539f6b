"""Tasks in memory: `MemoryTasks`, the second implementation of `Tasks`, for what the fixtures run.

Test-only: nothing here outlives the server. What both implementations show, and who may ask, is the
product's.
"""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from outlive.core.errors import ProcessNotFound
from outlive.frontends.mcp.tools.calls import Caller
from outlive.protocols.mcp.tasks import Task

_POLL_MS = 100
_TTL_MS = 600_000


class Job:
    """One piece of work in the background: what it asks, and the task that it is seen as."""

    def __init__(self, principal: str, work: "Work") -> None:
        now = datetime.now(UTC)
        self.principal = principal
        self.task = Task(
            task_id=f"fixture-{secrets.token_hex(16)}",
            status="working",
            created_at=now,
            updated_at=now,
            ttl_ms=_TTL_MS,
            poll_interval_ms=_POLL_MS,
        )
        self._keys = itertools.count(1)
        self._asked: dict[str, asyncio.Future[object]] = {}
        self._requests: dict[str, object] = {}
        self._running = asyncio.create_task(self._run(work), name=self.task.task_id)

    async def ask(self, *requests: Mapping[str, object]) -> list[object]:
        """Ask the client several things at once; return the responses in the same order."""
        keys = [f"input-{next(self._keys)}" for _ in requests]  # never used twice
        for key, request in zip(keys, requests, strict=True):
            self._asked[key] = asyncio.get_running_loop().create_future()
            self._requests[key] = request
        self._show_requests()
        return [await self._asked[key] for key in keys]

    def hear(self, responses: Mapping[str, object]) -> None:
        """Take responses; those to what is not outstanding are ignored."""
        for key in responses.keys() & self._requests.keys():
            del self._requests[key]
            self._asked[key].set_result(responses[key])
        if self.task.status == "input_required":
            self._show_requests()

    async def end(self) -> None:
        """Stop the work, if it has not ended."""
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({self._running})

    def _show_requests(self) -> None:
        outstanding = dict(self._requests) or None
        self._change(
            replace(
                self.task,
                status="input_required" if outstanding else "working",
                input_requests=outstanding,
            )
        )

    async def _run(self, work: "Work") -> None:
        try:
            result = await work(self)
            self._change(replace(self.task, status="completed", result=result))
        except asyncio.CancelledError:
            self._change(replace(self.task, status="cancelled", input_requests=None))
        except Exception as error:  # noqa: BLE001 -- what a tool raises is a protocol error
            self._change(replace(self.task, status="failed", error={"code": -32603, "message": str(error)}))

    def _change(self, task: Task) -> None:
        self.task = replace(task, updated_at=datetime.now(UTC))


# What a job does; it returns a CallToolResult.
Work = Callable[[Job], Awaitable[Mapping[str, object]]]


class MemoryTasks:
    """The jobs of one server. Only its event loop uses it."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}

    def create(self, work: Work, caller: Caller) -> Task:
        """Begin some work; return the task, which can be asked for from now on."""
        job = Job(caller.principal, work)
        self._jobs[job.task.task_id] = job
        return job.task

    async def get(self, task_id: str, caller: Caller) -> Task:
        """Return a task as it is now."""
        return self._job(task_id, caller).task

    async def update(self, task_id: str, responses: Mapping[str, object], caller: Caller) -> None:
        """Give responses to who asked."""
        self._job(task_id, caller).hear(responses)

    async def cancel(self, task_id: str, caller: Caller) -> None:
        """Stop the work."""
        await self._job(task_id, caller).end()

    def _job(self, task_id: str, caller: Caller) -> Job:
        job = self._jobs.get(task_id)
        if job is None or job.principal != caller.principal:
            raise ProcessNotFound("process_not_found", "There is no such task.")
        return job
