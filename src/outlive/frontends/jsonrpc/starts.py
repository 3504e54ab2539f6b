"""The methods that start a command: `execute`, and `rerun`, which starts one again."""

import asyncio
import functools
import os
import time

from outlive.core.cursor import BEGINNING
from outlive.core.errors import (
    BackendUnavailable,
    CommandRefused,
    InvalidRequest,
    ProcessNotFound,
    StartFailed,
)
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.lifecycle import Cause, State
from outlive.core.process import ProcessRecord
from outlive.engine import Process
from outlive.engine.processes.process import until
from outlive.frontends.jsonrpc.context import Concurrency, Context, Method, Result, table_of
from outlive.operations.repetition import Rerun
from outlive.protocols.jsonrpc.answers import encode_process_notification, encode_queued
from outlive.protocols.jsonrpc.members import RerunMembers, StartedMembers
from outlive.protocols.jsonrpc.params import ExecuteParams, ProcessIdMember, ProjectMember
from outlive.server.shown_output import start_again

_BEGINNING = str(BEGINNING)
_START_S = 25.0  # what a start may take (`backends.local`)


async def execute(context: Context, params: ExecuteParams, label: str | None) -> Result:
    """Start a command; its output follows the answer (promises S0.3-S0.5, S0.13).

    One that needs an approval, or whose group is full, is answered as queued, and process.queued says what it
    waits for; process.started follows when its turn has come. A known `key` is answered with its earlier
    process, marked `repeated`.
    """
    session, form = context.session, context.output_format(params)
    owner = context.owner(label, params.traceparent)
    command = params.to_command()
    process = wanted = None
    if params.process_id is not None:
        process = await _started_before(context, params.process_id)
        wanted = ProcessId(params.process_id)
    elif params.raw or params.key is not None:
        wanted = new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))
    if params.raw and wanted is not None:
        await context.engine.as_(context.owner()).read_raw(wanted, BEGINNING)
    if process is None:
        if not params.concurrent:
            session.check_free()
        session.starts += 1
        try:
            process = await context.engine.starts.start(command, owner=owner, process_id=wanted)
        finally:
            session.starts -= 1
    # Only a key answers for a process with another id.
    is_repeated = wanted is not None and process.process_id != wanted
    if is_repeated:
        await _settled(process)
        if params.raw:
            await context.engine.as_(context.owner()).read_raw(process.process_id, BEGINNING)
    result, record = _started(process)
    # One that has just gone asks for the output itself when its client is back.
    reader = (
        context.subscriptions
        if params.output_session is None
        else context.sessions.subscriptions_of(params.output_session, session.principal)
    )
    if is_repeated:
        result["repeated"] = True
    return Result(
        result,
        notifications=(
            encode_queued(record)
            if result["status"] == "queued"
            else encode_process_notification("started", record, cursor=_BEGINNING),
        ),
        then=None if reader is None else functools.partial(reader.follow, process, BEGINNING, form),
    )


def _started(process: Process) -> tuple[dict[str, object], ProcessRecord]:
    """Return the answer to a start, and the record that its notification is made of."""
    is_queued = process.status.state is State.QUEUED
    record = process.record if is_queued else process.identity_record
    result: dict[str, object] = {
        "status": "queued" if is_queued else "started",
        "pid": record.pid,
        "pgid": record.pid,
        "process_id": record.process_id,
        "shell": record.shell,
        "sandbox": record.sandbox.view(),
    }
    return result, record


class RerunParams(Rerun, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`rerun`: which process, and what of it was stored nowhere."""

    process_id: ProcessIdMember = None
    project: ProjectMember = None


async def rerun(context: Context, params: RerunParams, label: str | None) -> Result:
    """Start a process's command again, as it was started.

    It belongs to the principal, and its output is not followed.

    The new process has the id of the one that it repeats in its tag `repeats`.
    """
    process = await context.find(params.process_id, params.project)
    again = await start_again(context.engine, process, params, owner=context.owner(label))
    result = _started(again.process)[0]
    if again.lacks_environment:
        result["lacks_environment"] = True
    return Result(result)


async def _started_before(context: Context, process_id: str) -> Process | None:
    """Return the process that an earlier `execute` with the same id has started, once it runs; None if there
    is none.

    Raises:
        InvalidRequest: The id is taken by a process that this client may not see.
        BackendUnavailable, CommandRefused, StartFailed: As `_settled`.
    """
    try:
        process = await context.engine.queries.find(process_id)
    except ProcessNotFound:
        return None
    if not context.session.may_see(process.record):
        raise InvalidRequest("invalid_params", "process_id: this one is taken.")
    await _settled(process)
    return process


async def _settled(process: Process) -> None:
    """Return once a process that was started before runs, has run, or waits for its turn.

    Raises:
        BackendUnavailable: `start_unanswered`: what was asked for that start has not answered yet.
        CommandRefused, StartFailed: It never ran.
    """
    try:
        async with asyncio.timeout(_START_S):
            await until(process, lambda one: one.record.state is not State.STARTING)
    except TimeoutError:
        text = f"The start of {process.process_id} is not answered yet: it may run."
        details = {"process_id": process.process_id}
        raise BackendUnavailable("start_unanswered", text, details=details) from None
    record = process.record
    if record.cause in {Cause.APPROVAL_DENIED, Cause.APPROVAL_EXPIRED}:
        raise CommandRefused(record.cause.value, record.error or "It was not approved.")
    if record.state is State.FAILED_TO_START:
        raise StartFailed("start_failed", record.error or "The program was not started.")


STARTS = table_of(
    Method("execute", ExecuteParams, StartedMembers, execute, Concurrency.STARTS),
    Method("rerun", RerunParams, RerunMembers, rerun, Concurrency.STARTS),
)
