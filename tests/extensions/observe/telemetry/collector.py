"""A collector for tests: takes OTLP over HTTP on loopback, reads it with OpenTelemetry's own protobuf
classes, and can be made to misbehave.
"""

import gzip
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSpan:
    """A span as it came: ids as hexadecimal digits, times as Unix nanoseconds, the attributes of it and of
    its resource.
    """

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    status: int
    begun_ns: int
    ended_ns: int
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any] = field(repr=False)


class Collector:
    """Listens on a free port of loopback, or a given one.

    Attributes:
        spans: Those that it has taken.
        metrics: The newest value of each metric by name and labels; of a histogram (count, sum, counts by
            bound).
        bodies: Every body, uncompressed: nothing that is sent can hide from a search in them.
        headers: The heads of the requests.
        status: What it answers; a span that is answered with another code than 200 was not taken.
    """

    def __init__(self, *, port: int = 0, status: int = 200) -> None:
        """Listen from `__enter__` on."""
        self.spans: list[TakenSpan] = []
        self.metrics: dict[tuple[str, tuple[str, ...]], Any] = {}
        self.bodies: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        self.status = status
        self._came = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler_of(self))

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """What an operator names."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """Serve in a thread."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def came(self, count: int = 1, *, within_s: float = PATIENCE_S) -> list[TakenSpan]:
        """Return the spans once there are so many (blocks)."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.spans) >= count, within_s), self.spans
            return list(self.spans)

    def metric(self, name: str, *labels: str, least: float = 1) -> Any:  # noqa: ANN401 -- a number, or a histogram's three parts
        """Return a metric's value once it is at least so much; of a histogram, its count (blocks)."""

        def value() -> Any:  # noqa: ANN401 -- as above
            found = self.metrics.get((name, labels), 0)
            return found[0] if isinstance(found, tuple) else found

        with self._came:
            assert self._came.wait_for(lambda: value() >= least, PATIENCE_S), self.metrics
            return self.metrics[name, labels]

    def asked(self, count: int) -> None:
        """Return once so many requests came (blocks)."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.bodies) >= count, PATIENCE_S)

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        """Take one request; return the status of its answer."""
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        with self._came:
            self.bodies.append(body)
            self.headers.append(headers)
            if self.status == 200 and path == "/v1/traces":
                self.spans += _spans(body)
            elif self.status == 200 and path == "/v1/metrics":
                self.metrics |= _metrics(body)
            self._came.notify_all()
            return self.status


def _handler_of(collector: Collector) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One connection."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Answer a request."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(collector.take(self.path, dict(self.headers.items()), body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the base class's name
            """Say nothing."""

    return Handler


def _spans(body: bytes) -> list[TakenSpan]:
    request = ExportTraceServiceRequest.FromString(body)
    return [
        TakenSpan(
            name=span.name,
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            kind=span.kind,
            status=span.status.code,
            begun_ns=span.start_time_unix_nano,
            ended_ns=span.end_time_unix_nano,
            attributes=_attributes(span.attributes),
            resource=_attributes(part.resource.attributes),
        )
        for part in request.resource_spans
        for scope in part.scope_spans
        for span in scope.spans
    ]


def _metrics(body: bytes) -> dict[tuple[str, tuple[str, ...]], Any]:
    request = ExportMetricsServiceRequest.FromString(body)
    found: dict[tuple[str, tuple[str, ...]], Any] = {}
    for metric in (
        metric
        for part in request.resource_metrics
        for scope in part.scope_metrics
        for metric in scope.metrics
    ):
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            labels = tuple(_attributes(point.attributes).values())
            if kind == "histogram":
                found[metric.name, labels] = (point.count, point.sum, tuple(point.bucket_counts))
            else:
                found[metric.name, labels] = getattr(point, point.WhichOneof("value"))
    return found


def _attributes(pairs: Any) -> dict[str, Any]:  # noqa: ANN401 -- a repeated field of protobuf has no public type
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def poll(holds: Callable[[], bool]) -> None:
    """Return once a condition holds that no event reports: another process's file, or what it says
    (blocks).
    """
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)
