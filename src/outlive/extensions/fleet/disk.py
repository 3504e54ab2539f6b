"""`DiskWorker`: work on files, done in a thread; what is asked for while it works is done together.

Waking a thread and being woken by it costs more processor time than the few small files of a start or of an
end. Among many starts at once, one thread that does all of it costs a fraction of several that take the
interpreter's lock from each other.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")
_NOTE_S = 0.05  # what need not be done at once goes along with what has to be, and waits no longer than this
_Asked = tuple[Callable[[], Any], asyncio.Future[Any] | None]


class DiskWorker:
    """Runs blocking work, one piece after the other in the order of the calls. Used from one event loop."""

    def __init__(self) -> None:
        self._asked: list[_Asked] = []
        self._is_busy = False
        self._timer: asyncio.Handle | None = None

    async def run(self, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, or raise what it raises.

        Cancellation: the work is done all the same.
        """
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._asked.append((work, answer))
        self._begin_soon(0)
        return await answer

    def note(self, work: Callable[[], object]) -> None:
        """Have `work` done soon without waiting for it; that it fails has no consequence."""
        self._asked.append((work, None))
        if self._timer is None:
            self._begin_soon(_NOTE_S)

    def _begin_soon(self, pause_s: float) -> None:
        if self._is_busy:
            return
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        # At once is in the next turn: what else this turn asks for goes along.
        self._timer = loop.call_later(pause_s, self._begin, loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_busy, self._timer = True, None
        asked, self._asked = self._asked, []
        try:
            done = loop.run_in_executor(None, _carry_out, [work for work, _ in asked])
        except (
            RuntimeError
        ):  # the server ends and has no threads any more: only notes are left, which the next one does again
            return

        def settle(future: asyncio.Future[list[tuple[Any, Exception | None]]]) -> None:
            if future.cancelled() or future.exception() is not None:  # the loop is being closed
                return
            for (_, answer), (result, error) in zip(asked, future.result(), strict=True):
                if answer is None or answer.done():  # its caller does not wait, or not any more
                    continue
                if error is None:
                    answer.set_result(result)
                else:
                    answer.set_exception(error)
            self._is_busy = False
            if self._asked:
                self._begin_soon(0)

        done.add_done_callback(settle)


def _carry_out(works: list[Callable[[], Any]]) -> list[tuple[Any, Exception | None]]:
    """Do everything; return the result or the error of each."""
    outcomes: list[tuple[Any, Exception | None]] = []
    for work in works:
        try:
            outcomes.append((work(), None))
        except Exception as error:  # noqa: BLE001 - raised to the one that has asked
            outcomes.append((None, error))
    return outcomes
