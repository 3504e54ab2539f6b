"""What a returning client is told: which of its processes are followed, from where, in which format."""

from collections.abc import Mapping
from dataclasses import dataclass

from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, BackendUnavailable, ProcessNotFound
from outlive.engine import Process, ProcessFilter
from outlive.frontends.jsonrpc.context import Context
from outlive.frontends.jsonrpc.followers import OutputFormat
from outlive.protocols.jsonrpc.resumption import Resumption
from outlive.server.views.positions import check_within


@dataclass(frozen=True, slots=True)
class Continuation:
    """One process that goes on for the client."""

    process: Process
    cursor: Cursor
    form: OutputFormat


async def continuations(
    context: Context, resumption: Resumption, undelivered: Mapping[str, OutputFormat]
) -> list[Continuation]:
    """Return what a resumed connection follows, oldest process first.

    That is: what still runs, what ended while the client was away, what it names, and (for a cursor without a
    name) the process that it started last.

    Raises:
        InvalidRequest: A cursor lies behind the end of its process's output.
    """
    connection = context.connection
    processes: dict[str, Process] = {process.process_id: process for process in connection.running()}
    cursors = {process_id: resumption.position(process_id) for process_id in {*processes, *undelivered}}
    cursors |= resumption.named
    if resumption.cursor is not None:
        newest = await context.engine.list(ProcessFilter(connection_id=connection.connection_id), limit=1)
        cursors |= {record.process_id: resumption.cursor for record in newest}
    found: list[Continuation] = []
    for process_id, cursor in sorted(cursors.items()):
        process = processes.get(process_id) or await _find(context, process_id)
        if process is None:
            continue  # removed by retention meanwhile, or never this client's
        check_within(process, cursor)
        form = undelivered.get(process_id) or context.output_format("lines", None)
        if resumption.output is not None:
            form = OutputFormat(resumption.output, form.max_line_bytes)
        if form.is_raw:
            try:
                await context.engine.read_raw(context.owner(), process.process_id, cursor)
            except (AccessDenied, BackendUnavailable):  # it may do less than who was here before
                form = OutputFormat(form.mode, form.max_line_bytes)
        found.append(Continuation(process, cursor, form))
    return found


async def _find(context: Context, process_id: str) -> Process | None:
    try:
        return await context.find(process_id)
    except ProcessNotFound:
        return None
