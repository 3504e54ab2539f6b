"""What was written is read by cursor, by range, from the end, by a text; as JSON or as bytes; gaps are told."""

import base64
import hashlib

import pytest

from tests.rest.rest_caller import Query, RestCaller
from tests.support.processes import Gate


def _path(process: dict[str, str]) -> str:
    return f"/v1/processes/{process['process_id']}/output"


def _all(rest: RestCaller, process_id: str, **query: Query) -> bytes:
    """Read page by page."""
    data, cursor = b"", "0"
    while True:
        page = rest.output(process_id, cursor=cursor, encoding="base64", **query)
        data += b"".join(base64.b64decode(chunk["data"]) for chunk in page["chunks"])
        cursor = page["cursor"]
        if not page["more"]:
            return data


@pytest.mark.promise("R.output")
def test_pages_join_to_exactly_what_was_written(rest: RestCaller) -> None:
    process_id = rest.run("head -c 700000 /dev/urandom; head -c 300000 /dev/urandom >&2")["process_id"]
    streams = {stream: rest.raw(process_id, stream=stream) for stream in ("stdout", "stderr")}
    assert {name: len(data) for name, data in streams.items()} == {"stdout": 700_000, "stderr": 300_000}
    assert _all(rest, process_id) == rest.raw(process_id)
    for stream, data in streams.items():
        assert _all(rest, process_id, stream=stream, limit=99_999) == data


@pytest.mark.thorough
def test_a_character_is_whole_wherever_a_page_is_cut(rest: RestCaller) -> None:
    text = "aé€😀" * 50
    process_id = rest.run(f"printf %s '{text}'")["process_id"]
    for limit in range(1, 12):
        found, cursor = "", "0"
        while True:
            page = rest.output(process_id, cursor=cursor, limit=max(limit, 4))
            found += "".join(chunk["data"] for chunk in page["chunks"])
            cursor = page["cursor"]
            if not page["more"]:
                break
        assert found == text


def test_streams_come_in_the_order_of_writing(rest: RestCaller, gate: Gate) -> None:
    process_id = rest.start(f"echo 1; {gate.wait}; echo 2 >&2")["process_id"]
    while not rest.output(process_id)["chunks"]:
        pass
    gate.open()
    rest.wait(process_id)
    page = rest.output(process_id)
    assert [(chunk["type"], chunk["data"]) for chunk in page["chunks"]] == [
        ("stdout", "1\n"),
        ("stderr", "2\n"),
    ]
    assert (page["cursor"], page["more"], page["completed"]) == ("2.2", False, True)
    assert rest.output(process_id, cursor="2.0")["chunks"] == [{"type": "stderr", "data": "2\n", "end": 2}]
    assert rest.raw(process_id) == b"1\n2\n"


@pytest.mark.promise("R.output")
def test_a_range_of_one_stream_is_read_by_bytes(rest: RestCaller) -> None:
    process = rest.run("printf 0123456789; printf abc >&2")
    process_id = process["process_id"]
    assert rest.raw(process_id, stream="stdout", start=2, end=5) == b"234"
    assert rest.raw(process_id, stream="stdout", start=8) == b"89"
    assert rest.raw(process_id, stream="stderr", end=2) == b"ab"
    assert rest.raw(process_id, stream="stdout", start=2, limit=3) == b"234"
    page = rest.output(process_id, stream="stdout", start=2, end=5)
    assert page["chunks"] == [{"type": "stdout", "data": "234", "end": 5}]
    answer = rest.call("GET", _path(process), stream="stdout", headers={"Accept": "application/octet-stream"})
    assert (answer.body, answer.headers["outlive-cursor"]) == (b"0123456789", "10.0")
    for query in (
        {"start": 0},
        {"stream": "stdout", "start": 11},
        {"stream": "stdout", "start": 3, "end": 2},
    ):
        assert rest.refused("GET", _path(process), status=422, **query)["slug"] == "invalid_params"


