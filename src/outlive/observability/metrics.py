"""What an operator's monitoring is given: `Metrics` counts while the server works, `families` makes metrics
of the counts.

Counting is plain integers, some hundred nanoseconds an event. No command, output or name of a caller ever
becomes a metric or a label.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable

from outlive.core.events import (
    Event,
    KeeperConnected,
    KeeperDisconnected,
    ProcessCompleted,
    ProcessRecovered,
    StartRejected,
)
from outlive.core.process import status_of
from outlive.core.values import dataclass

# The first bounds fit an answer from memory, the last ones a call that waits for a command's end.
LATENCY_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
# Bounds of a command's duration: from one that prints a line to one that runs for a day.
_DURATION_BOUNDS_S = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
# From a keeper that is started again at once to one on a machine that hardly responds.
_RECOVERY_BOUNDS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveView:
    """The state at the moment of a scrape.

    `starts`: commands that this server has started. `states`: living processes by state. The bytes are those
    of living processes so far. `lag_bytes` is the output that was not yet sent to the slowest subscriber.
    `approvals` and `questions`: how many wait for a person. `free_bytes`: of the state folder's disk.
    """

    starts: int
    states: Counter[str]
    stdout_bytes: int
    stderr_bytes: int
    subscribers: int
    lag_bytes: int
    connections: int
    approvals: int = 0
    questions: int = 0
    free_bytes: int = 0


class Histogram:
    """Counts of durations by upper bound, and their sum."""

    __slots__ = ("bounds_s", "counts", "sum_s")

    def __init__(self, bounds_s: tuple[float, ...]) -> None:
        self.bounds_s = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.sum_s = 0.0

    def observe(self, duration_s: float) -> None:
        """Count one duration; a bound is part of its bucket."""
        self.counts[bisect_left(self.bounds_s, duration_s)] += 1
        self.sum_s += duration_s


class Metrics:
    """Counts since this server began. On one event loop.

    Attributes:
        rejected: Commands that were not started, by the error's slug.
        recovered: Processes of an earlier server that were found alive.
        exits: Completed processes by (state, cause, outcome).
        durations: From their start to their end, where both are known.
        stdout_bytes, stderr_bytes: Output of completed processes.
        recovery: From the keeper's disappearance to its answer.
        requests: Latencies by (frontend, what).
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin at zero; `clock` counts seconds and never goes back."""
        self._clock = clock
        self._lost_at: float | None = None
        self.recovered = self.stdout_bytes = self.stderr_bytes = 0
        self.rejected: Counter[str] = Counter()
        self.exits: Counter[tuple[str, str, str]] = Counter()
        self.durations = Histogram(_DURATION_BOUNDS_S)
        self.recovery = Histogram(_RECOVERY_BOUNDS_S)
        self.requests: dict[tuple[str, str], Histogram] = {}

    def note(self, event: Event) -> None:
        """Count an event of the engine."""
        match event:
            case ProcessCompleted(record=record):
                self.exits[record.state, record.cause, status_of(record)] += 1
                self.stdout_bytes += record.stdout_bytes
                self.stderr_bytes += record.stderr_bytes
                if record.started_at is not None and record.ended_at is not None:
                    lasted_s = (record.ended_at - record.started_at).total_seconds()
                    self.durations.observe(max(0.0, lasted_s))  # the clock may have been set back
            case StartRejected(code=code):
                self.rejected[code] += 1
            case ProcessRecovered():
                self.recovered += 1
            case KeeperDisconnected():
                self._lost_at = self._clock()
            case KeeperConnected() if self._lost_at is not None:
                self.recovery.observe(self._clock() - self._lost_at)
                self._lost_at = None
            case _:
                pass

    def observe_request(self, door: str, what: str, duration_s: float) -> None:
        """Count a request of a frontend: `what` is a method, a kind of path or a tool, never a word that the
        caller chose.
        """
        histogram = self.requests.get((door, what))
        if histogram is None:
            histogram = self.requests[door, what] = Histogram(LATENCY_BOUNDS_S)
        histogram.observe(duration_s)


def counted_kinds() -> Iterable[type[Event]]:
    """Return the kinds of events that are counted; the engine need not create the others."""
    return (
        StartRejected,
        ProcessRecovered,
        ProcessCompleted,
        KeeperConnected,
        KeeperDisconnected,
    )
