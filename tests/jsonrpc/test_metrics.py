"""GET /metrics of a real server: what it counted, and how long the keeper was away."""

import http.client
import os
import signal
import time
import urllib.request

import pytest
from anyio import to_thread
from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import Gate
from tests.support.rpc import connect
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_RECOVERIES: tuple[str, tuple[str, ...]] = ("outlive_keeper_recovery_seconds_count", ())


def _scrape(server: OutliveServer) -> dict[tuple[str, tuple[str, ...]], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=20) as answer:
        assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        text = answer.read().decode()
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _wait_recovered(server: OutliveServer) -> None:
    deadline = time.monotonic() + 20
    while _scrape(server)[_RECOVERIES] != 1:
        assert time.monotonic() < deadline, "the keeper's recovery is not told"
        time.sleep(0.05)


@pytest.mark.promise("S4.12.metrics")
async def test_metrics_tell_starts_ends_bytes_latencies_and_the_keepers_recovery(
    own_server: OutliveServer, gate: Gate
) -> None:
    async with connect(own_server.url) as client:
        failed = await client.execute("printf 12345; printf 123 >&2; exit 3")
        await client.completed(failed["process_id"])
        live = await client.execute(f"echo hello; {gate.wait}")
        await client.output(live["process_id"], "hello\n")
        before = await to_thread.run_sync(_scrape, own_server)
        assert before["outlive_processes", ("running",)] == 1
        assert before["outlive_starts_total", ()] == 2
        assert before["outlive_exits_total", ("none", "failed", "exited")] == 1
        assert before["outlive_output_bytes_total", ("stdout",)] == 5 + 6
        assert before["outlive_output_bytes_total", ("stderr",)] == 3
        assert before["outlive_state_free_bytes", ()] > 0
        assert before["outlive_connections", ()] == 1
        assert before["outlive_subscribers", ()] == 1
        assert before["outlive_subscriber_lag_bytes", ()] == 0
        assert before["outlive_request_seconds_count", ("jsonrpc", "execute")] == 2
        assert before[_RECOVERIES] == 0
        assert "hello" not in str(before)

        status = await to_thread.run_sync(own_server.keeper_status)
        assert status.supervisor_pid is not None
        os.kill(status.supervisor_pid, signal.SIGKILL)

        await to_thread.run_sync(_wait_recovered, own_server)
        gate.open()
        await client.completed(live["process_id"])
        after = await to_thread.run_sync(_scrape, own_server)
        assert after["outlive_exits_total", ("none", "completed", "exited")] == 1
        assert after["outlive_request_seconds_count", ("page", "get")] >= 1


def test_metrics_are_read_by_get_only(server: OutliveServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("POST", "/metrics")
    assert connection.getresponse().status == 405
    connection.close()
