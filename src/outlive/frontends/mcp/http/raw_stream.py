"""The answer to a raw caller's background call: events as they happen, at last the result (promises S4.3, S4.6)."""

import asyncio
import contextlib
import logging
import secrets

import orjson
from starlette.types import Receive

from outlive.core.errors import OutliveError
from outlive.core.lifecycle import Cause
from outlive.engine import Process
from outlive.engine.processes.process_waits import until
from outlive.frontends.mcp.http.calls import Calls, InFlight, result_of, terminated
from outlive.frontends.mcp.http.output_events import OutputEvents
from outlive.frontends.mcp.http.requests import Message
from outlive.frontends.mcp.http.responses import EventStream, gone
from outlive.frontends.mcp.tools.calls import Caller, Outcome
from outlive.frontends.mcp.tools.contract import Toolbox
from outlive.protocols.mcp.texts import error_text
from outlive.protocols.sse import COMMENT, encode_event

_logger = logging.getLogger(__name__)

BACKGROUND_TOOL = "execute_background_linux_shell_command"


async def stream_background(
    toolbox: Toolbox,
    calls: Calls,
    message: Message,
    caller: Caller,
    *,
    request: InFlight,
    stream: EventStream,
    receive: Receive,
) -> None:
    """Start the command that `message` names and stream it until its end, or until the caller has gone.

    The command goes on when the caller is gone. Cancellation: the same. What cancels `request` before the command
    runs ends it as soon as it does.
    """
    try:
        process = await toolbox.start_background(message.arguments, caller)
        if request.note is not None:
            await calls.end(process, caller, note=request.note)
    except OutliveError as error:
        outcome = Outcome(text=error_text(error), is_error=True)
        await stream.write(_result_event(message, outcome), is_last=True)
        return
    following = asyncio.create_task(_follow(process, caller, stream), name=f"raw stream {process.process_id}")
    leaving = asyncio.create_task(gone(receive), name="raw stream, the other end")
    try:
        await stream.until_first({following, leaving})
        if following.done():
            await stream.write(await _last_event(toolbox, message, process, following), is_last=True)
    finally:
        for task in (following, leaving):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _follow(process: Process, caller: Caller, stream: EventStream) -> None:
    if not process.status.is_acknowledged:  # its group is full: whoever asked hears at once that it waits
        await stream.write(COMMENT)
        await until(process, lambda one: one.status.is_acknowledged)  # or it was cancelled there
    started = {"pid": process.record.pid, "status": "started", "request_id": caller.request_id}
    await stream.write(encode_event("process_started", orjson.dumps(started)))
    events = OutputEvents(process)
    woken = asyncio.Event()
    unsubscribe = process.subscribers.add(woken.set, reads=True)
    try:
        while True:
            woken.clear()
            piece = events.turn()
            if piece:
                await stream.write(piece)
                await asyncio.sleep(0)  # one loud process must not starve the rest
            if events.is_over:
                return
            if not piece:
                await woken.wait()
    finally:
        unsubscribe()


async def _last_event(
    toolbox: Toolbox, message: Message, process: Process, following: asyncio.Task[None]
) -> bytes:
    try:
        following.result()
        outcome = await toolbox.background_result(process)
    except Exception as error:  # the stream has begun: whatever it is, the caller learns it here
        reference = secrets.token_hex(4)
        _logger.exception("following a process failed", extra={"reference": reference})
        text = error.message if isinstance(error, OutliveError) else "Something went wrong"
        return _result_event(message, Outcome(text=f"{text} (reference {reference})", is_error=True))
    if process.record.cause is Cause.CANCEL:
        outcome = terminated(outcome)
    return _result_event(message, outcome)


def _result_event(message: Message, outcome: Outcome) -> bytes:
    response = {"jsonrpc": "2.0", "id": message.request_id, "result": result_of(outcome)}
    return encode_event("message", orjson.dumps(response))
