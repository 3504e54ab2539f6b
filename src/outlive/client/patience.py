"""Whether and when to try again: `Patience`. Pure; the time comes as an argument."""

from outlive.core.errors import BackendUnavailable, LimitExceeded, OutliveError

_FIRST_S = 0.02  # a server that was started again may listen already
_LONGEST_S = 0.5
_FACTOR = 1.6
# Errors that another moment may bring to nothing; every other one is an answer.
_PASSING = frozenset({"caller_undetermined", "connection_limit", "keeper_unavailable", "timeout"})


class Patience:
    """Bounds one streak of failures, however many attempts it has."""

    __slots__ = ("_begun", "_limit_s", "_next_s")

    def __init__(self, limit_s: float) -> None:
        """Give up `limit_s` seconds after the first failure of a streak."""
        self._limit_s = limit_s
        self._begun: float | None = None
        self._next_s = _FIRST_S

    def failed(self, now: float) -> float | None:
        """Return how many seconds to wait before the next attempt; None: there should be none."""
        if self._begun is None:
            self._begun = now
        left = self._begun + self._limit_s - now
        if left <= 0:
            return None
        pause = self._next_s
        self._next_s = min(pause * _FACTOR, _LONGEST_S)
        return min(pause, left)

    def succeeded(self) -> None:
        """End the streak."""
        self._begun = None
        self._next_s = _FIRST_S


def is_passing(error: OutliveError) -> bool:
    """Tell whether trying again can help."""
    return isinstance(error, BackendUnavailable | LimitExceeded) and error.code in _PASSING
