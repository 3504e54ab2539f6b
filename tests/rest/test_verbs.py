"""What can be done to a process: control, signal, stdin, resize, wait."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.rest.rest_caller import RestCaller, events_of
from tests.support.fixtures import ServerFactory
from tests.support.processes import Gate, Marker


def _path(process: dict[str, str], verb: str) -> str:
    return f"/v1/processes/{process['process_id']}/{verb}"


def _ready(rest: RestCaller, process: dict[str, str]) -> None:
    """Wait until a command has written something."""
    with rest.stream(_path(process, "follow")) as response:
        assert next(events_of(response)).name == "output"


@pytest.mark.promise("R.verbs")
def test_pause_resume_and_cancel_reach_the_whole_tree(rest: RestCaller, marker: Marker) -> None:
    process = rest.start(f"setsid {marker.sleep} & echo ready; wait")
    _ready(rest, process)
    for action, state in (
        ("pause", "paused"),
        ("pause", "paused"),
        ("resume", "running"),
        ("resume", "running"),
    ):
        answer = rest.call("POST", _path(process, "control"), {"action": action}).json
        assert (answer["state"], answer["status"]) == (state, "running")
    rest.call("POST", _path(process, "control"), {"action": "cancel", "grace": 5})
    ended = rest.wait(process["process_id"])
    assert (ended["status"], ended["exit_code"], ended["error"]) == (
        "terminated",
        -15,
        "Cancelled by request.",
    )
    assert marker.pids() == []
    assert (
        rest.refused("POST", _path(process, "control"), {"action": "pause"}, status=409)["slug"]
        == "process_ended"
    )


@pytest.mark.promise("R.verbs")
@pytest.mark.parametrize("signal", ["INT", "sigint", 2])
def test_a_signal_is_sent_by_name_or_number(rest: RestCaller, signal: str | int) -> None:
    process = rest.start("trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.02; done")
    _ready(rest, process)
    rest.call("POST", _path(process, "signal"), {"signal": signal})
    assert rest.wait(process["process_id"])["exit_code"] == 7
    assert (
        rest.refused("POST", _path(process, "signal"), {"signal": "NONE"}, status=422)["slug"]
        == "invalid_params"
    )


@pytest.mark.promise("R.verbs")
def test_bytes_go_into_the_input_and_eof_closes_it(rest: RestCaller) -> None:
    process = rest.start("cat", stdin="pipe")
    data = bytes(range(256)) * 1000
    assert rest.call("POST", _path(process, "stdin"), data).json == {"written": len(data), "eof": False}
    assert rest.call("POST", _path(process, "stdin"), b"end", eof="true").json == {"written": 3, "eof": True}
    assert rest.wait(process["process_id"])["exit_code"] == 0
    assert rest.raw(process["process_id"]) == data + b"end"
    closed = rest.start("cat", stdin="pipe")
    assert rest.call("POST", _path(closed, "stdin"), eof="true").json == {"written": 0, "eof": True}
    assert rest.wait(closed["process_id"])["cursor"] == "0.0"
    without = rest.start("sleep 60")
    assert rest.refused("POST", _path(without, "stdin"), b"x", status=409)["slug"] == "stdin_closed"
    rest.call("DELETE", f"/v1/processes/{without['process_id']}", force="true")


@pytest.mark.promise("R.verbs")
def test_a_terminal_is_resized(rest: RestCaller) -> None:
    process = rest.start("read x; stty size", pty=True)
    rest.call("POST", _path(process, "resize"), {"rows": 44, "cols": 133})
    rest.call("POST", _path(process, "stdin"), b"\n")
    rest.wait(process["process_id"])
    assert rest.raw(process["process_id"]).endswith(b"44 133\r\n")
    without = rest.start("sleep 60")
    refused = rest.refused("POST", _path(without, "resize"), {"rows": 1, "cols": 1}, status=409)
    assert refused["slug"] == "no_terminal"
    rest.call("DELETE", f"/v1/processes/{without['process_id']}", force="true")


@pytest.mark.promise("R.verbs")
def test_a_wait_that_is_over_says_that_it_still_runs(rest: RestCaller, gate: Gate) -> None:
    process = rest.start(f"{gate.wait}; exit 4")
    answer = rest.call("GET", _path(process, "wait"), timeout=0.1).json
    assert (answer["timed_out"], answer["status"]) == (True, "running")
    gate.open()
    answer = rest.call("GET", _path(process, "wait"), timeout=20).json
    assert (answer["timed_out"], answer["status"], answer["exit_code"]) == (False, "failed", 4)


def test_a_wait_for_closed_streams_waits_for_what_was_left_running(rest: RestCaller, gate: Gate) -> None:
    process = rest.start(f"({gate.wait}) & echo main")
    ended = rest.wait(process["process_id"])
    assert (ended["completed"], ended["streams"]) == (True, "open")
    answer = rest.call("GET", _path(process, "wait"), timeout=0.1, until="closed").json
    assert answer["timed_out"]
    gate.open()
    assert rest.wait(process["process_id"], until="closed")["streams"] == "closed"


def test_streams_end_when_the_server_stops(serve: ServerFactory, marker: Marker) -> None:
    """At once, and the command lives on."""
    server = serve()
    rest = RestCaller(server.rest_url)
    process = rest.start(f"echo ready; {marker.sleep}")
    _ready(rest, process)
    with rest.stream(_path(process, "follow")) as response:
        events = events_of(response)
        assert next(events).name == "output"
        assert server.stop() == 0
        assert list(events) == []
    assert len(marker.pids()) == 1


@pytest.mark.promise("R.verbs")
def test_an_input_of_any_length_is_streamed(rest: RestCaller) -> None:
    """Larger than any body may be: 20 MiB go in where a request holds 16; announced, and in chunks."""
    data = bytes(range(256)) * 4096 * 20
    for headers in ({"Content-Length": str(len(data))}, {"Transfer-Encoding": "chunked"}):
        process = rest.start("sha256sum", stdin="pipe")
        parts = urlsplit(rest.url)
        connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        with contextlib.closing(connection):
            body: bytes | Iterator[bytes] = data
            if "Transfer-Encoding" in headers:
                body = (data[at : at + 100_000] for at in range(0, len(data), 100_000))
            connection.request(
                "POST",
                _path(process, "stdin") + "?eof=true",
                body,
                headers,
                encode_chunked="Transfer-Encoding" in headers,
            )
            response = connection.getresponse()
            answer = json.loads(response.read())
        assert (response.status, answer) == (200, {"written": len(data), "eof": True})
        rest.wait(process["process_id"])
        assert rest.raw(process["process_id"]).split()[0].decode() == hashlib.sha256(data).hexdigest()


@pytest.mark.promise("R.verbs")
def test_an_input_that_arrived_is_never_refused_because_its_reader_has_ended(rest: RestCaller) -> None:
    """The reader takes what it wants and leaves, now and then before the input is closed behind it."""
    for _ in range(40):
        process = rest.start("head -c 5", stdin="pipe")
        answer = rest.call("POST", _path(process, "stdin"), b"12345", eof="true")
        assert (answer.status, answer.json) == (200, {"written": 5, "eof": True})
        rest.wait(process["process_id"])
        assert rest.raw(process["process_id"]) == b"12345"
