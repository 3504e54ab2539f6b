"""The documented paths (promise S4.7): exact keys, five status words, local times without a zone."""

from outlive.core.command import Command
from outlive.core.errors import ProcessNotFound
from outlive.core.redactions import redacted_member
from outlive.engine import Process, ProcessInfo
from outlive.frontends.rest.routes import Members, RestCall
from outlive.protocols.rest.requests import BackgroundRequest, OfPid, OfTracked, SyncRequest
from outlive.server.shown_output import duration_s, local_time, shown_output


async def terminate_by_pid(call: RestCall, asked: OfPid) -> Members:
    """End a process's whole tree (TERM, the termination timeout, KILL) and answer when it is gone."""
    return await call.registry.terminate_gracefully(pid=asked.pid, reason="Terminated by pid.")


async def list_(call: RestCall) -> Members:
    """List the processes that run, newest first, then what has ended and left others running."""
    running = await call.registry.list_all(running=True)
    shown = [one for one in running if one.status == "running"]  # not what waits for its turn
    processes = [_entry(one) for one in (*shown, *call.registry.leftovers())]
    return {"processes": processes, "count": len(processes), **await call.engine.disk.view()}


async def execute_background(call: RestCall, body: BackgroundRequest) -> Members:
    """Start a command and answer at once."""
    process = await _start(call, body)
    return {**await _tracked(call, process), "process_id": process.process_id}


async def get(call: RestCall, asked: OfTracked) -> Members:
    """Describe a process and what it has written so far."""
    return await _finished(call, await _find(call, asked.process_id))


async def terminate(call: RestCall, asked: OfTracked) -> Members:
    """End a process by its id, as by its pid."""
    process = await _find(call, asked.process_id)
    ended = call.registry.terminate_gracefully
    return await ended(request_id=process.process_id, reason="Terminated by process id.")


async def execute(call: RestCall, body: SyncRequest) -> Members:
    """Run a command and answer when it has ended. It goes on when the caller leaves before."""
    process = await _start(call, body)
    await call.first_of(_whole(call, process))
    found = await _finished(call, process)
    # The document's own front end reads these members alone (promise S4.7.sync).
    return {
        **found,
        "output": found["stdout"],
        "error": found["error"] or found["stderr"] or None,
        "return_code": found["exit_code"],
    }


async def _whole(call: RestCall, process: Process) -> None:
    await call.engine.queries.wait(process)
    await call.engine.queries.settle(process)


async def _start(call: RestCall, body: SyncRequest) -> Process:
    command = Command(
        line=body.command,
        timeout_s=body.timeout,
        grace_s=call.context.settings.termination_timeout_s,
        detached=True,
    )
    return await call.engine.starts.start(command, owner=call.owner())


async def _find(call: RestCall, name: str) -> Process:
    info = await call.registry.get_by_request_id(name)
    if info is None:
        hint = "GET /api/async/processes/list/ lists what there is."
        raise ProcessNotFound("process_not_found", f"There is no process {name[:40]!r}.", hint=hint)
    return await call.engine.queries.find(info.process_id)


async def _tracked(call: RestCall, process: Process) -> dict[str, object]:
    info = await call.registry.get_by_request_id(process.process_id)
    if info is None:  # removed meanwhile
        raise ProcessNotFound("process_not_found", f"There is no process {process.process_id!r}.")
    return _entry(info)


async def _finished(call: RestCall, process: Process) -> dict[str, object]:
    is_complete = process.status.is_complete  # before the output: a complete process goes with all of it
    entry = await _tracked(call, process)
    shown = await shown_output(process, limit_bytes=call.context.settings.max_output_bytes)
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
