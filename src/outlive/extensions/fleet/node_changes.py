"""`NodeChanges`: changes of nodes, each carried out to its end, whatever becomes of its caller.

A change is several steps: on disk, in memory, a connection. A caller that hangs up in between, by Ctrl-C of
`outlive node add`, would leave a node that is declared and not reached, or one that is reached and not
declared, until the server is started again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from outlive.core.errors import BackendUnavailable, OutliveError

_logger = logging.getLogger(__name__)

_Outcome = TypeVar("_Outcome")


class NodeChanges:
    """Carries changes out in tasks of its own while it is open (`async with`). On the engine's loop only."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        """Carry changes out from now on."""
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what is being done, and do nothing any more: the next server finds what is on disk."""
        group, self._group = self._group, None
        for task in self._tasks:
            task.cancel()
        if group is not None:
            await group.__aexit__(kind, error, trace)

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
    """Return what comes of a change: an error is its caller's, and must not end other changes.

    Outermost of its task.
    """
    try:
        return await change(), None
    except OutliveError as error:
        return None, error
    except Exception as error:  # the caller may have gone
        _logger.exception("a change of nodes has failed")
        return None, error
