"""What is sent to a collector, and where to (`telemetry_plan`). Pure.

OpenTelemetry's own variables that switch something off count here. Those that say how something is sent
(headers, certificates, timeouts, sampling) are read by the SDK itself (decision 197).
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from outlive.core.values import dataclass
from outlive.extensions.observe.options import ObserveOptions

_TRACES_PATH, _METRICS_PATH = "v1/traces", "v1/metrics"  # OTLP 1.10, "OTLP/HTTP Request"
_PROTOCOL = "http/protobuf"
_EXPORTER = "otlp"


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryPlan:
    """What is sent where: whole URLs, "" for a signal that is not sent.

    `trouble` is a sentence about what keeps one from being sent.
    """

    traces: str = ""
    metrics: str = ""
    trouble: str = ""

    @property
    def is_active(self) -> bool:
        """Whether anything is sent."""
        return bool(self.traces or self.metrics)


def telemetry_plan(options: ObserveOptions, environ: Mapping[str, str]) -> TelemetryPlan:
    """Return what is sent, by the options and by OpenTelemetry's variables that switch something off."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return TelemetryPlan()
    troubles: list[str] = []
    traces, metrics = (
        _endpoint(signal, own, options.otlp_endpoint, path, environ, troubles)
        for signal, own, path in (
            ("TRACES", options.otlp_traces_endpoint, _TRACES_PATH),
            ("METRICS", options.otlp_metrics_endpoint, _METRICS_PATH),
        )
    )
    return TelemetryPlan(traces=traces, metrics=metrics, trouble=" ".join(dict.fromkeys(troubles)))


def _endpoint(
    signal: str, own: str, shared: str, path: str, environ: Mapping[str, str], troubles: list[str]
) -> str:
    """Return the URL of one signal; what is wrong goes to `troubles`."""
    exporters = environ.get(f"OTEL_{signal}_EXPORTER", "").strip() or _EXPORTER
    named = own or shared
    if not named or _EXPORTER not in {word.strip() for word in exporters.split(",")}:
        return ""
    if not _is_address(named):
        shown = named.partition("?")[0].rpartition("@")[2][:100]  # an address may have a token in it
        troubles.append(f"{shown!r} is no http or https URL: nothing is sent there.")
        return ""
    protocol = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL"
    )
    if protocol and protocol.strip() != _PROTOCOL:
        troubles.append(
            f"OTEL_EXPORTER_OTLP_PROTOCOL asks for {protocol[:40]!r}: only {_PROTOCOL} is spoken, and "
            "nothing is sent."
        )
        return ""
    if own:
        return own
    parts = urlsplit(shared)
    return parts._replace(path=f"{parts.path.removesuffix('/')}/{path}").geturl()


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
