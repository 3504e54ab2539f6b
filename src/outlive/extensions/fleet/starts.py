"""What a node is asked: `NodeStarts` asks for each start until there is an answer, `NodeControls` passes on
what is done to a process, `NodeRequests` sends both.

A start is recorded here before the node is asked for it: whatever dies in between, it is asked for again
under the same name, and runs once. What the node reports by itself belongs to `follower`.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from outlive.backends.contract import StartOutcome
from outlive.core.controls import Operation, Pause, ReleaseOutput, ResizeWindow, Resume, SignalProcess, Stop
from outlive.core.cursor import Cursor
from outlive.core.errors import (
    AccessDenied,
    BackendUnavailable,
    InvalidState,
    LimitExceeded,
    OutliveError,
    ProcessNotFound,
    StartFailed,
)
from outlive.core.identity import ProcessId
from outlive.core.location import LOCAL
from outlive.core.needs import Needs
from outlive.engine.commands.elsewhere import execute_words
from outlive.extensions.fleet.link import NodeLink
from outlive.extensions.fleet.node_client import NodeClient
from outlive.extensions.fleet.process import RemoteProcess
from outlive.extensions.fleet.processes import NodeProcesses
from outlive.kernel.files import read_all
from outlive.protocols.keeper import CauseCode
from outlive.protocols.trace_context import span_of, valid_traceparent
from outlive.store.process_folder import write_stop

_T = TypeVar("_T")
_AWAY = frozenset({"server_unavailable", "connection_limit"})
_PIECE_BYTES = 256 * 1024  # of an input in one request: on a slow line another request waits for no more
_NEWS_S = 5.0  # how long the feed may take to report what was acknowledged


class NodeRequests:
    """Asks one node; everything raises BackendUnavailable where it does not answer.

    `node_unavailable`: it is away, and nothing was asked; `server_lost`: it went away before it answered.
    """

    def __init__(self, link: NodeLink) -> None:
        self.link = link

    @property
    def node(self) -> NodeClient:
        """The node, while it is there.

        Raises:
            BackendUnavailable: `node_unavailable`.
        """
        node = self.link.connection
        if node is None or self.link.is_away:
            raise self.link.unavailable()
        return node

    async def over(self, ask: Callable[[NodeClient], Awaitable[_T]]) -> _T:
        """Return what the node answers; its refusals in the words of this server."""
        try:
            return await self.plainly(ask)
        except ProcessNotFound as error:
            text = "The node does not know this process (yet, or any more)."
            raise InvalidState("process_ended", text) from error
        except AccessDenied as error:
            raise BackendUnavailable(
                "node_unavailable",
                f"The node {self.link.name!r} does not allow this: {error.message}",
                hint=error.hint,
            ) from error

    async def plainly(self, ask: Callable[[NodeClient], Awaitable[_T]]) -> _T:
        """Return what the node answers; its refusals in its own words, where they are about something that
        the caller has named.
        """
        node = self.node
        try:
            async with self.link.asking():
                return await ask(node)
        except BackendUnavailable as error:
            if error.code not in _AWAY:
                raise
            raise self.link.unavailable() from error

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> None:
        """Write to an input; never repeated.

        As many bytes at once as the node takes, as they are where it takes that.
        """
        view = memoryview(data)
        while view:
            try:
                view = view[await self.over(functools.partial(_write, process_id, view[:_PIECE_BYTES])) :]
            except LimitExceeded as error:
                before, written = len(data) - len(view), error.details.get("written_bytes", 0)
                details = {
                    **error.details,
                    "written_bytes": before + (written if isinstance(written, int) else 0),
                }
                raise LimitExceeded(error.code, error.message, hint=error.hint, details=details) from error


async def _write(process_id: ProcessId, data: memoryview, node: NodeClient) -> int:
    return await node.write(process_id, data)


class NodeControls:
    """Passes each operation on as one request, and takes over here what the node does not report."""

    def __init__(self, requests: NodeRequests, processes: NodeProcesses) -> None:
        """Ask through `requests` about `processes`."""
        self._requests = requests
        self._processes = processes

    async def control(
        self, process_id: ProcessId, operation: Operation, *, acknowledged: Callable[[], None] | None
    ) -> None:
        """Have the node carry out an operation (see `Backend.control`)."""
        process = self._processes.by_id.get(process_id)
        if isinstance(operation, ReleaseOutput) and (process is None or process.spec.on_limit != "block"):
            return  # nothing waits for it
        if isinstance(operation, Stop) and process is not None and not self._requests.link.is_away:
            # Before the request: the end may be reported before the answer, and says why it came.
            await _record_stop(process, operation)
        heard = process.times_heard() if process is not None else (0, 0)
        params = {"process_id": process_id, **operation.params()}
        is_repeatable = not isinstance(operation, SignalProcess)
        await self._requests.over(
            lambda node: node.request(operation.method, params, is_repeatable=is_repeatable)
        )
        match operation:
            case Pause() | Resume():
                is_paused = isinstance(operation, Pause)
                if process is not None and not await _hear_of(process, is_paused=is_paused, heard=heard):
                    return
                if acknowledged is not None:
                    acknowledged()
            case ResizeWindow(rows=rows, cols=cols) if process is not None:
                process.size = (rows, cols)
            case ReleaseOutput(stdout_bytes=stdout_bytes, stderr_bytes=stderr_bytes) if process is not None:
                await asyncio.to_thread(process.files.release, Cursor(stdout_bytes, stderr_bytes))
                self._processes.publish(process)


async def _record_stop(process: RemoteProcess, stop: Stop) -> None:
    code = int(CauseCode[stop.cause.name])
    process.ask_end(code, stop.note)
    with contextlib.suppress(OSError):
        await asyncio.to_thread(write_stop, process.folder, code, stop.note)


async def _hear_of(process: RemoteProcess, *, is_paused: bool, heard: tuple[int, int]) -> bool:
    """Wait until the feed has reported a pause or resume, which was acknowledged; False: another state has
    followed.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_NEWS_S):
            await process.hear_of(is_paused=is_paused, since=heard[is_paused])
    if process.is_paused != is_paused:
        return False  # it has changed again since, or its feed is late: what that reports then counts
    await process.record_state()
    return True


