"""Starts on a node: `NodeStarts` asks for each until there is an answer.

A start is recorded here before the node is asked for it: whatever dies in between, it is asked for again
under the same name, and runs once.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping

from outlive.backends.contract import StartOutcome
from outlive.core.errors import (
    AccessDenied,
    BackendUnavailable,
    LimitExceeded,
    OutliveError,
    ProcessNotFound,
    StartFailed,
)
from outlive.core.identity import ProcessId
from outlive.core.location import LOCAL
from outlive.core.needs import Needs
from outlive.engine.commands.elsewhere import execute_words
from outlive.extensions.fleet.process import RemoteProcess
from outlive.extensions.fleet.processes import NodeProcesses
from outlive.extensions.fleet.requests import NodeRequests
from outlive.kernel.files import read_all
from outlive.protocols.trace_context import span_of, valid_traceparent

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
