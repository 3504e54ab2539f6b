"""Spans and metrics in the forms of OpenTelemetry's SDK, and its exporters over HTTP.

Loads all of it: import this in a thread.

Which variables say how it is sent is the SDK's to know: headers, certificates, timeouts, compression, the
sampler, the resource's attributes. No global provider is set: spans of libraries are none of a command's.
"""

from collections.abc import Mapping, Sequence

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context
from opentelemetry.trace.status import Status, StatusCode

from outlive.extensions.observe.telemetry.command_span import CommandSpan
from outlive.extensions.observe.telemetry.sender import Verdict
from outlive.extensions.observe.telemetry_plan import TelemetryPlan
from outlive.observability.metrics import Distribution, Family

_SCOPE = "outlive"
_REFUSED = frozenset({"", "HTTP 400", "HTTP 413"})


class _Session(requests.Session):
    """Remembers what came of the last request, which the exporters keep to themselves."""

    last_outcome = ""

    def send(self, request: requests.PreparedRequest, **kwargs: object) -> requests.Response:
        """Send a request."""
        try:
            response = super().send(request, **kwargs)
        except Exception as error:
            self.last_outcome = type(
                error
            ).__name__  # its text may have the address in it, and a token in that
            raise
        self.last_outcome = f"HTTP {response.status_code}"
        return response


class Exporters:
    """Sends, and says whether the collector has taken it; blocking.

    `shutdown` may be called from another thread.
    """

    def __init__(self, plan: TelemetryPlan, *, version: str, instance: str) -> None:
        """Take what is sent where; `instance` tells this state folder's server from others."""
        self._scope = InstrumentationScope(_SCOPE, version)
        own = {"service.name": "outlive", "service.version": version, "service.instance.id": instance}
        # The detector reads the environment alone; those that look at host and process would send names of
        # the machine. What the operator says in OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME counts for
        # more.
        self._resource = Resource(own).merge(OTELResourceDetector().detect())
        self._sampler = TracerProvider(resource=self._resource, shutdown_on_exit=False).sampler
        self._session = _Session()
        self._spans = OTLPSpanExporter(plan.traces, session=self._session) if plan.traces else None
        self._metrics = OTLPMetricExporter(plan.metrics, session=self._session) if plan.metrics else None

    @property
    def last_outcome(self) -> str:
        """What came of the last request, in two words."""
        return self._session.last_outcome

    def send_spans(self, spans: Sequence[CommandSpan]) -> Verdict:
        """Send those that the sampler wants; return what becomes of all of them."""
        wanted = [made for span in spans if (made := self._made(span)) is not None]
        if self._spans is None or not wanted:
            return "taken"
        self._session.last_outcome = ""
        if self._spans.export(wanted) is SpanExportResult.SUCCESS:
            return "taken"
        # Without a request it could not even be encoded. The others that a collector refuses for good are
        # faults of its configuration, which an operator may mend before the spans are too many (OTLP,
        # "Failures").
        return "refused" if self._session.last_outcome in _REFUSED else "away"

    def send_metrics(self, found: Sequence[Family], *, begun_ns: int, now_ns: int) -> bool:
        """Send all metrics as they were at `now_ns`; counters count since `begun_ns`.

        Return whether they were taken.
        """
        if self._metrics is None:
            return True
        metrics = [_metric(family, begun_ns, now_ns) for family in found if family.samples]
        data = MetricsData(
            resource_metrics=[
                ResourceMetrics(
                    resource=self._resource,
                    scope_metrics=[ScopeMetrics(scope=self._scope, metrics=metrics, schema_url="")],
                    schema_url="",
                )
            ]
        )
        return self._metrics.export(data) is MetricExportResult.SUCCESS

    def shutdown(self) -> None:
        """Wait for no further attempt."""
        for exporter in (self._spans, self._metrics):
            if exporter is not None:
                exporter.shutdown()

    def _made(self, span: CommandSpan) -> ReadableSpan | None:
        """Return the SDK's span; None where the sampler does not want it.

        Its constructor is public, and takes what a tracer would have drawn or measured: ids, times, the
        parent.
        """
        trace_id, flags = int(span.trace_id, 16), TraceFlags(span.flags)
        parent = None
        if span.parent_id:
            parent = SpanContext(trace_id, int(span.parent_id, 16), is_remote=True, trace_flags=flags)
        within = None if parent is None else set_span_in_context(NonRecordingSpan(parent))
        chosen = self._sampler.should_sample(
            within, trace_id, span.name, SpanKind.INTERNAL, dict(span.attributes)
        )
        if chosen.decision is not Decision.RECORD_AND_SAMPLE:
            return None
        return ReadableSpan(
            name=span.name,
            context=SpanContext(
                trace_id,
                int(span.span_id, 16),
                is_remote=False,
                trace_flags=TraceFlags(TraceFlags.SAMPLED),
                trace_state=chosen.trace_state,
            ),
            parent=parent,
            resource=self._resource,
            attributes={**span.attributes, **dict(chosen.attributes or {})},
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if span.is_error else StatusCode.UNSET),
            start_time=span.begun_ns,
            end_time=span.ended_ns,
            instrumentation_scope=self._scope,
        )


def _metric(family: Family, begun_ns: int, now_ns: int) -> Metric:
    labelled = [(dict(zip(family.labels, values, strict=True)), sample) for values, sample in family.samples]
    data: Gauge | Sum | HistogramData
    if family.kind == "histogram":
        data = HistogramData(
            [
                _distribution(labels, sample, begun_ns, now_ns)
                for labels, sample in labelled
                if isinstance(sample, Distribution)
            ],
            AggregationTemporality.CUMULATIVE,
        )
    else:
        points = [
            NumberDataPoint(
                attributes=labels, start_time_unix_nano=begun_ns, time_unix_nano=now_ns, value=sample
            )
            for labels, sample in labelled
            if not isinstance(sample, Distribution)
        ]
        is_counter = family.kind == "counter"
        data = (
            Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True) if is_counter else Gauge(points)
        )
    return Metric(name=family.name, description=family.about, unit=family.unit or "1", data=data)


def _distribution(
    labels: Mapping[str, str], found: Distribution, begun_ns: int, now_ns: int
) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=begun_ns,
        time_unix_nano=now_ns,
        count=sum(found.counts),
        sum=found.sum_s,
        bucket_counts=found.counts,
        explicit_bounds=found.bounds_s,
        # They are not kept, and optional in OTLP; the class knows no other way to leave them out.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )
