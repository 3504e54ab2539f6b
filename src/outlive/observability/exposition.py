"""`Metrics` as text in Prometheus's format. Imports the Prometheus library: load this at the first scrape, not before.

Names and labels here are an interface: dashboards depend on them. The counts belong to `metrics`.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from outlive.core.lifecycle import State
from outlive.observability.metrics import Histogram, LiveView, Metrics

CONTENT_TYPE = CONTENT_TYPE_LATEST


def render(metrics: Metrics, view: LiveView, *, version: str) -> bytes:
    """Return all metrics as one document."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(metrics, view, version))
    return generate_latest(registry)


class _Collector:
    """The object that the library asks for the metrics."""

    def __init__(self, metrics: Metrics, view: LiveView, version: str) -> None:
        self._metrics = metrics
        self._view = view
        self._version = version

    def collect(self) -> Iterator[Metric]:
        """Yield every family; called by the library."""
        yield from self._processes()
        yield from self._output()
        yield from self._latencies()
        info = GaugeMetricFamily("outlive_build_info", "The server's version.", labels=["version"])
        info.add_metric([self._version], 1)
        yield info

    def _processes(self) -> Iterator[Metric]:
        """Yield how many processes live, were started, were refused, have ended, and were found again."""
        metrics, view = self._metrics, self._view
        live = GaugeMetricFamily("outlive_processes", "Processes that live, by state.", labels=["state"])
        # Every state, also with zero: a metric that comes and goes breaks alerts.
        for state in State:
            live.add_metric([state], view.states[state])
        yield live
        yield CounterMetricFamily("outlive_starts", "Commands that were started.", value=view.starts)
        rejected = CounterMetricFamily(
            "outlive_start_rejections", "Commands that were not started.", labels=["reason"]
        )
        for slug, count in sorted(metrics.rejected.items()):
            rejected.add_metric([slug], count)
        yield rejected
        exits = CounterMetricFamily("outlive_exits", "Completed processes.", labels=["state", "cause"])
        for (ended, cause), count in sorted(metrics.exits.items()):
            exits.add_metric([ended, cause], count)
        yield exits
        yield CounterMetricFamily(
            "outlive_recovered_processes",
            "Processes of an earlier server that were found alive.",
            value=metrics.recovered,
        )

    def _output(self) -> Iterator[Metric]:
        """Yield the bytes of output, and how far its readers are behind."""
        metrics, view = self._metrics, self._view
        # Completed processes are counted once in `metrics`, the living ones anew at each scrape: the sum never falls.
        written = CounterMetricFamily(
            "outlive_output_bytes", "Output written to the logs.", labels=["stream"]
        )
        written.add_metric(["stdout"], metrics.stdout_bytes + view.stdout_bytes)
        written.add_metric(["stderr"], metrics.stderr_bytes + view.stderr_bytes)
        yield written
        yield GaugeMetricFamily("outlive_connections", "WebSocket clients.", value=view.connections)
        yield GaugeMetricFamily(
            "outlive_subscribers", "Followers of a process's output.", value=view.subscribers
        )
        yield GaugeMetricFamily(
            "outlive_subscriber_lag_bytes",
            "Output that the slowest WebSocket follower has not been sent yet.",
            value=view.lag_bytes,
        )

    def _latencies(self) -> Iterator[Metric]:
        """Yield how long recoveries and requests took."""
        recovery = HistogramMetricFamily(
            "outlive_keeper_recovery_seconds", "From the keeper's disappearance to its answer."
        )
        recovery.add_metric([], *_buckets(self._metrics.recovery))
        yield recovery
        requests = HistogramMetricFamily(
            "outlive_request_seconds",
            "From a request to the beginning of its answer.",
            labels=["door", "what"],
        )
        for (door, what), histogram in sorted(self._metrics.requests.items()):
            requests.add_metric([door, what], *_buckets(histogram))
        yield requests


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Return cumulative counts by upper bound, as the format requires, and the sum of the durations."""
    bounds = [*map(str, histogram.bounds_s), "+Inf"]
    total = 0
    cumulated: list[tuple[str, float]] = []
    for bound, count in zip(bounds, histogram.counts, strict=True):
        total += count
        cumulated.append((bound, total))
    return cumulated, histogram.sum_s
