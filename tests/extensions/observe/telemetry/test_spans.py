"""Spans of a real server at a real collector: whose child they are, and what they survive."""

import json
import subprocess
from functools import partial
from pathlib import Path

import anyio
import pytest

from outlive.client import Client, Output, Process
from tests.extensions.fleet.pairs import Pair
from tests.extensions.observe.telemetry.collector import Collector, TakenSpan, poll
from tests.extensions.observe.telemetry.conftest import Observed
from tests.mcp_http.modern_caller import ModernCaller
from tests.mcp_http.raw_caller import RawCaller, request
from tests.support.processes import Gate, wait_file
from tests.support.rpc import connect
from tests.support.server import OutliveServer, outlive_command

_TRACE, _PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_TRACEPARENT = f"00-{_TRACE}-{_PARENT}-01"
_OTHER = f"00-{'a' * 32}-{'b' * 16}-01"
_ERROR = 2  # opentelemetry-proto, Status.StatusCode
_INTERNAL = 1  # the same, Span.SpanKind


def _client(server: OutliveServer) -> Client:
    return Client(server.state_dir, start_server=False)


def _start_over_rest(server: OutliveServer, command: str, **headers: str) -> str:
    answer = request(
        f"{server.rest_url}/v1/processes",
        "POST",
        body=json.dumps({"command": command}).encode(),
        headers={"Content-Type": "application/json", **headers},
    )
    assert answer.status == 201, answer
    return str(answer.json["process_id"])


def _said(process: Process) -> str:
    """Return a command's output once it has ended."""
    process.wait()
    return b"".join(item.data for item in process.read().items if isinstance(item, Output)).decode().strip()


def _parents(spans: list[TakenSpan]) -> set[tuple[str, str]]:
    return {(span.trace_id, span.parent_id) for span in spans}


