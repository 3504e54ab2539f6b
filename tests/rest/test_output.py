"""What was written is read by cursor, by range, from the end, by a text; as JSON or as bytes.

Gaps are told.
"""

import base64
import hashlib
import json
from datetime import datetime
from itertools import pairwise

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
        {"line": 0},
        {"line": 2, "at": 3},
        {"since": "yesterday"},
        {"since": "2026-01-31T12:00:00Z", "grep": "x"},
        {"times": "true", "stream": "stdout"},
    ],
)
def test_what_makes_no_sense_is_refused(rest: RestCaller, query: dict[str, Query]) -> None:
    process = rest.run("echo hello")
    assert rest.refused("GET", _path(process), status=422, **query)["slug"] in {
        "invalid_params",
        "invalid_cursor",
    }


@pytest.mark.promise("R.output.times")
def test_pieces_say_when_they_were_written_and_a_page_begins_at_a_time(rest: RestCaller) -> None:
    process = rest.run("echo one; sleep 0.5; echo two >&2; sleep 0.5; echo three")
    page = rest.output(process["process_id"], times="true")
    texts = [chunk["data"] for chunk in page["chunks"]]
    assert (texts, page["at"]) == (["one\n", "two\n", "three\n"], 0)
    times = [datetime.fromisoformat(chunk["time"]) for chunk in page["chunks"]]
    for before, after in pairwise(times):
        assert 0.3 < (after - before).total_seconds() < 5
    late = rest.output(process["process_id"], times="true", since=page["chunks"][2]["time"])
    assert ([chunk["data"] for chunk in late["chunks"]], late["at"]) == (["three\n"], 8)
    plain = rest.output(process["process_id"])
    assert "time" not in plain["chunks"][0]
    assert "at" not in plain


@pytest.mark.promise("R.output.lines")
def test_a_page_begins_at_a_line_of_either_stream(rest: RestCaller) -> None:
    process_id = rest.run("seq 300000; printf end")["process_id"]
    for line in (1, 2, 777, 299_999, 300_000):
        page = rest.output(process_id, line=line, limit=100, times="true")
        assert page["chunks"][0]["data"].split("\n")[0] == str(line)
        assert page["at"] == sum(len(str(n)) + 1 for n in range(1, line))
    assert rest.output(process_id, line=300_001)["chunks"][0]["data"] == "end"
    assert rest.output(process_id, line=400_000)["chunks"] == []
    both = rest.run("for n in $(seq 50); do echo $n; sleep 0.01; echo e$n >&2; done")["process_id"]
    shown = "".join(chunk["data"] for chunk in rest.output(both)["chunks"]).splitlines()
    for line in (1, 2, 51, 100):
        page = rest.output(both, line=line)
        assert "".join(chunk["data"] for chunk in page["chunks"]).splitlines() == shown[line - 1 :]


@pytest.mark.promise("R.output.lines")
def test_a_match_says_where_it_is_among_both_streams(rest: RestCaller) -> None:
    process_id = rest.run("for n in $(seq 40); do echo out$n; sleep 0.005; echo err$n >&2; done")[
        "process_id"
    ]
    for match in (
        rest.output(process_id, grep="r3")["matches"] + rest.output(process_id, grep="ut3")["matches"]
    ):
        page = rest.output(process_id, at=match["at"])
        assert page["chunks"][0]["data"].startswith(match["line"])
        assert page["chunks"][0]["type"] == match["type"]


@pytest.mark.promise("R.output.clean")
def test_clean_output_has_no_escape_sequence_and_of_a_progress_bar_its_end(rest: RestCaller) -> None:
    line = r"printf '\033[31mred\033[0m\n10%%\r50%%\r100%%\n'; printf 'gr\303\274n \033]0;title\007end'"
    process_id = rest.run(line)["process_id"]
    answer = rest.call("GET", f"/v1/processes/{process_id}/output", format="clean")
    assert answer.body.decode() == "red\n100%\ngrün end"
    assert answer.headers["content-type"].startswith("text/plain")
    much = rest.run("seq 200000 | sed 's/.*/\\x1b[1m&\\x1b[0m/'")["process_id"]
    answer = rest.call("GET", f"/v1/processes/{much}/output", format="clean")
    assert answer.body == "".join(f"{n}\n" for n in range(1, 200_001)).encode()


@pytest.mark.promise("R.output.asciicast")
def test_a_terminals_output_is_had_as_a_recording(rest: RestCaller) -> None:
    command = r"stty -echo; read go; printf 'gr\303'; sleep 0.3; printf '\274n'; sleep 0.3; stty size"
    process_id = rest.start(command, pty=True, stdin="pipe")["process_id"]
    rest.call("POST", f"/v1/processes/{process_id}/resize", {"rows": 30, "cols": 100})
    rest.call("POST", f"/v1/processes/{process_id}/stdin", b"go\n")
    rest.wait(process_id)
    answer = rest.call("GET", f"/v1/processes/{process_id}/output", format="asciicast")
    assert answer.headers["content-type"] == "application/x-asciicast"
    header, *events = [json.loads(line) for line in answer.body.splitlines()]
    assert (header["version"], header["width"], header["height"]) == (2, 100, 30)
    said = "".join(text for _, kind, text in events if kind == "o")
    assert said.removeprefix("go\r\n") == "grün30 100\r\n"  # echoed where it was typed before `stty`
    times = [seconds for seconds, _, _ in events]
    assert times == sorted(times)
    assert 0.4 < times[-1] < 10
    page = rest.output(process_id, times="true")
    assert page["sizes"] == [{"at": 0, "rows": 30, "cols": 100}]
