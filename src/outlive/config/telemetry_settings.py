"""Options about telemetry: where spans and metrics go (`TelemetrySettings`), and what follows from them
(`telemetry_plan`). Pure.

OpenTelemetry's own variables are names of these options, so that what an operator has set counts for servers
that clients start, too. Those that say how something is sent (headers, certificates, timeouts, sampling) are
read by the SDK itself (decision 197).
"""

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlsplit

from outlive.config.options import option, parse_switch, parse_text
from outlive.core.values import dataclass

_TRACES_PATH, _METRICS_PATH = "v1/traces", "v1/metrics"  # OTLP 1.10, "OTLP/HTTP Request"
_PROTOCOL = "http/protobuf"
_EXPORTER = "otlp"


@dataclass(frozen=True, kw_only=True)
class TelemetrySettings:
    """The part of `Settings` about OpenTelemetry (docs/telemetry.md)."""

    # No parser refuses an address: the variables may be set for other programs, and must never keep a server
    # from starting.
    otlp_endpoint: str = option(
        "endpoint",
        parse_text,
        "",
        (
            "URL of an OpenTelemetry collector that spans and metrics of commands are sent to (OTLP over "
            "HTTP; needs outlive[otel])."
        ),
        flag="--otlp-endpoint",
        env=("OTEL_EXPORTER_OTLP_ENDPOINT",),
        example="http://127.0.0.1:4318",
    )
    otlp_traces_endpoint: str = option(
        "endpoint",
        parse_text,
        "",
        "Whole URL for spans alone, where it is another one.",
        flag="--otlp-traces-endpoint",
        env=("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",),
        example="http://127.0.0.1:4318/v1/traces",
    )
    otlp_metrics_endpoint: str = option(
        "endpoint",
        parse_text,
        "",
        "Whole URL for metrics alone, where it is another one.",
        flag="--otlp-metrics-endpoint",
        env=("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",),
        example="http://127.0.0.1:4318/v1/metrics",
    )
    # A command's words may hold secrets that no pattern knows.
    otlp_command_lines: bool = option(
        "switch",
        parse_switch,
        "off",
        (
            "Spans have the whole command as lists show it, with secrets redacted; without this its first "
            "word alone."
        ),
        flag="--otlp-command-lines",
        example="on",
    )
    # The environment of a command is its caller's: what is added to it is asked for.
    pass_traceparent: bool = option(
        "switch",
        parse_switch,
        "off",
        (
            "Commands get TRACEPARENT in their environment: spans of their own become children of the "
            "command's span."
        ),
        flag="--pass-traceparent",
        example="on",
    )


class _Chosen(Protocol):
    """The settings that a plan follows from."""

    @property
    def otlp_endpoint(self) -> str: ...
    @property
    def otlp_traces_endpoint(self) -> str: ...
    @property
    def otlp_metrics_endpoint(self) -> str: ...


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


def telemetry_plan(settings: _Chosen, environ: Mapping[str, str]) -> TelemetryPlan:
    """Return what is sent, by the settings and by OpenTelemetry's variables that switch something off."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return TelemetryPlan()
    troubles: list[str] = []
    traces, metrics = (
        _endpoint(signal, own, settings.otlp_endpoint, path, environ, troubles)
        for signal, own, path in (
            ("TRACES", settings.otlp_traces_endpoint, _TRACES_PATH),
            ("METRICS", settings.otlp_metrics_endpoint, _METRICS_PATH),
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
