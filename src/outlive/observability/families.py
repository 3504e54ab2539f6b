"""Every metric once: `families` makes them of `Metrics` and the state at the moment. Pure.

`exposition` writes them down for Prometheus, `extensions.observe` for OpenTelemetry. Names are
OpenTelemetry's; Prometheus's follow from name, unit and kind (OpenTelemetry, "Prometheus and OpenMetrics
Compatibility"). Names, units and labels are an interface: dashboards depend on them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from outlive.core.lifecycle import State
from outlive.core.values import dataclass
from outlive.observability.metrics import Histogram, LiveView, Metrics

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
