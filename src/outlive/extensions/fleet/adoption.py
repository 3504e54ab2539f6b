"""`Adoption`: what other servers have started on a node, followed from here as well.

A process is made known by its folder alone: it is written as a start's is once the node has answered, and the
engine finds it there as it finds what an earlier server has left. The node is never asked to start it. What a
node says of its processes is taken within bounds.
"""

import shlex
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from outlive.core.command import Stdin, Stdio
from outlive.core.errors import InvalidRequest, ProcessNotFound, ProtocolViolation
from outlive.core.identity import ProcessId, is_process_id
from outlive.core.lifecycle import State
from outlive.core.location import Location
from outlive.core.needs import Amounts, Needs
from outlive.core.process import Owner, ProcessRecord, StartOrigin
from outlive.core.spec import Spec
from outlive.engine.queries import Queries
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.names import ProjectNumbers, StartNames
from outlive.extensions.fleet.routes import FleetRoutes
from outlive.operations.requests import Amount, Tags
from outlive.protocols.keeper import encode_spec
from outlive.store.folder import encode_meta
from outlive.store.rows import to_ns

_PAGE = 500  # of the node's list: some 500 KB
_MOST_TEXT = 1 << 20
_Seconds = Annotated[float, Meta(ge=0)]


class _SeenNeeds(msgspec.Struct, kw_only=True, frozen=True):
    """What it takes of the machine."""

    cpu: Amount = 0
    memory: Annotated[int, Meta(ge=0, le=2**62)] = 0
    gpu: Amount = 0


class _Seen(msgspec.Struct, kw_only=True, frozen=True):
    """What is taken over of a process as the node lists it (docs/jsonrpc.md, `list`)."""

    process_id: str
    command: Annotated[str, Meta(max_length=_MOST_TEXT)]
    shell: Annotated[str, Meta(max_length=4096)] | None
    cwd: Annotated[str, Meta(max_length=4096)]
    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None
    stdio: Stdio
    stdin: Stdin
    created_at: Annotated[datetime, Meta(tz=True)]
    started_at: Annotated[datetime, Meta(tz=True)] | None
    detached: bool
    timeout: _Seconds | None
    grace: _Seconds
    tags: Tags
    needs: _SeenNeeds | None = None


class Adoption:
    """Follows processes that this server has not started. On the engine's loop only."""

    def __init__(
        self, settings: EngineSettings, routes: FleetRoutes, *, names: StartNames, queries: Queries
    ) -> None:
        self._settings = settings
        self._routes = routes
        self._names = names
        self._queries = queries

    async def adopt(self, node: str, *, ended: bool, by: Owner) -> list[str]:
        """Follow what runs on a node and is shown to this server there.

        Return the ids of what was not known here.

        They belong to the caller from then on. With `ended`, also what has run and is not forgotten there.
        What waits there for its turn is left to the server that let it wait.

        Raises:
            BackendUnavailable: The node does not answer.
            ProtocolViolation: Its answer makes no sense.
            LimitExceeded: `disk_full`.

        Cancellation: what was adopted stays so.
        """
        adopted: list[str] = []
        before: str | None = None
        while True:
            asked = {"limit": _PAGE, "before": before, **({} if ended else {"active": True})}
            page = _page(await self._routes.ask(node, "list", asked), node)
            # Newest first: a node that gives a page again would be asked for ever.
            if before is not None and page and page[0].process_id >= before:
                raise _senseless(node, "its list does not go on")
            for seen in page:
                if seen.pid is not None and await self._is_new(seen):
                    adopted += await self._take(node, seen, by)
            if len(page) < _PAGE:
                return adopted
            before = page[-1].process_id

    async def _is_new(self, seen: _Seen) -> bool:
        try:
            await self._queries.find(seen.process_id)
        except ProcessNotFound:
            return True
        return False

    async def _take(self, node: str, seen: _Seen, by: Owner) -> list[str]:
        numbers = await self._names.short_ids.of((by.principal, ""))
        created_s = int(seen.created_at.timestamp())
        record = _record(
            seen, by, node=node, number=numbers, command_id=self._names.command_ids.new(created_s)
        )
        spec = encode_spec(_spec(seen, record, output_limit=self._settings.options.output_limit_bytes))
        started_ns = to_ns(seen.started_at or seen.created_at)
        try:
            await self._routes.adopt(node, record.process_id, spec, pid=seen.pid or 0, started_ns=started_ns)
        except InvalidRequest:  # another caller has just adopted it
            return []
        return [record.process_id]


def _page(answer: object, node: str) -> list[_Seen]:
    try:
        page = msgspec.convert(answer, _Page).processes
    except msgspec.ValidationError as error:
        raise _senseless(node, str(error)) from error
    if not all(is_process_id(seen.process_id) for seen in page):
        raise _senseless(node, "an id is none")
    return page


def _senseless(node: str, why: str) -> ProtocolViolation:
    text = f"What the node {node!r} says of its processes makes no sense here: {why}."
    return ProtocolViolation("invalid_request", text)


class _Page(msgspec.Struct, kw_only=True, frozen=True):
    """The answer to `list`."""

    processes: list[_Seen]


def _record(seen: _Seen, by: Owner, *, node: str, number: ProjectNumbers, command_id: str) -> ProcessRecord:
    return ProcessRecord(
        process_id=ProcessId(seen.process_id),
        command=seen.command,
        shell=seen.shell,
        cwd=seen.cwd,
        state=State.RUNNING,
        owner=by,
        origin=StartOrigin.of(by),
        stdio=seen.stdio,
        stdin=seen.stdin,
        created_at=seen.created_at,
        is_detached=True,  # it lives without the caller's connection, and did before
        timeout_s=seen.timeout,
        grace_s=seen.grace,
        tags=seen.tags,
        command_id=command_id,
        number=number.new(),
        location=Location(kind="node", backend=node),
        needs=None if seen.needs is None else _needs(seen.needs),
    )


def _needs(seen: _SeenNeeds) -> Needs:
    return Needs(amounts=Amounts.of(cpu=seen.cpu, memory_bytes=seen.memory, gpu=seen.gpu))


def _spec(seen: _Seen, record: ProcessRecord, *, output_limit: int | None) -> Spec:
    """Return what describes it here; its words are those that starting it again would take."""
    argv = (seen.shell, "-c", seen.command) if seen.shell is not None else _words(seen.command)
    return Spec(
        program=argv[0],
        argv=argv,
        env={},
        cwd=seen.cwd,
        stdio=seen.stdio,
        stdin=seen.stdin,
        timeout_s=seen.timeout,
        grace_s=seen.grace,
        output_limit=output_limit,
        meta=encode_meta(record),
    )


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command)) or (command,)
    except ValueError:
        return (command,)
