"""Collectors that are dead, slow or refuse; and servers without one, or without the packages that send."""

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from outlive.client import Client
from outlive.extensions.observe.options import ObserveOptions
from outlive.extensions.observe.telemetry_plan import telemetry_plan
from tests.extensions.observe.telemetry.collector import Collector, poll
from tests.extensions.observe.telemetry.conftest import Observed
from tests.mcp_http.raw_caller import request
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer, free_port, heeded_path, run_outlive

_INSTALL = "pip install 'outlive[otel]'"
# An interpreter whose path has no OpenTelemetry: the packages are hidden, as where the extra was never
# installed.
_HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("opentelemetry.sdk") or name.startswith("opentelemetry.exporter"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
"""


def _settings(**members: str) -> ObserveOptions:
    return ObserveOptions(**members)  # type: ignore[arg-type] # each of these is a text


def test_an_address_for_all_stands_for_both_signals() -> None:
    plan = telemetry_plan(_settings(otlp_endpoint="http://c:4318/"), {})
    assert (plan.traces, plan.metrics) == ("http://c:4318/v1/traces", "http://c:4318/v1/metrics")
    keyed = telemetry_plan(_settings(otlp_endpoint="https://c/base/?key=a"), {})
    assert keyed.traces == "https://c/base/v1/traces?key=a"
    one = telemetry_plan(_settings(otlp_traces_endpoint="https://c/own"), {})
    assert (one.traces, one.metrics, one.trouble) == ("https://c/own", "", "")
    assert not telemetry_plan(_settings(), {}).is_active


def test_what_an_operator_has_switched_off_is_not_sent() -> None:
    both = _settings(otlp_endpoint="http://c:4318")
    assert not telemetry_plan(both, {"OTEL_SDK_DISABLED": "true"}).is_active
    assert telemetry_plan(both, {"OTEL_TRACES_EXPORTER": "none"}).traces == ""
    assert telemetry_plan(both, {"OTEL_METRICS_EXPORTER": "console, otlp"}).metrics != ""


@pytest.mark.parametrize(
    ("url", "environ"),
    [
        ("localhost:4317", {}),
        ("http://", {}),
        ("http://c:x", {}),
        ("http://[::1", {}),
        ("http://c:4317", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}),
    ],
)
def test_what_cannot_be_sent_to_is_said_and_stops_nothing(url: str, environ: dict[str, str]) -> None:
    plan = telemetry_plan(_settings(otlp_endpoint=url), environ)
    assert not plan.is_active
    assert plan.trouble


@pytest.mark.promise("O.dead")
def test_a_dead_collector_delays_no_command_and_what_does_not_fit_is_counted(
    observed: Observed, collector: Collector
) -> None:
    server = observed(
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}",
        OTEL_BSP_MAX_QUEUE_SIZE=10,
        OTEL_EXPORTER_OTLP_TIMEOUT="0.2",
    )
    with Client(server.state_dir, start_server=False) as client:
        for process in [client.start("true") for _ in range(30)]:
            assert process.wait().exit_code == 0
    _metric(server, 'outlive_telemetry_dropped_total{signal="spans"}', least=20)
    assert (server.state_dir / "spans").stat().st_size < 100_000
    begun = time.monotonic()
    server.stop()
    assert time.monotonic() - begun < 15  # two seconds are the collector's; the rest is a loaded machine's
    # One line, however often it was tried.
    assert server.stderr.count("does not take telemetry") == 1
    assert "opentelemetry" not in server.stderr.replace("outlive.extensions.observe.telemetry", "")


@pytest.mark.thorough
@pytest.mark.promise("O.dead")
def test_a_collector_that_never_answers_does_not_hold_up_the_stop(serve: ServerFactory) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        server = serve(OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_BSP_SCHEDULE_DELAY=10)
        with Client(server.state_dir, start_server=False) as client:
            client.start("true").wait()
        asked, _ = silent.accept()
        with asked:  # it waits for an answer, for ten seconds
            begun = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - begun < 8
    assert (server.state_dir / "spans").read_bytes().count(b'"process_id"') == 1


@pytest.mark.thorough
@pytest.mark.promise("O.dead")
def test_a_collector_that_comes_back_gets_what_waited(observed: Observed) -> None:
    port = free_port()
    server = observed(
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}", OTEL_EXPORTER_OTLP_TIMEOUT="0.2"
    )
    with Client(server.state_dir, start_server=False) as client:
        process = client.start("true")
        process.wait()
        poll(lambda: "does not take telemetry" in server.stderr)
        with Collector(port=port) as collector:
            assert collector.came()[0].attributes["outlive.process_id"] == process.process_id
            poll(lambda: "takes telemetry again" in server.stderr)


@pytest.mark.thorough
@pytest.mark.promise("O.dead")
def test_spans_that_are_refused_for_good_do_not_hold_up_those_behind_them(
    observed: Observed, collector: Collector
) -> None:
    collector.status = 400
    server = observed()
    with Client(server.state_dir, start_server=False) as client:
        client.start("true").wait()
        _metric(server, 'outlive_telemetry_dropped_total{signal="spans"}', least=1)
        collector.status = 200
        process = client.start("true")
        assert collector.came()[0].attributes["outlive.process_id"] == process.process_id
    assert "has refused spans" in server.stderr


@pytest.mark.thorough
@pytest.mark.promise("O.dead")
def test_an_ordered_stop_sends_what_waits(observed: Observed, collector: Collector) -> None:
    server = observed(OTEL_BSP_SCHEDULE_DELAY=60_000, OTEL_METRIC_EXPORT_INTERVAL=60_000)
    with Client(server.state_dir, start_server=False) as client:
        client.start("true").wait()  # the first one is sent at once, those behind it after the delay
        collector.came(1)
        client.start("true").wait()
    server.stop()
    assert len(collector.spans) == 2
    assert collector.metric("outlive.starts", least=2) == 2


@pytest.mark.promise("O.off")
def test_without_a_collector_nothing_of_it_is_imported(serve: ServerFactory, tmp_path: Path) -> None:
    """Counted in the server itself: of its modules none is OpenTelemetry's SDK or ours for it."""
    modules = tmp_path / "modules"
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text(
        f"import atexit, sys\natexit.register(lambda: open({str(modules)!r}, "
        "'w').write('\\n'.join(sys.modules)))\n"
    )
    server = serve(PYTHONPATH=heeded_path(own))
    with Client(server.state_dir, start_server=False) as client:
        client.start("true").wait()
    assert b"outlive_telemetry" not in request(f"{server.rest_url}/metrics", "GET").body
    server.stop()
    loaded = modules.read_text().split()
    assert "outlive.app" in loaded
    ours = "outlive.extensions.observe.telemetry."
    assert [
        name for name in loaded if name.startswith((ours, "opentelemetry.sdk", "opentelemetry.exporter"))
    ] == []
    assert [name for name in loaded if name.startswith(("google.protobuf", "requests"))] == []


@pytest.mark.promise("O.off")
def test_without_the_packages_a_warning_and_the_doctor_say_how_to_get_them(
    serve: ServerFactory, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_HIDDEN)
    env = {"PYTHONPATH": heeded_path(tmp_path), "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    server = serve(**env)
    with Client(server.state_dir, start_server=False) as client:
        assert client.start("true").wait().exit_code == 0
    assert server.stderr.count(_INSTALL) == 1
    assert _doctor(server.state_dir, env)["cure"] == _INSTALL


@pytest.mark.thorough
@pytest.mark.promise("O.off")
def test_the_doctor_says_where_telemetry_goes_and_what_is_in_the_way(
    collector: Collector, tmp_path: Path
) -> None:
    def line(**env: str) -> dict[str, Any]:
        return _doctor(tmp_path / "state", env)

    nowhere, there = line(), line(OTEL_EXPORTER_OTLP_ENDPOINT=f"{collector.url}?token=hunter2")
    assert nowhere["ok"]
    assert there["ok"]
    assert there["detail"] == f"sends to {collector.url}"
    away = line(OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}")
    assert not away["ok"]
    assert "does not answer: Connection refused" in away["detail"]
    bad = line(OTEL_EXPORTER_OTLP_ENDPOINT="localhost:4317")
    assert not bad["ok"]
    assert "http" in bad["cure"]


def _doctor(state_dir: Path, env: Mapping[str, str]) -> dict[str, Any]:
    answer = run_outlive("doctor", "--json", state_dir=state_dir, env=env)
    checks = json.loads(answer.stdout)["checks"]
    line: dict[str, Any] = next(check for check in checks if check["name"] == "OpenTelemetry")
    return line


def _metric(server: OutliveServer, name: str, *, least: float) -> None:
    def value() -> float:
        lines = request(f"{server.rest_url}/metrics", "GET").body.decode().splitlines()
        return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    poll(lambda: value() >= least)
