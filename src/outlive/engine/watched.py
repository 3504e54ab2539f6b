"""Who is woken when a process changes: `Watched`."""

import logging
from collections.abc import Callable

from outlive.core.process import ProcessRecord
from outlive.engine.told import Told

_logger = logging.getLogger(__name__)


class Watched(Told):
    """What was told of a process, and its subscribers: they are called, and nothing is queued for them."""

    __slots__ = ("_kicks",)

    def __init__(self, record: ProcessRecord) -> None:
        """Nobody listens yet."""
        super().__init__(record)
        self._kicks: tuple[tuple[Callable[[], None], bool], ...] = ()

    @property
    def subscriber_count(self) -> int:
        """How many are woken by its changes."""
        return len(self._kicks)

    @property
    def is_read(self) -> bool:
        """Whether somebody takes its output."""
        return any(reads for _, reads in self._kicks)

    def subscribe(self, kick: Callable[[], None], *, reads: bool = False) -> Callable[[], None]:
        """Call `kick` on the loop whenever anything changed; return what ends that.

        `reads`: on behalf of somebody who takes its output; with `on_limit` "block" it waits for them.

        A kick must be quick and must not raise (it is logged if it does); several changes may come as one.
        The returned function may be called more than once.
        """
        entry = (kick, reads)  # an identity of its own: the same callable may subscribe twice
        self._kicks = (*self._kicks, entry)

        def unsubscribe() -> None:
            self._kicks = tuple(other for other in self._kicks if other is not entry)

        return unsubscribe

    def kick(self) -> None:
        """Wake every subscriber. Engine only."""
        for kick, _ in self._kicks:
            try:
                kick()
            except Exception:
                # One subscriber's fault must not stop the stream of the others (findings: silent stops).
                _logger.exception("a subscriber of a process failed")
