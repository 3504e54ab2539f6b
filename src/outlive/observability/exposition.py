"""Metrics as text in Prometheus's text format, version 0.0.4 (Prometheus, "Exposition formats"). Pure.

Which metrics there are belongs to `families`, the counts to `metrics`.
"""

from collections.abc import Iterable, Iterator

from outlive.observability.families import Distribution, Family

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