@pytest.mark.promise("O.span")
def test_a_command_is_one_span_from_its_start_to_its_end(observed: Observed, collector: Collector) -> None:
    server = observed(OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test", OTEL_SERVICE_NAME="runner")
    with _client(server) as client:
        process = client.start("echo a; exit 3")
        info = process.wait()
        (span,) = collector.came()
        client.start(["true"]).wait()
        second = collector.came(2)[1]
    assert (span.name, span.kind, span.status) == ("echo", _INTERNAL, _ERROR)
    assert span.parent_id == ""
    assert span.attributes["process.exit.code"] == 3
    assert span.attributes["process.executable.name"] == "bash"
    assert span.attributes["error.type"] == "3"
    assert span.attributes["process.pid"] == info.pid
    assert span.attributes["outlive.process_id"] == process.process_id
    assert span.attributes["outlive.stdout_bytes"] == 2
    assert info.started_at is not None
    assert info.ended_at is not None
    # Protobuf has nanoseconds, a datetime microseconds.
    assert span.begun_ns // 1000 == round(info.started_at.timestamp() * 10**6)
    assert span.ended_ns // 1000 == round(info.ended_at.timestamp() * 10**6)
    assert span.resource["service.name"] == "runner"
    assert span.resource["deployment.environment.name"] == "test"
    assert (second.name, second.status) == ("true", 0)
    assert "error.type" not in second.attributes
    assert second.trace_id != span.trace_id


@pytest.mark.promise("O.parent")
def test_over_rest_the_parent_is_in_a_header(observed: Observed, collector: Collector) -> None:
    server = observed()
    _start_over_rest(server, "true", traceparent=_TRACEPARENT)
    assert _parents(collector.came()) == {(_TRACE, _PARENT)}
    _start_over_rest(server, "true", Traceparent="00-junk-01")
    assert collector.came(2)[1].parent_id == ""


@pytest.mark.thorough
@pytest.mark.promise("O.parent")
def test_over_mcp_a_message_names_its_parent_or_else_its_request_does(
    observed: Observed, collector: Collector
) -> None:
    """SEP-414: `_meta` of the params. Calls with members that are not ours take the SDK's way."""
    server = observed()
    caller = RawCaller.begin(server.mcp_url)
    metas: list[dict[str, object]] = [
        {"traceparent": _TRACEPARENT, "tracestate": "vendor=1"},
        {"traceparent": _TRACEPARENT, "example.org/other": 1},
    ]
    for number, meta in enumerate(metas):
        for official in (False, True):
            params = {"name": "run", "arguments": {"command": f"true {number}"}, "_meta": meta}
            message = {
                "jsonrpc": "2.0",
                "id": f"{number}{official}",
                "method": "tools/call",
                "params": params,
            }
            answer = caller.post(message, headers={"traceparent": _OTHER}, official=official)
            assert not answer.json["result"]["isError"], answer
    ModernCaller(server.mcp_url, meta={"traceparent": _TRACEPARENT}).call("run", command="true modern")
    assert _parents(collector.came(5)) == {(_TRACE, _PARENT)}
    RawCaller.begin(server.mcp_url, {"traceparent": _OTHER}).call("run", command="true")
    ModernCaller(server.mcp_url, headers={"traceparent": _OTHER}).call("run", command="true modern")
    assert _parents(collector.came(7)[5:]) == {("a" * 32, "b" * 16)}


@pytest.mark.promise("O.parent")
async def test_over_jsonrpc_it_is_a_member_of_execute(observed: Observed, collector: Collector) -> None:
    server = await anyio.to_thread.run_sync(observed)
    async with connect(server.url) as rpc:
        await rpc.run("true", traceparent=_TRACEPARENT)
        await rpc.run("true", traceparent="junk")
    spans = await anyio.to_thread.run_sync(collector.came, 2)
    assert [span.parent_id for span in spans] == [_PARENT, ""]


@pytest.mark.promise("O.parent")
def test_the_command_line_and_the_client_say_it_by_their_environment(
    observed: Observed, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = observed()
    monkeypatch.setenv("TRACEPARENT", _TRACEPARENT)
    subprocess.run(
        [*outlive_command(), "run", "--state-dir", str(server.state_dir), "--", "true"],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    with _client(server) as client:
        client.start("true").wait()
        client.start("true", traceparent=_OTHER).wait()
    assert [span.parent_id for span in collector.came(3)] == [_PARENT, _PARENT, "b" * 16]


@pytest.mark.promise("O.parent")
def test_on_a_node_a_command_is_a_span_below_the_one_here(collector: Collector, tmp_path: Path) -> None:
    """Both servers send; the process has one id on both, and a span of its own on each."""
    sends = ("--otlp-endpoint", collector.url)
    with Pair(tmp_path, near_args=sends, far_args=sends) as pair, pair.client() as client:
        client.start("true", backend="far", traceparent=_TRACEPARENT).wait()
        spans = collector.came(2)
    here = next(span for span in spans if span.attributes["outlive.backend"] == "far")
    there = next(span for span in spans if span.attributes["outlive.backend"] == "local")
    assert (here.trace_id, here.parent_id) == (_TRACE, _PARENT)
    assert (there.trace_id, there.parent_id) == (_TRACE, here.span_id)
    assert here.resource["service.instance.id"] != there.resource["service.instance.id"]


@pytest.mark.promise("O.child")
def test_a_command_learns_its_span_only_where_the_operator_wants_that(
    observed: Observed, collector: Collector
) -> None:
    """The server was itself started within a span, and has a key for its collector: neither is a command's
    business.
    """
    own = {"TRACEPARENT": _OTHER, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=hunter2"}
    says = "env | grep -E '^(TRACEPARENT|OTEL_EXPORTER_OTLP_HEADERS)=' || true"
    with _client(observed(**own)) as client:
        assert _said(client.start(says, env={"A": "1"})) == ""
        assert _said(client.start(says)) == ""
    with _client(observed("--pass-traceparent", **own)) as client:
        process = client.start(says, traceparent=_TRACEPARENT)
        text = _said(process)
        mine = _said(client.start(says, env={"TRACEPARENT": "mine"}))
    span = next(
        span for span in collector.came(4) if span.attributes["outlive.process_id"] == process.process_id
    )
    assert text == f"TRACEPARENT=00-{_TRACE}-{span.span_id}-01"
    assert mine == "TRACEPARENT=mine"
    assert collector.headers[0]["authorization"] == "hunter2"


@pytest.mark.promise("O.survives")
async def test_after_a_kill_the_next_server_sends_the_span_with_the_same_parent(
    observed: Observed, collector: Collector, gate: Gate
) -> None:
    """One command ends while no server runs, one afterwards.

    Of one that ended before only a background job was left.
    """
    server = await anyio.to_thread.run_sync(observed)
    after = Gate(gate.path.with_name("after"))
    ids = [
        await anyio.to_thread.run_sync(partial(_start_over_rest, server, line, traceparent=_TRACEPARENT))
        for line in (f"{gate.wait}; exit 7", f"{after.wait}; exit 8", f"({after.wait}) & {gate.wait}; exit 9")
    ]
    await anyio.to_thread.run_sync(server.kill)
    gate.open()
    for process_id in (ids[0], ids[2]):
        await wait_file(server.state_dir / "processes" / process_id / "done")
    assert collector.spans == []
    await anyio.to_thread.run_sync(server.start)
    await anyio.to_thread.run_sync(collector.came, 2)
    after.open()
    spans = await anyio.to_thread.run_sync(collector.came, 3)
    assert _parents(spans) == {(_TRACE, _PARENT)}
    codes = {span.attributes["outlive.process_id"]: span.attributes["process.exit.code"] for span in spans}
    assert codes == dict(zip(ids, (7, 8, 9), strict=True))
    assert len({span.span_id for span in spans}) == 3


@pytest.mark.promise("O.survives")
def test_spans_that_no_collector_took_before_a_kill_are_sent_by_the_next_server(
    observed: Observed, collector: Collector
) -> None:
    collector.status = 503
    server = observed(OTEL_EXPORTER_OTLP_TIMEOUT="0.2")
    with _client(server) as client:
        processes = [client.start(f"exit {code}") for code in (0, 1)]
        for process in processes:
            process.wait()
    ids = [process.process_id for process in processes]
    collector.asked(1)
    poll(lambda: all(one.encode() in (server.state_dir / "spans").read_bytes() for one in ids))
    server.kill()
    collector.status = 200
    server.start()
    assert [span.attributes["outlive.process_id"] for span in collector.came(2)] == ids
    poll(lambda: b"settled" in (server.state_dir / "spans").read_bytes().splitlines()[-1])
    server.restart()
    with _client(server) as client:
        last = client.start("true").process_id
    # What a collector has taken is not sent again, though its end lies within what is looked at anew.
    assert [span.attributes["outlive.process_id"] for span in collector.came(3)] == [*ids, last]


@pytest.mark.thorough
@pytest.mark.promise("O.survives")
def test_no_kill_changes_the_ids_of_a_span_or_loses_one(observed: Observed, collector: Collector) -> None:
    """Commands of all lengths, and a server that is killed again and again while they run, end, and are
    sent.
    """
    server = observed(OTEL_BSP_SCHEDULE_DELAY=20)
    ids = set()
    for _ in range(4):
        with _client(server) as client:
            ids |= {client.start(f"sleep 0.{tenth}").process_id for tenth in range(0, 10, 2)}
        server.restart()
    poll(lambda: {span.attributes["outlive.process_id"] for span in list(collector.spans)} == ids)
    spans = collector.spans
    by_process = {(span.attributes["outlive.process_id"], span.trace_id, span.span_id) for span in spans}
    assert {process_id for process_id, _, _ in by_process} == ids
    assert len(by_process) == len(ids)


@pytest.mark.promise("O.secret")
def test_nothing_that_is_sent_holds_a_secret(observed: Observed, collector: Collector) -> None:
    """An attack on everything that leaves the server: bodies and heads of all its requests, and what waits on
    disk.
    """
    server = observed()
    secrets = [f"hunter{number}" for number in range(2, 9)]
    with _client(server) as client:
        client.start(
            f"TOKEN={secrets[0]} echo {secrets[1]} --password={secrets[2]}",
            env={"DEPLOY_KEY": secrets[3]},
            env_secrets={"API_TOKEN": secrets[4]},
            tags={"customer": secrets[5]},
            cwd="/tmp",
            title=None,
        ).wait()
        client.start(["printf", "%s", secrets[6]], env_secrets={"API_TOKEN": secrets[4]}).wait()
    spans = collector.came(2)
    assert [span.name for span in spans] == ["echo", "printf"]
    collector.metric("outlive.starts", least=2)
    sent = b"".join(collector.bodies) + repr(collector.headers).encode()
    sent += (server.state_dir / "spans").read_bytes()
    assert [one for one in secrets if one.encode() in sent] == []


@pytest.mark.promise("O.secret")
def test_whole_commands_are_sent_redacted_where_the_operator_wants_them(
    observed: Observed, collector: Collector
) -> None:
    key = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
    with _client(observed("--otlp-command-lines")) as client:
        client.start(f"echo two words {key}").wait()
    line = collector.came()[0].attributes["process.command_line"]
    assert line.startswith("echo two words ")
    assert "4eC39" not in line


def test_what_the_sampler_does_not_want_is_not_sent(observed: Observed, collector: Collector) -> None:
    server = observed(OTEL_TRACES_SAMPLER="parentbased_always_off")
    _start_over_rest(server, "true")
    _start_over_rest(server, "true", traceparent=_TRACEPARENT[:-1] + "0")
    _start_over_rest(server, "true", traceparent=_TRACEPARENT)
    assert _parents(collector.came()) == {(_TRACE, _PARENT)}
    assert len(collector.spans) == 1


@pytest.mark.promise("O.metrics")
def test_metrics_say_the_same_as_the_page_for_prometheus(
    observed: Observed, collector: Collector, gate: Gate
) -> None:
    server = observed()
    with _client(server) as client:
        client.start("echo four; exit 1").wait()
        client.start(gate.wait, group="one", group_limit=1)
        client.start("true", group="one")
        collector.metric("outlive.processes", "queued")
        assert collector.metric("outlive.processes", "running") == 1
        assert collector.metric("outlive.starts", least=2) == 2
        assert collector.metric("outlive.exits", "exited", "none", "failed") == 1
        assert collector.metric("outlive.output", "stdout") == 5
        count, total_s, buckets = collector.metric("outlive.process_duration")
        assert (count, sum(buckets)) == (1, 1)
        assert total_s > 0
        text = request(f"{server.rest_url}/metrics", "GET").body.decode()
        gate.open()
    for line in (
        'outlive_processes{state="queued"} 1.0',
        "outlive_starts_total 2.0",
        'outlive_exits_total{cause="none",outcome="failed",state="exited"} 1.0',
        'outlive_output_bytes_total{stream="stdout"} 5.0',
        "outlive_process_duration_seconds_count 1.0",
    ):
        assert (
            line in text or line.replace('cause="none",state="exited"', 'state="exited",cause="none"') in text
        )
