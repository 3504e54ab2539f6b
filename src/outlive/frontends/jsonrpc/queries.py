"""The methods that change nothing (attach, events, list, get, read, search, wait), and those of approvals.

Approvals are for callers with the scope `admin` that no process of this server has started.
"""

import asyncio
import contextlib
from datetime import UTC, datetime

import msgspec

from outlive.core.cursor import Cursor
from outlive.core.errors import ProcessNotFound
from outlive.core.identity import is_process_id
from outlive.core.redactions import Redactions
from outlive.core.values import replace
from outlive.engine import Process, ProcessFilter
from outlive.frontends.jsonrpc.context import Concurrency, Context, Method, Result, table_of
from outlive.operations.answers import Approvals, OutputPage
from outlive.operations.search import SearchAnswer
from outlive.policy.access import approver_of
from outlive.protocols.jsonrpc.answers import EventFilter
from outlive.protocols.jsonrpc.members import (
    ProcessList,
    ProcessMembers,
    StatusMembers,
    UsageList,
)
from outlive.protocols.jsonrpc.params import (
    ApprovalsParams,
    ApproveParams,
    AttachParams,
    DenyParams,
    EventsParams,
    GetParams,
    ListParams,
    ReadParams,
    SearchParams,
    UsageParams,
    WaitParams,
)
from outlive.protocols.jsonrpc.views import Piece, page_view, process_view, stats_view
from outlive.server.operations import pending_approvals
from outlive.server.shown_output import check_within, search_once
from outlive.store.output_log import OutputChunk


async def attach(context: Context, params: AttachParams, _label: str | None) -> Result:
    """Follow a process from a cursor on: the answer, output, `process.completed` (promise S0.19)."""
    cursor = Cursor.parse(params.cursor)
    process = await context.find(params.process_id, params.project)
    check_within(process, cursor)
    form = context.output_format(params)
    if params.raw:
        await context.engine.as_(context.owner()).read_raw(process.process_id, cursor)
    return Result(
        process_view(process.record), then=lambda: context.subscriptions.follow(process, cursor, form)
    )


async def list_(context: Context, params: ListParams, _label: str | None) -> Result:
    """Return the processes of this session and the detached ones of its principal, newest first."""
    session = context.session
    limit = params.limit
    same_as = None
    if params.same_as is not None:
        run = (await context.find(params.same_as, params.project)).identity_record
        same_as = (run.command, run.cwd)
    own = ProcessFilter(
        principal=session.principal,
        connection_id=session.session_id,
        active=params.active,
        group=params.group,
        tags=params.tags,
        before=params.before,
        same_as=same_as,
        **params.members(),
    )
    detached = replace(own, connection_id=None, detached=True)
    found = {
        record.process_id: record
        for wanted in (own, detached)
        for record in await context.engine.queries.list(wanted, limit=limit, may_lack=True)
    }
    newest_first = sorted(found.values(), key=lambda record: record.process_id, reverse=True)
    result: dict[str, object] = {
        "processes": [process_view(record) for record in newest_first[:limit]],
        "more": len(newest_first) >= limit,
        **await context.engine.disk.view(),
    }
    return Result(result)


async def get(context: Context, params: GetParams, _label: str | None) -> Result:
    """Return everything about one process."""
    process = await context.find(params.process_id, params.project)
    view = process_view(process.record)
    if params.stats:
        view["stats"] = stats_view(await context.engine.queries.observe(process))
    return Result(view)


async def usage(context: Context, params: UsageParams, _label: str | None) -> Result:
    """Return what the trees of many processes use now, in one look; for whoever shows them as they change."""
    found: list[Process] = []
    for word in params.process_ids:
        with contextlib.suppress(ProcessNotFound):  # removed meanwhile
            found.append(await context.find(word))
    at = datetime.now(UTC)
    seen = await context.engine.queries.usage(found)
    shown = [
        {
            "process_id": process.process_id,
            "processes": len(one.pids),
            "cpu": one.cpu_s,
            "memory_bytes": one.memory_bytes,
            "ports": list(one.ports),
        }
        for process, one in zip(found, seen, strict=True)
    ]
    return Result({"at": at, "usage": shown})


async def search(context: Context, params: SearchParams, _label: str | None) -> Result:
    """Return what a search finds within a second or two in the output of its principal's processes, and where
    it goes on.
    """
    only = None if params.process_id is None else await context.find(params.process_id, params.project)
    found = await search_once(
        context.engine, params, principal=context.session.principal, only=only, tags=params.tags
    )
    return Result(msgspec.to_builtins(found))