@pytest.mark.promise("R.output")
def test_output_begins_at_any_position_of_both_streams_together(rest: RestCaller) -> None:
    """What a page of a browser draws: a window of a log of any size, wherever it is scrolled to."""
    line = "for n in $(seq 60); do echo out $n; sleep 0.005; echo err $n >&2; done"
    process = rest.run(line)

    def marked(**query: Query) -> list[tuple[str, str]]:
        page = rest.output(process["process_id"], limit=262144, **query)
        assert not page["more"]
        return [(chunk["type"], letter) for chunk in page["chunks"] for letter in chunk["data"]]

    whole = marked()
    assert len(whole) == 2 * sum(len(f"out {n}\n") for n in range(1, 61))
    for at in (0, 1, 5, 6, 7, 100, len(whole) // 2, len(whole) - 1, len(whole), len(whole) + 50):
        assert marked(at=at) == whole[at:], at
    for query in ({"at": -1}, {"at": 0, "cursor": "0"}, {"at": 0, "tail": 1}, {"at": 0, "grep": "x"}):
        assert rest.refused("GET", _path(process), status=422, **query)["slug"] == "invalid_params"


@pytest.mark.promise("R.output")
def test_the_tail_is_the_last_lines(rest: RestCaller) -> None:
    process_id = rest.run("seq 100000; printf unfinished")["process_id"]
    assert rest.raw(process_id, tail=2) == b"100000\nunfinished"
    assert rest.raw(process_id, tail=2, stream="stdout") == b"100000\nunfinished"
    assert rest.raw(process_id, tail=99_999, stream="stdout").startswith(b"3\n4\n")
    page = rest.output(process_id, tail=2, stream="stdout")
    assert page["chunks"][0]["data"] == "100000\nunfinished"
    both = rest.run("seq 5; seq 101 105 >&2")["process_id"]
    assert rest.raw(both, tail=3, stream="stderr") == b"103\n104\n105\n"
    assert rest.raw(both, tail=3, stream="stdout") == b"3\n4\n5\n"
    assert sorted(rest.raw(both, tail=10).split()) == sorted(rest.raw(both).split())


@pytest.mark.promise("R.output")
def test_lines_are_found_by_a_text(rest: RestCaller) -> None:
    process = rest.run("seq 1000; echo 'Error: 77' >&2")
    process_id = process["process_id"]
    found = rest.output(process_id, grep="77", context=1)
    lines = [match["line"] for match in found["matches"]]
    assert sorted(lines) == sorted([str(n) for n in range(1001) if "77" in str(n)] + ["Error: 77"])
    first = found["matches"][0]
    assert (first["line"], first["before"], first["after"]) == ("77", ["76"], ["78"])
    assert rest.raw(process_id, stream="stdout", start=first["offset"], end=first["end"]) == b"77"
    assert (found["more"], found["completed"], found["cursor"]) == (False, True, process["cursor"])
    assert [one["type"] for one in rest.output(process_id, grep="error", ignore_case="true")["matches"]] == [
        "stderr"
    ]
    assert rest.output(process_id, grep="error")["matches"] == []
    assert rest.output(process_id, grep="Error", stream="stdout")["matches"] == []


def test_a_search_goes_on_at_its_cursor(rest: RestCaller) -> None:
    process_id = rest.run("seq 1000")["process_id"]
    lines: list[str] = []
    cursor = "0"
    while True:
        page = rest.output(process_id, grep="5", matches=7, cursor=cursor)
        lines += [match["line"] for match in page["matches"]]
        cursor = page["cursor"]
        if not page["more"]:
            break
    assert lines == [str(n) for n in range(1001) if "5" in str(n)]


@pytest.mark.promise("R.output")
def test_released_output_is_told(rest: RestCaller) -> None:
    process = rest.run("seq 1000000", output_limit=100_000)
    assert process["gaps"]
    process_id = process["process_id"]
    chunks, cursor = [], "0"
    while True:
        page = rest.output(process_id, cursor=cursor)
        chunks += page["chunks"]
        cursor = page["cursor"]
        if not page["more"]:
            break
    (gap,) = [chunk for chunk in chunks if chunk.get("gap")]
    assert gap["type"] == "stdout"
    whole = "".join(f"{n}\n" for n in range(1, 1_000_001))
    head = "".join(chunk["data"] for chunk in chunks if "data" in chunk and chunk["end"] <= gap["from"])
    tail = "".join(chunk["data"] for chunk in chunks if "data" in chunk and chunk["end"] > gap["to"])
    assert (whole[: gap["from"]], whole[gap["to"] :]) == (head, tail)
    refused = rest.refused("GET", _path(process), status=410, format="raw")
    place = {"type": "stdout", "from": gap["from"], "to": gap["to"]}
    assert (refused["slug"], refused["details"]) == ("cursor_expired", {"gaps": [place]})
    answer = rest.call("GET", _path(process), format="raw", skip_gaps="true")
    assert answer.body.decode() == head + tail
    assert answer.headers["outlive-gaps"] == f"stdout={gap['from']}-{gap['to']}"


def test_a_running_process_is_read_up_to_now(rest: RestCaller, gate: Gate) -> None:
    process = rest.start(f"echo one; {gate.wait}; echo two")
    process_id = process["process_id"]
    page = rest.output(process_id)
    while not page["chunks"]:
        page = rest.output(process_id)
    assert (page["cursor"], page["more"], page["completed"]) == ("4.0", False, False)
    assert rest.output(process_id, cursor="4.0")["chunks"] == []
    gate.open()
    rest.wait(process_id)
    assert rest.raw(process_id, cursor="4.0") == b"two\n"


def test_many_megabytes_come_as_bytes_unchanged(rest: RestCaller) -> None:
    process_id = rest.run("seq 3000000")["process_id"]
    wanted = hashlib.sha256("".join(f"{n}\n" for n in range(1, 3_000_001)).encode()).hexdigest()
    assert hashlib.sha256(rest.raw(process_id)).hexdigest() == wanted
    assert hashlib.sha256(rest.raw(process_id, stream="stdout")).hexdigest() == wanted


@pytest.mark.parametrize(
    "query",
    [
        {"cursor": "x"},
        {"cursor": "99.0"},
        {"cursor": "0", "tail": 1},
        {"tail": 0},
        {"grep": ""},
        {"grep": "a\nb"},
        {"grep": "a", "tail": 1},
        {"limit": 0},
        {"stream": "stdin"},
        {"encoding": "latin-1"},
        {"format": "raw", "limit": 5},
        {"context": 101, "grep": "a"},
    ],
)
def test_what_makes_no_sense_is_refused(rest: RestCaller, query: dict[str, Query]) -> None:
    process = rest.run("echo hello")
    assert rest.refused("GET", _path(process), status=422, **query)["slug"] in {
        "invalid_params",
        "invalid_cursor",
    }
