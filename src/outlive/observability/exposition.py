"""Metrics as text in Prometheus's format. Imports the Prometheus library: load this at the first scrape, not before.

Which metrics there are belongs to `families`, the counts to `metrics`.
"""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from outlive.observability.families import Distribution, Family

CONTENT_TYPE = CONTENT_TYPE_LATEST


def render(found: Iterable[Family]) -> bytes:
    """Return all metrics as one document."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(found))
    return generate_latest(registry)


class _Collector:
    """The object that the library asks for the metrics."""

    def __init__(self, found: Iterable[Family]) -> None:
        self._found = found

    def collect(self) -> Iterator[Metric]:
        """Yield every family; called by the library."""
        yield from map(_metric, self._found)


def _metric(family: Family) -> Metric:
    name, about, labels = family.prometheus_name, family.about, list(family.labels)
    if family.kind == "histogram":
        histogram = HistogramMetricFamily(name, about, labels=labels)
        for values, sample in family.samples:
            if isinstance(sample, Distribution):
                histogram.add_metric(list(values), *_buckets(sample))
        return histogram
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric = kind(name, about, labels=labels)
    for values, sample in family.samples:
        if not isinstance(sample, Distribution):
            metric.add_metric(list(values), sample)
    return metric


def _buckets(found: Distribution) -> tuple[list[tuple[str, float]], float]:
    """Return cumulative counts by upper bound, as the format requires, and the sum of the durations."""
    bounds = [*map(str, found.bounds_s), "+Inf"]
    total = 0
    cumulated: list[tuple[str, float]] = []
    for bound, count in zip(bounds, found.counts, strict=True):
        total += count
        cumulated.append((bound, total))
    return cumulated, found.sum_s
