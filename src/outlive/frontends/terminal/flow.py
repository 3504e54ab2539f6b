"""How fast a viewer is sent output: `Flow`, by what it says that it has drawn and how far it may lag. Pure.

Without it everything that a socket takes is sent: megabytes lie in the buffers of two kernels and of a
browser, and what is typed into a flood has an effect that is seen only behind all of them. A viewer that says
nothing of it gets that.
"""

from outlive.core.cursor import Cursor

# of the lag that is allowed, this part is drawn after a skip: a skip gives room for three times as much
_KEPT_SHARE = 4


class Flow:
    """The bounds of one viewer, which may change, and how much of what it was sent it has not
    acknowledged.
    """

    __slots__ = ("_ahead_bytes", "_lag_bytes", "_unacknowledged")

    def __init__(self, *, ahead_bytes: int | None = None, lag_bytes: int | None = None) -> None:
        """Begin with nothing sent.

        Args:
            ahead_bytes: At most so much is sent before it is acknowledged; None: as much as the socket takes.
            lag_bytes: A viewer that is further behind the output's end skips; None: it never does.
        """
        self._ahead_bytes = ahead_bytes
        self._lag_bytes = lag_bytes
        self._unacknowledged = 0

    def room(self, most: int) -> int:
        """Return how many bytes may be sent now, at most `most`."""
        if self._ahead_bytes is None:
            return most
        return min(most, max(0, self._ahead_bytes - self._unacknowledged))

    def sent(self, count: int) -> None:
        """Count bytes of output that were sent."""
        self._unacknowledged += count

    def acknowledged(self, count: int) -> None:
        """Count bytes that the viewer has drawn; more than were sent give no credit."""
        self._unacknowledged = max(0, self._unacknowledged - count)

    def allow_lag(self, lag_bytes: int | None) -> None:
        """Change how far the viewer may be behind from now on."""
        self._lag_bytes = lag_bytes

    def kept_after_skip(self, cursor: Cursor, end: Cursor) -> int | None:
        """Return how many of the newest bytes a viewer at `cursor` should go on with; None if it need not
        skip.
        """
        behind = max(0, end.stdout - cursor.stdout) + max(0, end.stderr - cursor.stderr)
        if self._lag_bytes is None or behind <= self._lag_bytes:
            return None
        return self._lag_bytes // _KEPT_SHARE
