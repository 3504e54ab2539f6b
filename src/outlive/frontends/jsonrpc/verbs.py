"""The methods that do something: execute, control, signal, write, close_stdin, resize, relabel, remove and so on."""

import asyncio
import base64
import binascii
import os
import time

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import (
    BackendUnavailable,
    CommandRefused,
    InvalidRequest,
    ProcessNotFound,
    StartFailed,
)
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.lifecycle import Cause, State, signal_number
from outlive.engine import Process
from outlive.frontends.jsonrpc.context import Context, Result
from outlive.protocols.jsonrpc.answers import encode_process_notification, encode_queued
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.params import (
    CloseOutputParams,
    ControlParams,
    ExecuteParams,
    ProcessParams,
    RelabelParams,
    ReleaseParams,
    RemoveParams,
    ResizeParams,
    SignalParams,
    WriteParams,
)
from outlive.protocols.jsonrpc.views import process_view
from outlive.server.shown_output import check_within

_WORDS = {"PAUSE": "paused", "RESUME": "resumed", "CANCEL": "cancelled"}
_START_S = 25.0  # what a start may take (`Engine.start`)


async def execute(context: Context, params: ExecuteParams, label: str | None) -> Result:
    """Start a command; its output follows the answer (promises S0.3-S0.5, S0.13).

    One that needs an approval, or whose group is full, is answered as queued, and process.queued says what it waits for;
    process.started follows when its turn has come.
    """
    form = context.output_format(params.output, params.max_line_bytes, raw=params.raw)
    command = params.to_command()
    connection = context.connection
    owner = context.owner(label)
    process = None if params.process_id is None else await _started_before(context, params.process_id)
    wanted = None if params.process_id is None else ProcessId(params.process_id)
    if params.raw:
        wanted = wanted or new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))
        await context.engine.as_(context.owner()).read_raw(wanted, BEGINNING)
    if process is None:
        with connection.starting(is_concurrent=params.concurrent):
            process = await context.engine.starts.start(command, owner=owner, process_id=wanted)
    is_queued = process.state is State.QUEUED
    record = process.record if is_queued else process.identity_record
    return Result(
        result={
            "status": "queued" if is_queued else "started",
            "pid": record.pid,
            "pgid": record.pid,
            "process_id": record.process_id,
            "shell": record.shell,
            "sandbox": record.sandbox.view(),
        },
        notifications=(
            encode_queued(record)
            if is_queued
            else encode_process_notification("started", record, cursor=str(BEGINNING)),
        ),
        then=lambda: context.followers.follow(process, BEGINNING, form),
    )


async def _started_before(context: Context, process_id: str) -> Process | None:
    """Return the process that an earlier `execute` with the same id has started, once it runs; None if there is none.

    Raises:
        InvalidRequest: The id is somebody else's.
        BackendUnavailable: `start_unanswered`: what was asked for that start has not answered yet.
        StartFailed: That start has failed.
    """
    try:
        process = await context.engine.queries.find(process_id)
    except ProcessNotFound:
        return None
    if not context.connection.may_see(process):
        raise InvalidRequest("invalid_params", "process_id: this one is taken.")
    woken = asyncio.Event()
    unsubscribe = process.subscribers.add(woken.set)
    try:
        async with asyncio.timeout(_START_S):
            while process.record.state is State.STARTING:
                woken.clear()
                await woken.wait()
    except TimeoutError:
        text = f"The start of {process_id} is not answered yet: it may run."
        details = {"process_id": process_id}
        raise BackendUnavailable("start_unanswered", text, details=details) from None
    finally:
        unsubscribe()
    record = process.record
    if record.cause in {Cause.APPROVAL_DENIED, Cause.APPROVAL_EXPIRED}:
        raise CommandRefused(record.cause.value, record.error or "It was not approved.")
    if record.state is State.FAILED_TO_START:
        raise StartFailed("start_failed", record.error or "The program was not started.")
    return process


