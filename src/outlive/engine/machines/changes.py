"""`NodeChanges`: changes of nodes, each carried out to its end, whatever becomes of its caller.

A change is several steps: on disk, in memory, a connection. A caller that hangs up in between, by Ctrl-C of `outlive node add`, would
leave a node that is declared and not reached, or one that is reached and not declared, until the server is started again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from outlive.core.errors import BackendUnavailable, OutliveError

_logger = logging.getLogger(__name__)

_Outcome = TypeVar("_Outcome")


class NodeChanges:
    """Carries changes out in tasks of the engine. On the engine's loop only."""

    def __init__(self) -> None:
        """Nothing is carried out before `begin`."""
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """From now on changes are carried out, in tasks of the engine's group."""
        self._group = tasks

    def close(self) -> None:
        """Cancel what is being done, and do nothing any more: the next server finds what is on disk."""
        self._group = None
        for task in self._tasks:
            task.cancel()

    async def carry_out(self, change: Callable[[], Awaitable[_Outcome]]) -> _Outcome:
        """Return or raise what comes of a change; it goes on when the caller is cancelled.

        Raises:
            BackendUnavailable: The engine is being closed.
            OutliveError: What the change raises.
        """
        if self._group is None:
            raise BackendUnavailable("keeper_unavailable", "The server is being stopped.")
        task = self._group.create_task(_outcome_of(change))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        outcome, error = await asyncio.shield(task)
        if error is not None:
            raise error
        if outcome is None:
            raise AssertionError("a change has an outcome or an error")
        return outcome


async def _outcome_of(change: Callable[[], Awaitable[_Outcome]]) -> tuple[_Outcome | None, Exception | None]:
    """Return what comes of a change: an error is its caller's, and must not end the engine's other tasks. Outermost of its task."""
    try:
        return await change(), None
    except OutliveError as error:
        return None, error
    except Exception as error:  # the caller may have gone
        _logger.exception("a change of nodes has failed")
        return None, error
