"""The methods that change nothing: attach, events, list, get, read, wait.

The methods of approvals: approvals, approve, deny. For callers with the scope `admin` from outside of our trees.

The methods terminal_list, terminal_create, terminal_execute, terminal_read, terminal_write, terminal_resize, terminal_close.

Promise S3.6: what they take and give is the same at every door.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from outlive.core.cursor import Cursor
from outlive.core.process import Owner
from outlive.core.redactions import Redactions, redacted_member
from outlive.engine import ProcessFilter
from outlive.frontends.jsonrpc.context import Context, Result
from outlive.policy.access import approver_of
from outlive.protocols.jsonrpc.notifications import EventFilter
from outlive.protocols.jsonrpc.params import (
    ApprovalsParams,
    ApproveParams,
    AttachParams,
    DenyParams,
    EventsParams,
    GetParams,
    ListParams,
    NodesParams,
    ReadParams,
    WaitParams,
)
from outlive.protocols.jsonrpc.views import Piece, page_view, process_view, stats_view
from outlive.server.shown_output import check_within
from outlive.server.terminal_calls import TerminalCalls, pending_approvals
from outlive.store.output_log import OutputChunk


async def attach(context: Context, params: AttachParams, _label: str | None) -> Result:
    """Follow a process from a cursor on: the answer, output, `process.completed` (promise S0.19)."""
    cursor = Cursor.parse(params.cursor)
    process = await context.find(params.process_id)
    check_within(process, cursor)
    form = context.output_format(params.output, params.max_line_bytes, raw=params.raw)
    if params.raw:
        await context.engine.as_(context.owner()).read_raw(process.process_id, cursor)
    return Result(
        result=process_view(process.record),
        then=lambda: context.followers.follow(process, cursor, form),
    )


async def list_processes(context: Context, params: ListParams, _label: str | None) -> Result:
    """Return the processes of this connection and the detached ones of its principal, newest first."""
    connection = context.connection
    limit = params.limit
    own = ProcessFilter(
        principal=connection.principal,
        connection_id=connection.connection_id,
        active=params.active,
        group=params.group,
        tags=params.tags,
        before=params.before,
    )
    detached = ProcessFilter(
        principal=connection.principal,
        detached=True,
        active=params.active,
        group=params.group,
        tags=params.tags,
        before=params.before,
    )
    found = {
        record.process_id: record
        for wanted in (own, detached)
        for record in await context.engine.queries.list(wanted, limit=limit)
    }
    newest_first = sorted(found.values(), key=lambda record: record.process_id, reverse=True)
    return Result(
        result={
            "processes": [process_view(record) for record in newest_first[:limit]],
            "more": len(newest_first) >= limit,
            **context.engine.disk.view(),
        }
    )


async def get(context: Context, params: GetParams, _label: str | None) -> Result:
    """Return everything about one process."""
    process = await context.find(params.process_id)
    view = process_view(process.record)
    if params.stats:
        view["stats"] = stats_view(await context.engine.queries.observe(process))
    return Result(result=view)


async def nodes(context: Context, _params: NodesParams, _label: str | None) -> Result:
    """Return what is known of the other servers that run commands for this one; none of them is asked."""
    found = [
        {
            "name": name,
            "address": node.address,
            "state": "away" if node.is_away else "connected",
            "since": node.since,
            "reason": node.reason,
            "hint": node.hint,
            "processes": node.processes,
        }
        for name, node in sorted(context.engine.health.nodes().items())
    ]
    return Result(result={"nodes": found})


async def read(context: Context, params: ReadParams, _label: str | None) -> Result:
    """Return one page of output from a cursor on; no chunks means caught up."""
    cursor = Cursor.parse(params.cursor)
    process = await context.find(params.process_id)
    check_within(process, cursor)
    chunks = await context.engine.queries.read(process, cursor, params.limit, raw=params.raw)
    if params.raw:
        await context.engine.as_(context.owner()).read_raw(
            process.process_id, cursor, OutputChunk.after(cursor, chunks)
        )
    end = Cursor(process.status.stdout_bytes, process.status.stderr_bytes)
    is_last = process.is_closed and OutputChunk.after(cursor, chunks) == end
    redactions = Redactions()
    pieces = [
        Piece(
            chunk.stream,
            chunk.offset,
            chunk.end,
            None if chunk.is_gap else chunk.data,
            redactions.count(chunk.stream, chunk.offset, chunk.end, chunk.hidden),
        )
        for chunk in chunks
    ]
    shown, following = page_view(pieces, cursor, encoding=params.encoding, is_last=is_last)
    return Result(
        result={
            "process_id": process.process_id,
            "chunks": shown,
            "cursor": str(following),
            "more": following.stdout < end.stdout or following.stderr < end.stderr,
            "completed": process.is_complete,
            **redacted_member(redactions.total),
        }
    )


async def wait(context: Context, params: WaitParams, _label: str | None) -> Result:
    """Return the process when it is complete (or closed), or as it is after `wait_s` seconds.

    `timed_out` tells which; the process itself is never ended by this (wire.md, Words).
    """
    process = await context.find(params.process_id)
    timed_out = False
    try:
        async with asyncio.timeout(params.wait_s):
            await context.engine.queries.wait(process, until=params.until)
    except TimeoutError:
        timed_out = True
    return Result(result={**process_view(process.record), "timed_out": timed_out})


async def events(context: Context, params: EventsParams, _label: str | None) -> Result:
    """Tell this connection what happens from now on; each call takes the place of the one before."""
    if not params.follow:
        context.events.close()
        return Result(result={"status": "silent"})
    wanted = EventFilter(
        events=None if params.events is None else frozenset(params.events),
        process_ids=None if params.process_ids is None else frozenset(params.process_ids),
        group=params.group,
        tags=params.tags,
        states=None if params.states is None else frozenset(params.states),
    )
    await context.engine.queries.known()  # who is paused
    return Result(result={"status": "following"}, then=lambda: context.events.begin(wanted))


async def approvals(context: Context, params: ApprovalsParams, _label: str | None) -> Result:
    """List what waits for an approval, oldest first, whoever asked."""
    waiting = await pending_approvals(context.engine, context.access, context.owner(), raw=params.raw)
    return Result(result={"approvals": waiting})


async def approve(context: Context, params: ApproveParams, _label: str | None) -> Result:
    """Let a process start that waits for an approval, if it is what the caller has looked at."""
    by = approver_of(context.access)
    process = await context.engine.queries.find(params.process_id)
    await context.engine.approvals.approve(process, digest=params.digest, by=by)
    return Result(result=process_view(process.record))


async def deny(context: Context, params: DenyParams, _label: str | None) -> Result:
    """End a process that waits for an approval; it never runs."""
    by = approver_of(context.access)
    process = await context.engine.queries.find(params.process_id)
    await context.engine.approvals.deny(process, by=by, reason=params.reason)
    return Result(result=process_view(process.record))


_Params = TypeVar("_Params", bound=msgspec.Struct)


def terminal_method(
    call: Callable[[TerminalCalls, _Params, Owner], Awaitable[dict[str, object]]],
) -> Callable[[Context, _Params, str | None], Awaitable[Result]]:
    """Return the method that makes a call of `TerminalCalls`."""

    async def method(context: Context, params: _Params, label: str | None) -> Result:
        return Result(result=await call(context.terminals, params, context.owner(label)))

    return method