_logger = logging.getLogger(__name__)
_START_S = 25.0  # as long as the keeper of this machine has
_AGAIN_S = 0.1  # between two attempts while the node is there, and its connection for requests is not
_SECRETS_LOST = (
    "Its secrets were in the server's memory only, and the server ended before the node had it: it never ran."
)
_WAS_REMOVED = "process_ended"  # what a node says to a start under the id of what it has removed
_FORGOTTEN = (
    "The node has had it and does not know it any more: it was removed there before the answer to its "
    "start came. Whether it ran is not known."
)
# Refusals that are about the node, whatever the command is; as is that its token may start nothing.
_OF_THE_NODE = frozenset({"disk_full", "read_only", "process_limit"})
_Outcome = StartOutcome | OutliveError
# Called once with what came of a start (see `Backend.start`).
_Settle = Callable[[_Outcome], None]


class NodeStarts:
    """Starts commands on a node; a start goes on in a task of its own, however long the node is silent.

    Callers wait for a start while the node is there; its task asks for it until there is an answer.
    """

    def __init__(self, requests: NodeRequests, processes: NodeProcesses) -> None:
        self._requests = requests
        self._link = requests.link
        self._processes = processes
        self._tasks: dict[ProcessId, asyncio.Task[_Outcome]] = {}
        self._refusal = ""  # why the node takes nothing, as it was logged last

    def cancel(self) -> None:
        """Ask for none of them any more."""
        for task in self._tasks.values():
            task.cancel()

    async def wait(
        self,
        process_id: ProcessId,
        begin: Callable[[], asyncio.Task[_Outcome]],
    ) -> StartOutcome:
        """Return the answer to a start, for which `begin` makes the task unless there is one already.

        Raises:
            BackendUnavailable: `start_unanswered`: the node went away, or is slow; the start goes on.
            OutliveError: What came of it.

        Cancellation: safe; the start goes on.
        """
        task = self._tasks.get(process_id)
        if task is None:
            task = self._tasks[process_id] = begin()
            task.add_done_callback(lambda _: self._tasks.pop(process_id, None))
        scope = asyncio.timeout(_START_S)
        try:
            async with scope:
                outcome = await self._outcome(task)
        except TimeoutError:
            if not scope.expired():
                raise
            raise self._unanswered(process_id) from None
        except BackendUnavailable as error:
            raise self._unanswered(process_id) from error
        if isinstance(outcome, OutliveError):
            raise outcome
        return outcome

    async def _outcome(self, task: asyncio.Task[_Outcome]) -> _Outcome:
        if self._link.is_away and not task.done():
            await asyncio.sleep(0)  # a start of which nothing was recorded is refused in its first step
        if task.done():
            return task.result()
        async with self._link.asking():
            return await asyncio.shield(task)

    def _unanswered(self, process_id: ProcessId) -> BackendUnavailable:
        text = (
            f"The node {self._link.name!r} was asked to start {process_id} and has not answered: it may run. "
            "It is asked again under this name until it answers, and starts it once."
        )
        details = {"node": self._link.name, "process_id": process_id}
        return BackendUnavailable("start_unanswered", text, details=details)

    async def run(
        self,
        process_id: ProcessId,
        spec: bytes,
        script: bytes,
        secrets: Mapping[str, str],
        *,
        settle: _Settle,
    ) -> _Outcome:
        """Start a command and return what came of it, after `settle` was called with that.

        An error here would end everything.
        """
        outcome: _Outcome
        try:
            outcome = await self._start(process_id, spec, script, secrets)
        except OutliveError as error:
            outcome = error
        except OSError as error:
            outcome = LimitExceeded("disk_full", f"The start cannot be put down: {error.strerror}.")
        except Exception:  # whatever a node answers, it must not end the server
            _logger.exception("what a node answered to a start makes no sense: %s", self._link.name)
            text = f"The answer of the node {self._link.name!r} makes no sense."
            outcome = OutliveError("internal_error", text)
        except asyncio.CancelledError:
            settle(BackendUnavailable("timeout", "The server is being stopped: the node may start it yet."))
            raise
        settle(outcome)
        self._processes.answered(process_id, is_started=isinstance(outcome, StartOutcome))
        return outcome

    async def _start(
        self, process_id: ProcessId, spec: bytes, script: bytes, secrets: Mapping[str, str]
    ) -> StartOutcome:
        process = self._processes.by_id.get(process_id)
        if process is None:
            if self._link.is_away:
                raise self._link.unavailable()
            process = await self._processes.add(process_id, spec, script)
            process.is_unknown = False
            process.secrets, process.script = secrets, script
        is_asked = False
        try:
            while not process.is_acknowledged:
                await self._link.is_there.wait()
                try:
                    is_asked = await self._ask(process)
                except BackendUnavailable:
                    await asyncio.sleep(_AGAIN_S)
        except OutliveError as error:
            # Of a start that failed the folder is kept, as the keeper does; a refused one leaves nothing.
            if isinstance(error, StartFailed):
                with contextlib.suppress(OSError):
                    await process.end_here("failed", error.message)
                self._processes.drop(process)
            elif error.code == _WAS_REMOVED:
                with contextlib.suppress(OSError):
                    await process.end_here("lost", _FORGOTTEN)
                self._processes.drop(process)
                return StartOutcome(pid=0, started_ns=time.time_ns(), is_existing=True)
            else:
                await self._processes.discard(process)
            raise self._refused(process, error) from error
        return StartOutcome(pid=process.pid, started_ns=process.started_ns, is_existing=not is_asked)

    def _refused(self, process: RemoteProcess, error: OutliveError) -> OutliveError:
        """Return what a refusal of the node means here."""
        is_denied = isinstance(error, AccessDenied)
        if not is_denied and error.code not in _OF_THE_NODE:
            return error
        # Named: the caller would look at this server's disk, limits and tokens.
        text = f"The node {self._link.name!r} does not take it: {error.message}"
        needs = Needs.decode(process.spec.meta.get("needs"))
        if needs is None or (is_denied and needs.node):  # a token does not change while it is waited for
            return type(error)(error.code, text, hint=error.hint, details=error.details)
        if self._refusal != error.message:
            _logger.warning("a node takes nothing: %s: %s", self._link.name, error.message)
            self._refusal = error.message
        return LimitExceeded("no_room", text, hint=error.hint)

    async def begin_again(self, process: RemoteProcess) -> None:
        """Find out what became of a start that was never answered, and ask for it again.

        Raises:
            BackendUnavailable: The node is away again.
        """
        if process.process_id in self._tasks:
            return  # its task asks already
        try:
            if process.spec.secrets and not process.secrets:
                await self._find_started(process)
            else:
                # It has given up its turn here: where others have taken the room meanwhile, it waits on the
                # node.
                await self._ask(process, may_wait=True)
        except BackendUnavailable:
            raise
        except OutliveError as error:
            if error.code == _WAS_REMOVED:
                await process.end_here("lost", _FORGOTTEN)
            else:
                await process.end_here("failed", self._refused(process, error).message)
            self._processes.publish(process)
            self._processes.drop(process)

    async def _ask(self, process: RemoteProcess, *, may_wait: bool = False) -> bool:
        """Ask the node for a start, once at a time for each process; return whether it was asked here.

        Raises:
            OutliveError: What it says.
        """
        async with process.beginning:
            if process.is_acknowledged:
                return False
            node, feed = self._requests.node, self._link.feed
            if feed is None:
                raise self._link.unavailable()
            if process.script is None:
                process.script = await asyncio.to_thread(read_all, f"{process.folder}/script")
            words = execute_words(process.spec, process.script, process.secrets)
            callers = valid_traceparent(process.spec.meta.get("traceparent"))
            words["traceparent"] = span_of(process.process_id, callers).traceparent
            if needs := Needs.decode(process.spec.meta.get("needs")):
                # It counts what it runs, too, whichever server asks: it refuses what it has no room for.
                words["needs"] = {"cpu": 0, **needs.amounts.view(), "wait": may_wait and needs.is_patient}
                words["backend"] = LOCAL  # it is to run there, and not on a node of that node
            asked_ns = time.time_ns()  # by our clock: the node's may be another
            try:
                async with self._link.asking():
                    subscription = feed.expect(process.process_id)
                    answer = await node.execute(
                        words, process_id=process.process_id, subscription=subscription
                    )
            except BaseException:
                feed.leave(process.process_id)
                raise
            process.acknowledge(answer["pid"] or 0, asked_ns)
        if process.is_unknown and feed.follows(process.process_id):
            process.is_unknown = False
            self._processes.publish(process)
        await process.record_state()
        return True

    async def _find_started(self, process: RemoteProcess) -> None:
        """See whether a start whose secrets are gone had arrived.

        Raises:
            StartFailed: `secrets_lost`: it had not.
        """
        try:
            view = await self._requests.node.get(process.process_id)
        except ProcessNotFound as error:
            raise StartFailed("secrets_lost", _SECRETS_LOST) from error
        process.acknowledge(view.pid or 0, time.time_ns())
        await process.record_state()
