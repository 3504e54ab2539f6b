"""The starts that a node has not answered yet: `UnansweredStarts`, one task each, which goes on however long the node is silent.

From a spec to what the node is asked to run: `execute_words`. Pure.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping

from outlive.backends.contract import StartOutcome
from outlive.backends.remote.link import NodeLink
from outlive.core.errors import BackendUnavailable, OutliveError
from outlive.core.identity import ProcessId
from outlive.core.spec import Spec

_START_S = 25.0  # as long as the keeper of this machine has
_Outcome = StartOutcome | OutliveError


class UnansweredStarts:
    """Callers wait for a start while the node is there; its task asks for it until there is an answer."""

    def __init__(self, link: NodeLink) -> None:
        """Begin with none."""
        self._link = link
        self._tasks: dict[ProcessId, asyncio.Task[_Outcome]] = {}

    def __contains__(self, process_id: ProcessId) -> bool:
        """Tell whether a start waits for its answer."""
        return process_id in self._tasks

    def cancel(self) -> None:
        """Ask for none of them any more."""
        for task in self._tasks.values():
            task.cancel()

    async def wait(
        self,
        process_id: ProcessId,
        begin: Callable[[], Coroutine[object, object, _Outcome]],
        *,
        tasks: asyncio.TaskGroup,
    ) -> StartOutcome:
        """Return the answer to a start, which `begin` asks for unless that is done already.

        Raises:
            BackendUnavailable: `start_unanswered`: the node went away, or is slow; the start goes on.
            OutliveError: What came of it.

        Cancellation: safe; the start goes on.
        """
        task = self._tasks.get(process_id)
        if task is None:
            task = self._tasks[process_id] = tasks.create_task(begin())
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
            await asyncio.sleep(0)  # a start of which nothing was put down is refused in its first step
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


def execute_words(spec: Spec, script: bytes, secrets: Mapping[str, str]) -> dict[str, object]:
    """Return the parameters of `execute`, by the names of the client's `StartOptions`.

    What only the caller knows stands in the spec's `meta` (`engine.commands.remote_commands`). The process is detached there: whose it is, and
    what becomes of it when that client goes, is decided here.
    """
    asked = spec.meta.get("asked")
    words: dict[str, object] = dict(asked) if isinstance(asked, dict) else {"argv": list(spec.argv)}
    words |= {
        "detach": True,
        "pty": spec.stdio == "pty",
        "merge": spec.stdio == "merge",
        "stdin": spec.stdin,
        "rows": spec.rows,
        "cols": spec.cols,
        "timeout_s": spec.timeout_s,
        "grace_s": spec.grace_s,
        "output_limit": spec.output_limit,
        "on_limit": spec.on_limit,
        "after_exit": spec.after_exit,
    }
    if spec.umask is not None:
        words["umask"] = spec.umask
    if spec.nice is not None:
        words["nice"] = spec.nice
    if script:
        words["script"] = script.decode("utf-8", "surrogateescape")
    if secrets:
        words["env_secrets"] = dict(secrets)
    return words
