"""What a command draws on our terminal: `Screen`, which can hold it back while a Ctrl-Z is looked after."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from outlive.cli.foreground.leave_watch import LeaveWatch


class Screen:
    """Passes output on to `show`, through a `LeaveWatch` while there is one. Used by two threads."""

    def __init__(self, show: Callable[[bytes], bool]) -> None:
        """Show by `show`, which says whether anybody can see it."""
        self._show = show
        self._lock = threading.Lock()
        self._watch: LeaveWatch | None = None

    def take(self, data: bytes) -> bool:
        """Show what may be shown."""
        with self._lock:
            return self._show(data if self._watch is None else self._watch.take(data))

    @contextlib.contextmanager
    def watched(self, watch: LeaveWatch) -> Iterator[None]:
        """Show through `watch` while the block runs, and what it has held back behind it."""
        with self._lock:
            self._watch = watch
        try:
            yield
        finally:
            with self._lock:
                self._watch = None
                self._show(watch.rest())
