"""/v1/processes and /v1/approvals: start, list, look, change, remove; what is done to a process, and what
waits for approval; beside them the probes.

Idempotency-Key: a request that is sent twice starts one command (draft-ietf-httpapi-idempotency-key-header).
Key and body are kept with the process, as hashes in the place of its connection and its request, so that they
are known after a restart, too, and as long as the process is.
"""

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Iterable
from typing import cast

from starlette.requests import Request
from starlette.responses import Response

from outlive.core.command import Command
from outlive.core.controls import CloseInput
from outlive.core.errors import InvalidRequest
from outlive.core.identity import RANDOM_BYTES, is_process_id, new_process_id
from outlive.core.lifecycle import ENDED, NOT_ENDED, State
from outlive.core.process import Owner
from outlive.engine import Process, ProcessFilter
from outlive.frontends.rest.door import ALIVE, READY, found_so_far
from outlive.frontends.rest.problems import HttpRefusal
from outlive.frontends.rest.routes import Members, RestCall, json_answer
from outlive.operations.controls import Approving, Denial, ProcessControl
from outlive.operations.repetition import Rerun
from outlive.policy.access import approver_of
from outlive.protocols.rest.answers import process_view
from outlive.protocols.rest.requests import (
    ApprovalParameters,
    ListParameters,
    OfProcess,
    OfTerminal,
    OfWaiting,
    RemoveParameters,
    StartParameters,
    StartRequest,
    StateName,
    WaitParameters,
    WriteParameters,
    tags_of,
)
from outlive.server.operations import pending_approvals
from outlive.server.shown_output import start_again

_SEVERAL = {"active": NOT_ENDED, "ended": ENDED}
_KEY_MARK = "key:"


async def start(call: RestCall, asked: StartParameters, body: StartRequest) -> Response:
    """Start a command and answer once it runs. It belongs to you, not to this connection."""
    process, is_new = await _started(call, body.to_command(), asked.idempotency_key)
    location = f"/v1/processes/{process.process_id}"
    return json_answer(process_view(process.record), 201 if is_new else 200, Location=location)


async def _started(call: RestCall, command: Command, key: str | None) -> tuple[Process, bool]:
    """Return the process of a start, and whether it was started now; each key's command is started once.

    Raises:
        HttpRefusal: `key_reused`: the key started something else before.
        OutliveError: As `Starts.start`.
    """
    if key is None:
        return await _start(call, command, call.owner())
    mark = _KEY_MARK + hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    fingerprint = hashlib.sha256(call.content).hexdigest()
    # Two requests with one key at the same time: the second one waits, and finds what the first one has
    # started.
    async with call.context.key_locks.setdefault(mark, asyncio.Lock()):
        owner = call.owner(connection_id=mark, request_id=fingerprint)
        known = await _known(call, owner)
        if known is None:
            return await _start(call, command, owner)
        if known.record.owner.request_id != fingerprint:
            raise HttpRefusal("key_reused", "This Idempotency-Key was used with another body.")
        return known, False


async def _start(call: RestCall, command: Command, owner: Owner) -> tuple[Process, bool]:
    """Start a command.

    A process with another id than this one was started before, with the command's `key`.
    """
    wanted = new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))
    process = await call.engine.starts.start(command, owner=owner, process_id=wanted)
    return process, process.process_id == wanted


async def _known(call: RestCall, owner: Owner) -> Process | None:
    wanted = ProcessFilter(principal=owner.principal, connection_id=owner.connection_id)
    records = await call.engine.queries.list(wanted, limit=1)
    return await call.engine.queries.find(records[0].process_id) if records else None


async def list_(call: RestCall, asked: ListParameters) -> Members:
    """List processes, newest first, running and ended."""
    cursor, state = asked.cursor, asked.state
    if cursor is not None and not is_process_id(cursor):
        raise InvalidRequest("invalid_cursor", "cursor: take `next` of the page before.")
    # What a command has left behind runs, too: no set of states says that.
    is_active = state == ["active"]
    same_as = None
    if asked.same_as is not None:
        run = (await call.find(OfProcess(process_id=asked.same_as, project=asked.project))).identity_record
        same_as = (run.command, run.cwd)
    wanted = ProcessFilter(
        principal=call.access.principal,
        detached=True,
        active=True if is_active else None,
        states=None if state is None or is_active else _states(state),
        tags=tags_of(asked.tag),
        group=asked.group,
        text=asked.q,
        same_as=same_as,
        before=cursor,
        **asked.members(),
    )
    # One more than is shown says whether another page follows.
    records = await call.engine.queries.list(wanted, limit=asked.limit + 1, may_lack=True)
    page = records[: asked.limit]
    following = page[-1].process_id if len(records) > asked.limit else None
    shown = {"processes": [process_view(record) for record in page], "next": following}
    return {**shown, **await call.engine.disk.view()}


