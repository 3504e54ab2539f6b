"""Spans and metrics for an OpenTelemetry collector. Imported only where one is named (decision 197).

Here: whether the packages of the extra `otel` are there (`why_not_sent`). None of them is loaded for that.
"""

import importlib.util

from outlive.extensions.observe.telemetry_plan import TelemetryPlan

INSTALL = "pip install 'outlive[otel]'"
_NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def why_not_sent(plan: TelemetryPlan) -> str:
    """Return a sentence about what keeps a signal from being sent, "" for nothing."""
    if plan.is_active and not has_packages():
        return f"An OpenTelemetry collector is named, but the packages that send to it are missing: {INSTALL}"
    return plan.trouble


def has_packages() -> bool:
    """Tell whether the extra is installed."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in _NEEDED)
    except ModuleNotFoundError:  # a package above it is missing
        return False
