"""Counting what happens, and the text that monitoring reads."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from outlive.core.events import (
    KeeperConnected,
    KeeperDisconnected,
    ProcessCompleted,
    ProcessRecovered,
    StartRejected,
)
from outlive.core.lifecycle import State
from outlive.observability.metrics import (
    LATENCY_BOUNDS_S,
    Family,
    Histogram,
    LiveView,
    Metrics,
    counted_kinds,
    families,
    render,
)
from tests.observability.test_logs import EXAMPLE

_NOTHING = LiveView(
    starts=0, states=Counter(), stdout_bytes=0, stderr_bytes=0, subscribers=0, lag_bytes=0, connections=0
)


def _samples(metrics: Metrics, view: LiveView = _NOTHING) -> dict[tuple[str, tuple[str, ...]], float]:
    text = render(families(metrics, view, version="1.2.3")).decode()
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_events_are_counted() -> None:
    now = [10.0]
    metrics = Metrics(clock=lambda: now[0])
    metrics.note(KeeperConnected(pid=1))  # the first one is no recovery
    metrics.note(StartRejected(principal="uid:7", code="not_found"))
    metrics.note(ProcessRecovered(record=EXAMPLE))
    metrics.note(ProcessCompleted(record=EXAMPLE))
    metrics.note(KeeperDisconnected())
    now[0] += 0.15
    metrics.note(KeeperConnected(pid=2))
    metrics.observe_request("jsonrpc", "execute", 0.003)
    view = LiveView(
        starts=1,
        states=Counter({State.RUNNING: 2}),
        stdout_bytes=100,
        stderr_bytes=7,
        subscribers=3,
        lag_bytes=11,
        connections=4,
        approvals=2,
        questions=1,
        free_bytes=5,
    )
    samples = _samples(metrics, view)
    assert samples["outlive_processes", ("running",)] == 2
    assert samples["outlive_processes", ("paused",)] == 0
    assert samples["outlive_starts_total", ()] == 1
    assert samples["outlive_start_rejections_total", ("not_found",)] == 1
    assert samples["outlive_recovered_processes_total", ()] == 1
    assert samples["outlive_exits_total", ("cancel", "terminated", "signaled")] == 1
    assert samples["outlive_output_bytes_total", ("stdout",)] == 110
    assert samples["outlive_output_bytes_total", ("stderr",)] == 12
    assert (samples["outlive_subscribers", ()], samples["outlive_subscriber_lag_bytes", ()]) == (3, 11)
    assert samples["outlive_connections", ()] == 4
    assert (samples["outlive_approvals", ()], samples["outlive_questions", ()]) == (2, 1)
    assert samples["outlive_state_free_bytes", ()] == 5
    assert samples["outlive_keeper_recovery_seconds_count", ()] == 1
    assert samples["outlive_keeper_recovery_seconds_bucket", ("0.1",)] == 0
    assert samples["outlive_keeper_recovery_seconds_bucket", ("0.2",)] == 1
    assert samples["outlive_request_seconds_bucket", ("jsonrpc", "0.005", "execute")] == 1
    assert samples["outlive_build_info", ("1.2.3",)] == 1
    assert samples["outlive_process_duration_seconds_count", ()] == 1


def test_nothing_is_counted_that_was_not_asked_for() -> None:
    """What is asked for is just what `note` counts: other events need not be made."""
    assert {kind.__name__ for kind in counted_kinds()} == {
        "StartRejected",
        "ProcessRecovered",
        "ProcessCompleted",
        "KeeperConnected",
        "KeeperDisconnected",
    }


@given(st.lists(st.floats(min_value=0, max_value=1000)))
def test_every_duration_is_in_exactly_the_buckets_that_reach_it(durations: list[float]) -> None:
    metrics = Metrics()
    for duration in durations:
        metrics.observe_request("door", "what", duration)
    samples = _samples(metrics)
    for bound in LATENCY_BOUNDS_S if durations else ():
        reached = sum(duration <= bound for duration in durations)
        assert samples["outlive_request_seconds_bucket", ("door", str(bound), "what")] == reached
    if durations:
        assert samples["outlive_request_seconds_count", ("door", "what")] == len(durations)


def test_an_empty_histogram_is_zero() -> None:
    assert Histogram((1.0,)).counts == [0, 0]


# Carriage returns, quotes, backslashes and newlines are what escaping is about.
_ODD = st.text(st.one_of(st.sampled_from('\\"\n\r{},= #'), st.characters(codec="utf-8")))


@given(values=st.lists(st.tuples(_ODD, _ODD), max_size=5, unique=True), about=_ODD)
def test_prometheus_reads_any_text_as_it_was(values: list[tuple[str, str]], about: str) -> None:
    """Prometheus's own parser finds each label's value again, and the sentence, whatever they contain."""
    samples = [(pair, float(number)) for number, pair in enumerate(values)]
    # The parser strips a line of whatever Python calls a blank, so the sentence begins and ends with a
    # letter.
    about = f"A{about}z"
    family = Family(name="a.b", about=about, kind="counter", unit="By", labels=("z", "a"), samples=samples)
    (read,) = text_string_to_metric_families(render([family]).decode())
    assert (read.name, read.type, read.documentation) == ("a_b_bytes", "counter", about)
    assert [(one.name, (one.labels["z"], one.labels["a"]), one.value) for one in read.samples] == [
        ("a_b_bytes_total", *sample) for sample in samples
    ]


def test_the_text_is_what_the_format_wants() -> None:
    """Prometheus, "Exposition formats": cumulative buckets, and a kind and a sentence before the samples of
    each metric.
    """
    metrics = Metrics()
    metrics.observe_request("rest", "get", 0.5)
    text = render(families(metrics, _NOTHING, version="1.2.3")).decode()
    assert "# HELP outlive_request_seconds From a request to the beginning of its answer.\n" in text
    assert "# TYPE outlive_request_seconds histogram\n" in text
    assert 'outlive_request_seconds_bucket{door="rest",le="0.25",what="get"} 0.0\n' in text
    assert 'outlive_request_seconds_bucket{door="rest",le="+Inf",what="get"} 1.0\n' in text
    assert 'outlive_request_seconds_sum{door="rest",what="get"} 0.5\n' in text
    assert "# TYPE outlive_starts_total counter\noutlive_starts_total 0.0\n" in text
    assert text.endswith('outlive_build_info{version="1.2.3"} 1.0\n')
