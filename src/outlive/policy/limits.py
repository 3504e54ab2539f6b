"""How often somebody may ask: `Rates`, a token bucket for each principal. Pure: the time is an argument.

Our own thirty lines, because the packages for this cost half a second of start-up and twenty microseconds a request
(decision 90).
"""

from collections import OrderedDict

_BURST_S = 4.0  # who was quiet for so long may ask for all of that time at once
_MOST_NAMES = (
    4096  # beyond, whoever was not heard of for the longest time is forgotten: a full bucket, at worst
)


class TokenBucket:
    """`rate` tokens a second flow in, at most `burst` are kept; each request takes one."""

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        """Begin full. `now` is monotonic seconds, here and later."""
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = now

    def take(self, now: float, *, count: int = 1) -> float:
        """Take tokens and return 0.0; with none left take nothing and return after how many seconds one is there.

        Several that come together pass when there is one token, and those who come next wait for all of them.
        """
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now
        if self._level >= 1.0:
            self._level -= count
            return 0.0
        return (1.0 - self._level) / self._rate


class Rates:
    """A bucket for each name; a rate of None limits nobody."""

    def __init__(self, rate: float | None) -> None:
        """Allow each name `rate` requests a second, and what four quiet seconds have saved up."""
        self._rate = rate
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, name: str, now: float, *, count: int = 1) -> float:
        """Count requests of `name` that come together: 0.0 when they may pass, else the seconds until one may."""
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
