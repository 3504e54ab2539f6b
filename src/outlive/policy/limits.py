"""How often a principal may ask: `Rates`, a token bucket for each principal. Pure: the time is an argument.

These thirty lines are our own, because the packages for this cost half a second at start-up and twenty microseconds a request
(decision 90).
"""

from collections import OrderedDict

_BURST_S = 4.0  # a caller that was quiet for so long may ask for all of that time at once
# Beyond so many names the one that was silent longest is forgotten: at worst its bucket is full again.
_MOST_NAMES = 4096


class TokenBucket:
    """`rate` tokens a second flow in, and at most `burst` are kept; each request takes one."""

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        """Begin full. `now` is monotonic seconds, here and later."""
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = now

    def take(self, now: float, *, count: int = 1) -> float:
        """Take tokens and return 0.0; if none is left, take nothing and return after how many seconds there is one.

        Requests that come together all pass if there is one token; requests after them wait for all of these tokens.
        """
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now
        if self._level >= 1.0:
            self._level -= count
            return 0.0
        return (1.0 - self._level) / self._rate


class Rates:
    """A bucket for each name; with a rate of None there is no limit."""

    def __init__(self, rate: float | None) -> None:
        """Allow each name `rate` requests a second, and what it has saved up in four quiet seconds."""
        self._rate = rate
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, name: str, now: float, *, count: int = 1) -> float:
        """Count requests of `name` that come together: 0.0 if they may pass, else the seconds until one may."""
        if self._rate is None:
            return 0.0
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = TokenBucket(self._rate, max(1.0, self._rate * _BURST_S), now)
            if len(self._buckets) > _MOST_NAMES:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(name)
        return bucket.take(now, count=count)
