"""Fixtures of telemetry's tests."""

from collections.abc import Callable, Iterator

import pytest

from tests.extensions.observe.telemetry.collector import Collector
from tests.support.fixtures import *  # noqa: F403 -- pytest finds fixtures by their names
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer

Observed = Callable[..., OutliveServer]


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that takes everything."""
    with Collector() as opened:
        yield opened


@pytest.fixture
def observed(serve: ServerFactory, collector: Collector) -> Observed:
    """A function that starts a server which sends to `collector`, without long pauses."""

    def start(*args: str, **env: object) -> OutliveServer:
        quick = {"OTEL_BSP_SCHEDULE_DELAY": 50, "OTEL_METRIC_EXPORT_INTERVAL": 200}
        return serve(*args, **{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **quick, **env})

    return start