async def read(context: Context, params: ReadParams, _label: str | None) -> Result:
    """Return one page of output from a cursor on; no chunks means caught up."""
    cursor = Cursor.parse(params.cursor)
    process = await context.find(params.process_id, params.project)
    check_within(process, cursor)
    chunks = await context.engine.queries.read(process, cursor, params.limit, raw=params.raw)
    if params.raw:
        await context.engine.as_(context.owner()).read_raw(
            process.process_id, cursor, OutputChunk.after(cursor, chunks)
        )
    end = Cursor(process.status.stdout_bytes, process.status.stderr_bytes)
    is_last = process.status.is_closed and OutputChunk.after(cursor, chunks) == end
    redactions = Redactions()
    pieces = [
        Piece(
            chunk.stream,
            chunk.offset,
            chunk.end,
            None if chunk.is_gap else chunk.data,
            redactions.count(chunk.stream, chunk.offset, chunk.end, chunk.hidden),
            chunk.time_ns if params.times else 0,
        )
        for chunk in chunks
    ]
    shown, following = page_view(pieces, cursor, encoding=params.encoding, is_last=is_last)
    page: dict[str, object] = {
        "process_id": process.process_id,
        "chunks": shown,
        "cursor": str(following),
        "more": following.stdout < end.stdout or following.stderr < end.stderr,
        "completed": process.status.is_complete,
    }
    if redactions.total:
        page["redacted"] = redactions.total
    return Result(page)


async def wait(context: Context, params: WaitParams, _label: str | None) -> Result:
    """Return the process when it is complete (or closed), or as it is after `wait_s` seconds.

    `timed_out` tells which; the process itself is never ended by this (wire.md, Words).
    """
    process = await context.find(params.process_id, params.project)
    timed_out = False
    try:
        async with asyncio.timeout(params.wait_s):
            await context.engine.queries.wait(process, until=params.until)
    except TimeoutError:
        timed_out = True
    return Result({**process_view(process.record), "timed_out": timed_out})


async def events(context: Context, params: EventsParams, _label: str | None) -> Result:
    """Send this connection what happens from now on; each call takes the place of the one before."""
    if not params.follow:
        context.events.close()
        return Result({"status": "silent"})
    # An id may stand for a process that is not there yet; another word has to mean one.
    ids = (
        None
        if params.process_ids is None
        else [
            word if is_process_id(word) else (await context.find(word, params.project)).process_id
            for word in params.process_ids
        ]
    )
    wanted = EventFilter(
        events=None if params.events is None else frozenset(params.events),
        process_ids=None if ids is None else frozenset(ids),
        group=params.group,
        tags=params.tags,
        states=None if params.states is None else frozenset(params.states),
        is_distinct=params.distinct,
    )
    await context.engine.queries.known()  # which processes are paused
    return Result({"status": "following"}, then=lambda: context.events.begin(wanted))


async def approvals(context: Context, params: ApprovalsParams, _label: str | None) -> Result:
    """List what waits for an approval, oldest first, of every principal."""
    waiting = await pending_approvals(context.engine, context.access, context.owner(), raw=params.raw)
    return Result({"approvals": waiting})


async def approve(context: Context, params: ApproveParams, _label: str | None) -> Result:
    """Let a process start that waits for an approval, if it is what the caller has looked at."""
    by = approver_of(context.access)
    process = await context.engine.queries.find(params.process_id)
    await context.engine.approvals.approve(process, digest=params.digest, by=by, always=params.always)
    return Result(process_view(process.record))


async def deny(context: Context, params: DenyParams, _label: str | None) -> Result:
    """End a process that waits for an approval; it never runs."""
    by = approver_of(context.access)
    process = await context.engine.queries.find(params.process_id)
    await context.engine.approvals.deny(process, by=by, reason=params.reason)
    return Result(process_view(process.record))


QUERIES = table_of(
    Method("attach", AttachParams, ProcessMembers, attach),
    Method("list", ListParams, ProcessList, list_),
    Method("get", GetParams, ProcessMembers, get),
    Method("usage", UsageParams, UsageList, usage, Concurrency.LONG),
    Method("read", ReadParams, OutputPage, read),
    Method("search", SearchParams, SearchAnswer, search, Concurrency.LONG),
    Method("wait", WaitParams, ProcessMembers, wait, Concurrency.LONG),
    Method("events", EventsParams, StatusMembers, events),
    Method("approvals", ApprovalsParams, Approvals, approvals),
    Method("approve", ApproveParams, ProcessMembers, approve, Concurrency.LONG),
    Method("deny", DenyParams, ProcessMembers, deny, Concurrency.LONG),
)
