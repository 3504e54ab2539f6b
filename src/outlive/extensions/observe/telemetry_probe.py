"""The line of `outlive doctor` about OpenTelemetry: where a server that is started here would send spans and
metrics, and whether it could.
"""

import os
import socket
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from outlive.cli.machine.probes import ProbeResult
from outlive.config import resolve
from outlive.core.errors import OutliveError
from outlive.discovery.config_files import read_config_files
from outlive.extensions.observe.options import ObserveOptions
from outlive.extensions.observe.telemetry import INSTALL, has_packages, why_not_sent
from outlive.extensions.observe.telemetry_plan import telemetry_plan
from outlive.kernel.project import working_folder

_PATIENCE_S = 1.0
_NAME = "OpenTelemetry"
_ADDRESS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://HOST:4318 (OTLP over HTTP), and no other "
    "OTEL_EXPORTER_OTLP_PROTOCOL than http/protobuf"
)
_AWAY = "start the collector, or name another address (docs/telemetry.md)"
_PORTS = {"http": 80, "https": 443}  # RFC 9110, sections 4.2.1 and 4.2.2


def probe_telemetry(environ: Mapping[str, str] = os.environ) -> list[ProbeResult]:
    """Return the line; none where the settings cannot be read, which other verbs say."""
    folder = working_folder()
    try:
        files = read_config_files(environ, working_folder=folder)
        settings = resolve({}, environ, working_folder=folder, files=files).settings
    except OutliveError:
        return []
    plan = telemetry_plan(settings.of(ObserveOptions), environ)
    obstacle = why_not_sent(plan)
    if obstacle:
        cure = _ADDRESS if has_packages() else INSTALL
        lost = (
            "no spans and metrics are sent" if not plan.is_active or not has_packages() else "not all is sent"
        )
        return [_line(obstacle.partition(": pip ")[0].rstrip("."), consequence=lost, cure=cure)]
    places = {urlsplit(url) for url in (plan.traces, plan.metrics) if url}
    if not places:
        detail = "no collector is named (OTEL_EXPORTER_OTLP_ENDPOINT)"
        return [ProbeResult(name=_NAME, is_ok=True, importance="fact", detail=detail)]
    shown = ", ".join(sorted({f"{place.scheme}://{_address(place)}" for place in places}))
    for place in places:
        try:
            with socket.create_connection((place.hostname or "", _port(place)), _PATIENCE_S):
                pass
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            waits = "the newest 2048 spans wait on disk, and metrics are given up"
            away = f"{shown} does not answer: {reason}"
            return [_line(away, consequence=waits, cure=_AWAY)]
    return [ProbeResult(name=_NAME, is_ok=True, detail=f"sends to {shown}")]


def _line(detail: str, *, consequence: str, cure: str) -> ProbeResult:
    return ProbeResult(name=_NAME, is_ok=False, detail=detail, consequence=consequence, cure=cure)


def _port(place: SplitResult) -> int:
    return place.port or _PORTS[place.scheme]


def _address(place: SplitResult) -> str:
    """Return host and port without what stands before or behind them: both may hold a token."""
    return place.netloc.rpartition("@")[2]