async def control(context: Context, params: ControlParams, _label: str | None) -> Result:
    """Pause, resume or cancel the whole tree; output waits until the answer is written (promises S0.4, S0.10)."""
    process = await context.find(params.process_id)
    release = context.followers.hold(process.process_id)
    try:
        match params.verb:
            case "PAUSE":
                await context.acting.pause(process)
            case "RESUME":
                await context.acting.resume(process)
            case "CANCEL":
                await context.acting.cancel(process, grace_s=params.grace)
    except BaseException:
        release()
        raise
    word, record = _WORDS[params.verb], process.record
    cursor = context.followers.cursor(process.process_id)
    context.connections.announce(
        process.process_id,
        lambda delivered: encode_process_notification(word, record, cursor=str(delivered)),
        but=context.connection,
    )
    return Result(
        result={"status": word},
        notifications=(encode_process_notification(word, record, cursor=str(cursor)),),
        then=release,
    )


async def signal(context: Context, params: SignalParams, _label: str | None) -> Result:
    """Send a signal to the main process, its process group or the whole tree."""
    number = signal_number(params.signal)
    process = await context.find(params.process_id)
    release = context.followers.hold(process.process_id)
    try:
        await context.acting.signal(
            process, number, whole_tree=params.whole_tree, whole_group=params.whole_group
        )
    except BaseException:
        release()
        raise
    return Result(result={"status": "signalled", "signal": number}, then=release)


async def write(context: Context, params: WriteParams, _label: str | None) -> Result:
    """Write to the process's input; answered when all of it is in the pipe or terminal."""
    return await write_bytes(context, params, _input_bytes(params))


async def write_bytes(context: Context, params: ProcessParams, data: bytes | memoryview) -> Result:
    """Write bytes that came as they are, in a binary frame."""
    process = await context.find(params.process_id)
    await context.acting.write(process, data)
    return Result(result={"written": len(data)})


def _input_bytes(params: WriteParams) -> bytes:
    if params.encoding == "utf-8":
        return params.data.encode()
    try:
        return base64.b64decode(params.data, validate=True)
    except binascii.Error as error:
        raise InvalidRequest("invalid_params", f"data: not base64 ({error}).") from None


async def close_stdin(context: Context, params: ProcessParams, _label: str | None) -> Result:
    """Let the process read end-of-file; served after the writes before it."""
    process = await context.find(params.process_id)
    await context.acting.close_stdin(process)
    return Result(result={"status": "closed"})


async def close_output(context: Context, params: CloseOutputParams, _label: str | None) -> Result:
    """Close the reading end of a pipe of the process: whoever writes to it gets SIGPIPE."""
    process = await context.find(params.process_id)
    await context.acting.close_output(process, STREAM_NAMES.index(params.type))
    return Result(result={"status": "closed"})


async def release(context: Context, params: ReleaseParams, _label: str | None) -> Result:
    """Let go of delivered output, of a process whose `on_limit` is "block"; no other's output can be released so."""
    cursor = Cursor.parse(params.cursor)
    process = await context.find(params.process_id)
    check_within(process, cursor)
    await context.acting.release(
        process, stdout_bytes=cursor.stdout, stderr_bytes=cursor.stderr, unbound=params.unbound
    )
    return Result(result={"status": "released"})


async def resize(context: Context, params: ResizeParams, _label: str | None) -> Result:
    """Set the terminal's window size."""
    process = await context.find(params.process_id)
    await context.acting.resize(process, params.rows, params.cols)
    return Result(result={"rows": params.rows, "cols": params.cols})


async def relabel(context: Context, params: RelabelParams, _label: str | None) -> Result:
    """Change tags and group, while it runs and afterwards; they survive every crash."""
    process = await context.find(params.process_id)
    tags, group = params.applied(process.record.tags, process.record.group)
    await context.acting.relabel(process, tags=tags, group=group)
    return Result(result=process_view(process.record))


async def remove(context: Context, params: RemoveParams, _label: str | None) -> Result:
    """Forget a finished process: record, output and folder."""
    process = await context.find(params.process_id)
    await context.acting.remove(process, force=params.force, note="Removed by request.")
    return Result(result={"process_id": process.process_id, "removed": True})