def _states(names: Iterable[StateName]) -> frozenset[State]:
    return frozenset().union(*(_SEVERAL.get(name) or {State(name)} for name in names))


async def get(call: RestCall, asked: OfProcess) -> Members:
    """Describe a process."""
    return process_view((await call.find(asked)).record)


async def change(call: RestCall, asked: OfProcess, body: ProcessControl) -> Members:
    """Carry out a control, and return the process as it is then."""
    process = await call.find(asked)
    await body.apply(call.acting, process)
    return process_view(process.record)


async def rerun(call: RestCall, asked: OfProcess, body: Rerun) -> Response:
    """Start a process's command again, as it was started.

    The new one runs beside it, and has the old id in its tag `repeats`.

    What its caller gave it and was stored nowhere is not repeated: values of secret variables are given
    again, and in the place of an MCP host's environment comes the server's.
    """
    process = await call.find(asked)
    again = await start_again(call.engine, process, body, owner=call.owner())
    location = f"/v1/processes/{again.process.process_id}"
    return json_answer(process_view(again.process.record), 201, Location=location)


async def remove(call: RestCall, asked: RemoveParameters) -> Members:
    """Forget a finished process: record, output and folder."""
    process = await call.find(asked)
    await call.acting.remove(process, force=asked.force, note="Removed by request.")
    return {"process_id": process.process_id, "removed": True}


async def write(call: RestCall, asked: WriteParameters) -> Members:
    """Write the body to the process's input while it comes.

    Answered when all of it is in the pipe or terminal.

    A body of any length: no more of it is held than one piece, and a process that does not read makes the
    sender wait.
    """
    process = await call.find(asked)
    body = aiter(cast("Request", call.connection).stream())
    first = await anext(body, b"")
    written = 0
    if first or not asked.eof:
        written = await call.acting.write(process, _behind(first, body))
    if asked.eof:
        await call.acting.control(process, CloseInput())
    return {"written": written, "eof": asked.eof}


async def _behind(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield `first`, then `rest` but for the empty piece that ends a body."""
    yield first
    async for piece in rest:
        if piece:
            yield piece


async def wait(call: RestCall, asked: WaitParameters) -> Members:
    """Answer when the process has ended, or as it is after `timeout`: still running is no error."""
    process = await call.find(asked)
    over = call.engine.queries.wait(process, until=asked.until)
    is_over = await call.first_of(over, within_s=asked.timeout)
    return {**process_view(process.record), "timed_out": not is_over}


async def terminal(call: RestCall, asked: OfTerminal) -> Members:
    """Describe a terminal."""
    return await call.context.terminals.get(asked.terminal_id, call.owner())


async def approvals(call: RestCall, asked: ApprovalParameters) -> Members:
    """List what waits for an approval, oldest first, of every principal."""
    return {"approvals": await pending_approvals(call.engine, call.access, call.owner(), raw=asked.raw)}


async def approve(call: RestCall, asked: OfWaiting, body: Approving) -> Members:
    """Let a process start that waits for an approval, if it is what was looked at."""
    by = approver_of(call.access)
    process = await call.engine.queries.find(asked.process_id)
    await call.engine.approvals.approve(process, digest=body.digest, by=by, always=body.always)
    return process_view(process.record)


async def deny(call: RestCall, asked: OfWaiting, body: Denial) -> Members:
    """End a process that waits for an approval; it never runs."""
    by = approver_of(call.access)
    process = await call.engine.queries.find(asked.process_id)
    await call.engine.approvals.deny(process, by=by, reason=body.reason)
    return process_view(process.record)


async def healthz(_call: RestCall) -> Members:
    """Say that the server answers."""
    return ALIVE


async def readyz(call: RestCall) -> Members:
    """Say whether the keeper answers and the registry can be written."""
    await call.engine.health.check()
    return {**READY, **found_so_far(call.engine)}
