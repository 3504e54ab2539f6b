"""`ProcessRegistry`: processes by the name of the request that started them, and by pid (promise S4.8).

A view of the engine's processes for programs that think in request ids and pids. It keeps nothing in memory:
names are on disk with the processes, so that they survive restarts.
"""

from datetime import datetime
from typing import Literal, TypedDict

from outlive.core.errors import InvalidRequest, InvalidState, ProcessNotFound
from outlive.core.process import Owner, ProcessRecord, Status, status_of, termination_signal
from outlive.core.values import dataclass
from outlive.engine.engine import Engine
from outlive.engine.processes.process import Process
from outlive.store.rows import ProcessFilter

# The tag that a name given by `register` is kept in; an empty one says that the process was unregistered.
_NAME_TAG = "registry.request_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """What the registry knows of a process; times are aware UTC.

    `request_id` is the name it was registered under, else the id of the request that started it, else its
    process id. `exit_code` is minus the signal's number after a signal. `terminated_at` and
    `termination_signal` are set when it was ended by us. `output_lost`: some of what it wrote is not in the
    log. `left`: how many processes it has left running after its own end. `is_reachable`: false while its
    node is away, and the rest is what was known last. `redacted`: how many secrets are stars in `command`.
    """

    pid: int | None
    request_id: str
    process_id: str
    command: str
    status: Status
    started_at: datetime
    exit_code: int | None
    terminated_at: datetime | None
    termination_signal: str | None
    output_lost: bool = False
    left: int = 0
    redacted: int = 0
    is_reachable: bool = True


class Termination(TypedDict):
    """How a process was ended: by which signal in the end, and a sentence that says so."""

    success: bool
    pid: int
    request_id: str
    signal: Literal["SIGTERM", "SIGKILL"]
    message: str


class ProcessRegistry:
    """Finds and ends the processes of one principal, private ones of connections excepted.

    Every process of the principal is registered from its start; `register` gives it another name. Use it from
    the event loop of the engine, inside `async with engine`.
    """

    def __init__(
        self, engine: Engine, *, principal: str, termination_timeout_s: float = 30.0, by: Owner | None = None
    ) -> None:
        """Look at `engine`; `termination_timeout_s` lies between TERM and KILL (promise S4.9).

        `by`: the owner that asks, for the audit log; the principal unless given.
        """
        self._engine = engine
        self._principal = principal
        self._by = by or Owner(principal=principal)
        self._termination_timeout_s = termination_timeout_s

    async def register(self, request_id: str, pid: int, command: str | None = None) -> ProcessInfo:
        """Name a process; the name is kept on disk. A name that is used again belongs to the newer process.

        Args:
            request_id: The name, not empty.
            pid: Of a process that the engine started and that has not ended: no other pid can be trusted.
            command: What the caller thinks that it runs; checked, never kept.

        Raises:
            ProcessNotFound: The engine does not know this pid.
            InvalidRequest: The name is empty, or the process runs another command.
        """
        if not request_id:
            raise InvalidRequest("invalid_params", "request_id: a name has at least one character.")
        process = await self._by_pid(pid)
        if process is None:
            raise _unknown_pid(pid)
        if command is not None and command != process.record.command:
            raise InvalidRequest("invalid_params", f"command: process {pid} runs another one.")
        return await self._name(process, request_id)

    async def unregister(self, *, request_id: str | None = None, pid: int | None = None) -> ProcessInfo:
        """Take a process out of the registry and return what was known; it runs on and its output is kept.

        Raises:
            ProcessNotFound: It is not registered.
            InvalidRequest: Pass exactly one of the two.
        """
        process = await self._find(request_id, pid)
        info = _info(process.record)
        await self._name(process, "")
        return info

    async def get_by_request_id(self, request_id: str) -> ProcessInfo | None:
        """Return the newest process of that name, running or ended; a process id is a name, too."""
        process = await self._by_request_id(request_id)
        return None if process is None else _info(process.record)

    async def get_by_pid(self, pid: int) -> ProcessInfo | None:
        """Return the process that has this pid, else the newest one that had it (pids are used again)."""
        process = await self._by_pid(pid) or await self._ended_by_pid(pid)
        return None if process is None else _info(process.record)

    async def list_all(self, *, limit: int = 1000, running: bool | None = None) -> list[ProcessInfo]:
        """Return the newest registered processes, newest first: running (True), ended (False), or both
        (None).
        """
        wanted = ProcessFilter(principal=self._principal, active=running)
        records = await self._engine.queries.list(wanted, limit=limit, may_lack=True)
        return [_info(record) for record in records if self._is_registered(record)]

    def leftovers(self) -> list[ProcessInfo]:
        """Return the registered processes that have ended and left others running, newest first."""
        records = [process.record for process in self._engine.queries.live() if process.status.is_ended]
        mine = [one for one in records if one.descendants and one.owner.principal == self._principal]
        return [_info(one) for one in reversed(mine) if self._is_registered(one)]

    async def terminate_gracefully(
        self,
        *,
        request_id: str | None = None,
        pid: int | None = None,
        reason: str = "Terminated by request.",
    ) -> Termination:
        """End a process's whole tree: TERM, the termination timeout, KILL. Returns when the tree is gone.

        Args:
            request_id: Which one, by name;
            pid: or by pid.
            reason: One sentence about the caller; kept as the record's `error`.

        Raises:
            ProcessNotFound: It is not registered.
            InvalidState: `process_ended`: there is nothing left to end.
            InvalidRequest: Pass exactly one of the two.
            BackendUnavailable: The keeper does not answer, or the tree is not gone some seconds after the
            KILL.

        Cancellation: the end goes on.
        """
        process = await self._find(request_id, pid)
        if process.status.is_finished:
            raise InvalidState("process_ended", f"Process {process.record.pid} has ended already.")
        was_killed = await self._engine.as_(self._by).end(
            process, grace_s=self._termination_timeout_s, note=reason
        )
        signal: Literal["SIGTERM", "SIGKILL"] = "SIGKILL" if was_killed else "SIGTERM"
        return Termination(
            success=True,
            pid=process.record.pid or 0,
            request_id=_request_name(process.record),
            signal=signal,
            message=f"Process terminated with {signal}",
        )

    async def _name(self, process: Process, name: str) -> ProcessInfo:
        record = process.record
        await self._engine.as_(self._by).relabel(
            process, tags={**record.tags, _NAME_TAG: name}, group=record.group, name=record.name
        )
        return _info(process.record)

    async def _find(self, request_id: str | None, pid: int | None) -> Process:
        if (request_id is None) == (pid is None):
            raise InvalidRequest("invalid_params", "Pass either request_id or pid.")
        if request_id is not None:
            process = await self._by_request_id(request_id)
            if process is None:
                text = f"No process is registered as {request_id[:80]!r}."
                raise ProcessNotFound("process_not_found", text)
            return process
        assert pid is not None
        process = await self._by_pid(pid) or await self._ended_by_pid(pid)
        if process is None:
            raise _unknown_pid(pid)
        return process

    async def _by_pid(self, pid: int) -> Process | None:
        """Return the live process of that pid: the one that runs, else one whose descendants still do."""
        await self._engine.queries.known()
        found = [
            one for one in self._engine.queries.live() if one.record.pid == pid and not one.status.is_finished
        ]
        found = [one for one in found if self._is_registered(one.record)]
        return min(found, key=lambda one: one.status.is_ended, default=None)

    async def _ended_by_pid(self, pid: int) -> Process | None:
        return await self._newest(ProcessFilter(principal=self._principal, pid=pid))

    async def _by_request_id(self, request_id: str) -> Process | None:
        named = ProcessFilter(principal=self._principal, tags={_NAME_TAG: request_id})
        started = ProcessFilter(principal=self._principal, request_id=request_id)
        process = (request_id and await self._newest(named)) or await self._newest(started, request_id)
        if process:
            return process
        try:
            process = await self._engine.queries.find(request_id)
        except ProcessNotFound:
            return None
        return process if self._is_registered(process.record) else None

    async def _newest(self, wanted: ProcessFilter, name: str | None = None) -> Process | None:
        for record in await self._engine.queries.list(wanted, limit=10):
            if self._is_registered(record) and name in {None, _request_name(record)}:
                return await self._engine.queries.find(record.process_id)
        return None

    def _is_registered(self, record: ProcessRecord) -> bool:
        owner = record.owner
        is_visible = record.is_detached or owner.connection_id is None
        return owner.principal == self._principal and is_visible and record.tags.get(_NAME_TAG) != ""


def _request_name(record: ProcessRecord) -> str:
    return record.tags.get(_NAME_TAG) or record.owner.request_id or record.process_id


def _info(record: ProcessRecord) -> ProcessInfo:
    signal = termination_signal(record)
    return ProcessInfo(
        pid=record.pid,
        request_id=_request_name(record),
        process_id=record.process_id,
        command=record.command,
        status=status_of(record),
        started_at=record.started_at or record.created_at,
        exit_code=record.wire_exit_code,
        terminated_at=record.ended_at if signal is not None else None,
        termination_signal=signal,
        output_lost=record.output_lost,
        left=record.descendants if record.is_ended else 0,
        redacted=record.redacted,
        is_reachable=record.is_reachable,
    )


def _unknown_pid(pid: int) -> ProcessNotFound:
    hint = "Only processes that this server has started can be named by pid."
    return ProcessNotFound("process_not_found", f"No process with pid {pid} is known.", hint=hint)
