"""What an operator's monitoring is given: `Metrics` counts while the server works, `families` makes every
metric of the counts and the state at the moment, `render` writes them down for Prometheus, text format 0.0.4
(Prometheus, "Exposition formats"); `extensions.observe` does for OpenTelemetry.

Counting is plain integers, some hundred nanoseconds an event. No command, output or name of a caller ever
becomes a metric or a label. Names are OpenTelemetry's; Prometheus's follow from name, unit and kind
(OpenTelemetry, "Prometheus and OpenMetrics Compatibility"). Names, units and labels are an interface:
dashboards depend on them.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from outlive.core.events import (
    Event,
    KeeperConnected,
    KeeperDisconnected,
    ProcessCompleted,
    ProcessRecovered,
    StartRejected,
)
from outlive.core.lifecycle import State
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


Kind = Literal["gauge", "counter", "histogram"]
# What a unit of the UCUM is called at the end of a name; annotations ("{command}") are left out there.
_UNIT_WORDS: Mapping[str, str] = {"By": "bytes", "s": "seconds"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A histogram as it was at the moment: counts by upper bound, the last for everything above, and the
    durations' sum in seconds.
    """

    bounds_s: tuple[float, ...]
    counts: tuple[int, ...]
    sum_s: float


Labels = tuple[str, ...]
Sample = tuple[Labels, float | Distribution]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric: `samples` are values by the values of `labels`, in the order of these.

    Counters count since the server began.
    """

    name: str
    about: str
    kind: Kind
    unit: str = ""
    labels: Labels = ()
    samples: Sequence[Sample] = ()

    @property
    def prometheus_name(self) -> str:
        """Its name there, without the suffix that the kind adds."""
        word = _UNIT_WORDS.get(self.unit)
        return self.name.replace(".", "_") + (f"_{word}" if word else "")


def families(metrics: Metrics, view: LiveView, *, version: str) -> Iterator[Family]:
    """Yield every family, with its values at this moment; on the event loop, whose objects it reads."""
    yield from _processes(metrics, view)
    yield from _output(metrics, view)
    yield from _latencies(metrics)
    yield Family(
        name="outlive.build_info",
        about="The server's version.",
        kind="gauge",
        labels=("version",),
        samples=[((version,), 1)],
    )


def _processes(metrics: Metrics, view: LiveView) -> Iterator[Family]:
    """Yield how many processes live, were started, were refused, have ended, and were found again."""
    yield Family(
        name="outlive.processes",
        about="Processes that live, by state; those that are queued wait for their turn or an approval.",
        kind="gauge",
        unit="{process}",
        labels=("state",),
        # Every state, also with zero: a metric that comes and goes breaks alerts.
        samples=[((state,), view.states[state]) for state in State],
    )
    about = "Commands that wait for a person's approval."
    yield _level("outlive.approvals", about, view.approvals, unit="{command}")
    about = "Processes that wait for a person's answer."
    yield _level("outlive.questions", about, view.questions, unit="{process}")
    yield _count("outlive.starts", "Commands that were started.", view.starts, unit="{command}")
    yield Family(
        name="outlive.start_rejections",
        about="Commands that were not started.",
        kind="counter",
        unit="{command}",
        labels=("reason",),
        samples=[((slug,), count) for slug, count in sorted(metrics.rejected.items())],
    )
    yield Family(
        name="outlive.exits",
        about="Completed processes.",
        kind="counter",
        unit="{process}",
        labels=("state", "cause", "outcome"),
        samples=[(ended, count) for ended, count in sorted(metrics.exits.items())],
    )
    about = "Processes of an earlier server that were found alive."
    yield _count("outlive.recovered_processes", about, metrics.recovered, unit="{process}")


def _output(metrics: Metrics, view: LiveView) -> Iterator[Family]:
    """Yield the bytes of output, and how far its readers are behind."""
    yield Family(
        name="outlive.output",
        about="Output written to the logs.",
        kind="counter",
        unit="By",
        labels=("stream",),
        # Completed processes are counted once in `metrics`, the living ones anew at each scrape: the sum
        # never falls.
        samples=[
            (("stdout",), metrics.stdout_bytes + view.stdout_bytes),
            (("stderr",), metrics.stderr_bytes + view.stderr_bytes),
        ],
    )
    yield _level("outlive.connections", "WebSocket clients.", view.connections, unit="{connection}")
    about = "Followers of a process's output."
    yield _level("outlive.subscribers", about, view.subscribers, unit="{subscriber}")
    yield _level("outlive.state_free", "Free on the state folder's disk.", view.free_bytes, unit="By")
    about = "Output that the slowest WebSocket follower has not been sent yet."
    yield _level("outlive.subscriber_lag", about, view.lag_bytes, unit="By")


def _latencies(metrics: Metrics) -> Iterator[Family]:
    """Yield how long commands, recoveries and requests took."""
    yield Family(
        name="outlive.process_duration",
        about="From a process's start to its end.",
        kind="histogram",
        unit="s",
        samples=[((), _now(metrics.durations))],
    )
    yield Family(
        name="outlive.keeper_recovery",
        about="From the keeper's disappearance to its answer.",
        kind="histogram",
        unit="s",
        samples=[((), _now(metrics.recovery))],
    )
    yield Family(
        name="outlive.request",
        about="From a request to the beginning of its answer.",
        kind="histogram",
        unit="s",
        labels=("door", "what"),
        samples=[(labels, _now(one)) for labels, one in sorted(metrics.requests.items())],
    )


def _count(name: str, about: str, value: float, *, unit: str) -> Family:
    return Family(name=name, about=about, kind="counter", unit=unit, samples=[((), value)])


def _level(name: str, about: str, value: float, *, unit: str) -> Family:
    return Family(name=name, about=about, kind="gauge", unit=unit, samples=[((), value)])


def _now(histogram: Histogram) -> Distribution:
    return Distribution(bounds_s=histogram.bounds_s, counts=tuple(histogram.counts), sum_s=histogram.sum_s)


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_LABEL_ESCAPES = _HELP_ESCAPES | str.maketrans({'"': r"\""})


def render(found: Iterable[Family]) -> bytes:
    """Return all metrics as one document."""
    return "".join(f"{line}\n" for family in found for line in _lines(family)).encode()


def _lines(family: Family) -> Iterator[str]:
    name = family.prometheus_name + ("_total" if family.kind == "counter" else "")
    yield f"# HELP {name} {family.about.translate(_HELP_ESCAPES)}"
    yield f"# TYPE {name} {family.kind}"
    for values, sample in family.samples:
        labels = dict(zip(family.labels, values, strict=True))
        if isinstance(sample, Distribution):
            yield from _histogram(name, labels, sample)
        else:
            yield _line(name, labels, sample)


def _histogram(name: str, labels: dict[str, str], sample: Distribution) -> Iterator[str]:
    """Yield cumulative counts by upper bound, as the format requires, all there are, and the sum of the
    durations.
    """
    total = 0
    for bound, count in zip([*map(str, sample.bounds_s), "+Inf"], sample.counts, strict=True):
        total += count
        yield _line(f"{name}_bucket", {**labels, "le": bound}, total)
    yield _line(f"{name}_count", labels, total)
    yield _line(f"{name}_sum", labels, sample.sum_s)


def _line(name: str, labels: dict[str, str], value: float) -> str:
    pairs = ",".join(f'{label}="{text.translate(_LABEL_ESCAPES)}"' for label, text in sorted(labels.items()))
    return f"{name}{{{pairs}}} {float(value)!r}" if pairs else f"{name} {float(value)!r}"
