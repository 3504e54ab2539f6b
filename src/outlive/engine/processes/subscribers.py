"""`Subscribers`: what is woken when a process changes. Subscribers are called, and nothing is queued for them."""

import logging
from collections.abc import Callable

_logger = logging.getLogger(__name__)


class Subscribers:
    """The callbacks of one process. On the event loop only."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        """Begin without any."""
        self._entries: tuple[tuple[Callable[[], None], bool], ...] = ()

    def __len__(self) -> int:
        """Return how many are woken."""
        return len(self._entries)

    @property
    def has_reader(self) -> bool:
        """Whether one of them takes the output."""
        return any(reads for _, reads in self._entries)

    def add(self, wake: Callable[[], None], *, reads: bool = False) -> Callable[[], None]:
        """Call `wake` on the loop whenever anything has changed; return what ends that.

        `reads`: on behalf of a reader of the output; with `on_limit` "block" the process waits for it.

        A callback must be quick and must not raise (it is logged if it does); several changes may come as one.
        The returned function may be called more than once.
        """
        entry = (wake, reads)  # an identity of its own: the same callable may subscribe twice
        self._entries = (*self._entries, entry)

        def remove() -> None:
            self._entries = tuple(other for other in self._entries if other is not entry)

        return remove

    def wake(self) -> None:
        """Call every one. Engine only."""
        for wake, _ in self._entries:
            try:
                wake()
            except Exception:
                # One subscriber's fault must not stop the stream of the others: it would stop silently.
                _logger.exception("a subscriber of a process failed")
