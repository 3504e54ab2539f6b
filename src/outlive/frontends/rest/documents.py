"""The documented paths (promise S4.7): exact keys, five status words, local times without a zone."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from starlette.responses import Response

from outlive.core.command import Command
from outlive.core.errors import ProcessNotFound
from outlive.core.redactions import redacted_member
from outlive.engine import Process, ProcessInfo
from outlive.frontends.rest.bodies import describe_body, read_body
from outlive.frontends.rest.context import RestContext, json_answer, problems
from outlive.protocols.rest.answers import Finished, Started, Terminated, TrackedProcesses
from outlive.protocols.rest.requests import BackgroundRequest, SyncRequest
from outlive.server.shown_output import duration_s, local_time, shown_output

_MAX_PID = 2**31 - 1  # pid_t
_Name = Annotated[
    str, Path(description="A process id, or the request id it is listed under.", max_length=256)
]
_Pid = Annotated[int, Query(ge=1, le=_MAX_PID, description="Of a process that this server has started.")]


class DocumentRoutes:
    """The routes below /api, each with and without the slash at its end."""

    def __init__(self, context: RestContext) -> None:
        """Answer from `context`."""
        self._context = context

    def add_to(self, router: APIRouter) -> None:
        """Register the routes."""

        def add(path: str, answer: Callable[..., Awaitable[Response]], **told: Any) -> None:  # noqa: ANN401 -- FastAPI's own
            router.add_api_route(path, answer, **told)
            # Callers of the document leave the last slash out, too; it is described once.
            router.add_api_route(path.removesuffix("/"), answer, include_in_schema=False, **told)

        post, starts = ["POST"], problems(400, 403, 413, 415, 507)
        add(
            "/api/async/process/terminate_by_pid/",
            self.terminate_by_pid,
            methods=post,
            response_model=Terminated,
            responses=problems(404, 409),
        )
        add("/api/async/processes/list/", self.list, response_model=TrackedProcesses, responses=problems())
        add(
            "/api/async/execute/background/",
            self.execute_background,
            methods=post,
            response_model=Started,
            responses=starts,
            openapi_extra=describe_body(BackgroundRequest),
        )
        add("/api/async/process/{process_id}/", self.get, response_model=Finished, responses=problems(404))
        add(
            "/api/async/process/terminate/{process_id}/",
            self.terminate,
            methods=post,
            response_model=Terminated,
            responses=problems(404, 409),
        )
        add(
            "/api/sync/execute/",
            self.execute,
            methods=post,
            response_model=Finished,
            responses=starts,
            openapi_extra=describe_body(SyncRequest),
        )

    async def terminate_by_pid(self, pid: _Pid) -> Response:
        """End a process's whole tree (TERM, the termination timeout, KILL) and answer when it is gone."""
        ended = self._context.registry.terminate_gracefully
        return json_answer(await ended(pid=pid, reason="Terminated by pid."))

    async def list(self) -> Response:
        """List the processes that run, newest first, then what has ended and left others running."""
        running = await self._context.registry.list_all(running=True)
        shown = [one for one in running if one.status == "running"]  # not what waits for its turn
        processes = [_entry(one) for one in (*shown, *self._context.registry.leftovers())]
        told = self._context.engine.disk.view()
        return json_answer({"processes": processes, "count": len(processes), **told})

    async def execute_background(
        self, body: Annotated[BackgroundRequest, Depends(read_body(BackgroundRequest, needs_type=False))]
    ) -> Response:
        """Start a command and answer at once."""
        process = await self._start(body)
        return json_answer({**await self._tracked(process), "process_id": process.process_id})

    async def get(self, process_id: _Name) -> Response:
        """Describe a process and what it has written so far."""
        return json_answer(await self._finished(await self._find(process_id)))

    async def terminate(self, process_id: _Name) -> Response:
        """End a process by its id, as by its pid."""
        process = await self._find(process_id)
        ended = self._context.registry.terminate_gracefully
        return json_answer(await ended(request_id=process.process_id, reason="Terminated by process id."))

    async def execute(
        self, body: Annotated[SyncRequest, Depends(read_body(SyncRequest, needs_type=False))]
    ) -> Response:
        """Run a command and answer when it has ended. It goes on when the caller leaves before."""
        process = await self._start(body)
        await self._context.first_of(self._context.engine.queries.wait(process))
        return json_answer(await self._finished(process))

    async def _start(self, asked: SyncRequest) -> Process:
        command = Command(
            line=asked.command,
            timeout_s=asked.timeout,
            grace_s=self._context.settings.termination_timeout_s,
            detached=True,
        )
        return await self._context.engine.starts.start(command, owner=self._context.owner())

    async def _find(self, name: str) -> Process:
        info = await self._context.registry.get_by_request_id(name)
        if info is None:
            hint = "GET /api/async/processes/list/ lists what there is."
            raise ProcessNotFound("process_not_found", f"There is no process {name[:40]!r}.", hint=hint)
        return await self._context.engine.queries.find(info.process_id)

    async def _tracked(self, process: Process) -> dict[str, object]:
        info = await self._context.registry.get_by_request_id(process.process_id)
        if info is None:  # removed meanwhile
            raise ProcessNotFound("process_not_found", f"There is no process {process.process_id!r}.")
        return _entry(info)

    async def _finished(self, process: Process) -> dict[str, object]:
        is_complete = process.is_complete  # before the output: a complete process goes with all of it
        entry = await self._tracked(process)
        limit_bytes = self._context.settings.max_output_bytes
        shown = await shown_output(process, limit_bytes=limit_bytes)
        record = process.record
        return {
            **entry,
            "process_id": process.process_id,
            "success": entry["status"] == "completed" if is_complete else None,
            "stdout": shown.stdout,
            "stderr": shown.stderr,
            "duration": round(duration_s(record), 6),
            "timeout": record.timeout_s,
            "error": record.error,
            **redacted_member(shown.redacted + record.redacted),
        }


def _entry(info: ProcessInfo) -> dict[str, object]:
    ended = info.terminated_at
    return {
        "pid": info.pid,
        "request_id": info.request_id,
        "command": info.command,
        "status": info.status,
        "started_at": local_time(info.started_at),
        "exit_code": info.exit_code,
        "terminated_at": None if ended is None else local_time(ended),
        "termination_signal": info.termination_signal,
        **({"output_lost": True} if info.output_lost else {}),
        **({"left": info.left} if info.left else {}),
        **redacted_member(info.redacted),
        **({} if info.is_reachable else {"reachable": False}),
    }
