"""/v1/processes: start, list, look, change, remove."""

import os
import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.rest.rest_caller import Answer, Query, RestCaller
from tests.support.processes import Gate, Marker, is_alive
from tests.support.rpc import connect
from tests.support.server import OutliveServer

_ALL = "/v1/processes"


@pytest.fixture
def group() -> str:
    """A group of the test's own: the server is shared."""
    return os.urandom(6).hex()


def _ids(answer: Answer) -> list[str]:
    return [process["process_id"] for process in answer.json["processes"]]


@pytest.mark.promise("R.start")
def test_a_start_answers_where_the_process_is(rest: RestCaller) -> None:
    answer = rest.call("POST", _ALL, {"command": "echo hello"}, expect=201)
    process = answer.json
    assert answer.headers["location"] == f"{_ALL}/{process['process_id']}"
    assert (process["command"], process["detached"], process["stdio"]) == ("echo hello", True, "pipes")
    assert is_alive(process["pid"]) or rest.wait(process["process_id"])
    ended = rest.wait(process["process_id"])
    assert (ended["status"], ended["state"], ended["exit_code"], ended["cursor"]) == (
        "completed",
        "exited",
        0,
        "6.0",
    )
    assert rest.call("GET", answer.headers["location"]).json == ended


@pytest.mark.promise("R.start")
def test_words_a_script_and_every_option_reach_the_command(rest: RestCaller, tmp_path: Path) -> None:
    words = rest.run(argv=["printf", "%s|", "a b", "$HOME", ""])
    assert rest.raw(words["process_id"]) == b"a b|$HOME||"
    script = rest.run(
        script="import os; print(os.getcwd(), os.environ['X'])",
        interpreter="python3",
        cwd=str(tmp_path),
        env={"X": "y", "HOME": None},
    )
    assert rest.raw(script["process_id"]).decode() == f"{tmp_path} y\n"
    merged = rest.run("echo 1; echo 2 >&2; echo 3", merge=True)
    assert (merged["stdio"], merged["cursor"]) == ("merge", "6.0")
    terminal = rest.run("stty size", pty=True, rows=31, cols=101)
    assert rest.raw(terminal["process_id"]) == b"31 101\r\n"
    limited = rest.run("sleep 60", timeout=0.2, grace=0.1, tags={"a": "b"}, group="g")
    assert (limited["status"], limited["tags"], limited["group"]) == ("timeout", {"a": "b"}, "g")
    flooding = rest.run("yes", output_limit=10_000, on_limit="kill")
    assert (flooding["status"], flooding["cause"]) == ("failed", "output_limit")
    daemon = rest.run("sleep 60 & echo on", after_exit="kill")
    assert rest.wait(daemon["process_id"], until="closed")["descendants"] == 0


@pytest.mark.promise("R.list")
def test_lists_are_filtered_by_state_tag_group_time_and_text(rest: RestCaller, group: str) -> None:
    first = rest.run("exit 3 # Needle", group=group, tags={"n": "1", "x": "a=b"})
    between = datetime.now(UTC).isoformat()
    second = rest.start("sleep 60 # needle", group=group, tags={"n": "2"})
    paused = rest.start("sleep 60", group=group)
    rest.call("POST", f"{_ALL}/{paused['process_id']}/control", {"action": "pause"})
    one, two, three = first["process_id"], second["process_id"], paused["process_id"]

    def listed(**query: Query) -> list[str]:
        return _ids(rest.call("GET", _ALL, group=group, **query))

    assert listed() == [three, two, one]
    assert listed(state="active") == [three, two]
    assert listed(state="paused") == [three]
    assert listed(state=["exited", "paused"]) == [three, one]
    assert listed(state=["ended", "running"]) == [two, one]
    assert listed(tag="n=1") == [one]
    assert listed(tag=["n=1", "x=a=b"]) == [one]
    assert listed(tag=["n=1", "x=c"]) == []
    assert listed(since=between) == [three, two]
    assert listed(until=between) == [one]
    assert listed(alive_since=between) == [three, two]
    assert listed(alive_since=first["ended_at"], until=between) == [one]
    for far, found in (("0001-01-02", [three, two, one]), ("9999-12-30", [three, two])):
        assert listed(alive_since=f"{far}T00:00:00Z") == found, "what lives, lives on"
    assert listed(q="NEEDLE") == [two, one]
    again = rest.run("exit 3 # Needle", group=group)["process_id"]
    assert listed(same_as=one) == [again, one]
    rest.call("GET", _ALL, same_as="no-such-name", expect=404)
    rest.call("DELETE", f"{_ALL}/{again}")
    assert listed(q="needle", state="ended") == [one]
    for process_id in (two, three):
        rest.call("DELETE", f"{_ALL}/{process_id}", force="true")


@pytest.mark.promise("R.list")
def test_pages_follow_each_other_by_cursor(rest: RestCaller, group: str) -> None:
    started = [rest.run("true", group=group)["process_id"] for _ in range(5)]
    seen: list[str] = []
    cursor: dict[str, Query] = {}
    while True:
        page = rest.call("GET", _ALL, group=group, limit=2, **cursor)
        seen += _ids(page)
        if page.json["next"] is None:
            break
        assert len(_ids(page)) == 2
        cursor = {"cursor": page.json["next"]}
    assert seen == started[::-1]


@pytest.mark.promise("S4.12.history")
def test_tags_and_group_change_while_it_runs_and_afterwards(rest: RestCaller, group: str) -> None:
    process = rest.start("sleep 60", tags={"keep": "1", "drop": "2"}, group=group)
    path = f"{_ALL}/{process['process_id']}"
    changed = rest.call("PATCH", path, {"tags": {"drop": None, "new": "3"}}).json
    assert (changed["tags"], changed["group"]) == ({"keep": "1", "new": "3"}, group)
    assert _ids(rest.call("GET", _ALL, group=group, tag="new=3")) == [process["process_id"]]
    rest.call("POST", f"{path}/control", {"action": "cancel", "grace": 0})
    rest.wait(process["process_id"], until="closed")
    assert rest.call("PATCH", path, {"group": None, "tags": None}).json["tags"] == {}
    assert rest.call("GET", path).json["group"] is None


@pytest.mark.promise("R.change")
def test_a_finished_process_is_removed_and_a_running_one_by_force_alone(
    rest: RestCaller, server: OutliveServer, marker: Marker
) -> None:
    process = rest.start(f"trap '' TERM; {marker.sleep}")
    path = f"{_ALL}/{process['process_id']}"
    assert rest.refused("DELETE", path, status=409)["slug"] == "process_running"
    assert rest.call("DELETE", path, force="true").json == {
        "process_id": process["process_id"],
        "removed": True,
    }
    assert marker.pids() == []
    ended = rest.run("echo secret")
    path = f"{_ALL}/{ended['process_id']}"
    rest.call("DELETE", path)
    assert rest.refused("GET", path, status=404)["slug"] == "process_not_found"
    assert rest.refused("DELETE", path, status=404)["slug"] == "process_not_found"
    assert not (server.state_dir / "processes" / ended["process_id"]).exists()


@pytest.mark.promise("R.key")
def test_a_start_with_a_key_is_done_once(rest: RestCaller, group: str) -> None:
    key = {"Idempotency-Key": os.urandom(8).hex()}
    body = {"command": "echo once", "group": group}
    first = rest.call("POST", _ALL, body, expect=201, headers=key)
    again = rest.call("POST", _ALL, body, expect=200, headers=key)
    assert again.json["process_id"] == first.json["process_id"]
    assert again.headers["location"] == first.headers["location"]
    assert len(_ids(rest.call("GET", _ALL, group=group))) == 1
    other = {"command": "echo twice", "group": group}
    assert rest.refused("POST", _ALL, other, status=422, headers=key)["slug"] == "key_reused"


@pytest.mark.promise("R.key")
def test_starts_with_one_key_at_the_same_time_start_one_process(rest: RestCaller, group: str) -> None:
    key = {"Idempotency-Key": os.urandom(8).hex()}
    together = threading.Barrier(8)
    found: list[Answer] = []

    def start() -> None:
        together.wait()
        found.append(rest.send("POST", _ALL, {"command": "true", "group": group}, headers=key))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in found) == [200] * 7 + [201]
    assert len({answer.json["process_id"] for answer in found}) == 1


async def test_what_is_private_to_a_connection_is_not_shown(
    rest: RestCaller, server: OutliveServer, gate: Gate
) -> None:
    async with connect(server.url) as client:
        private = (await client.execute(gate.wait, group="private"))["process_id"]
        assert rest.refused("GET", f"{_ALL}/{private}", status=404)["slug"] == "process_not_found"
        assert private not in _ids(rest.call("GET", _ALL, limit=1000))
        gate.open()
        await client.completed(private)


@pytest.mark.promise("R.problem")
@pytest.mark.parametrize(
    ("body", "slug"),
    [
        ({}, "invalid_params"),
        ({"command": "true", "argv": ["true"]}, "invalid_params"),
        ({"command": ""}, "invalid_params"),
        ({"command": "a\0b"}, "invalid_params"),
        ({"command": "\ud800"}, "invalid_params"),
        ({"argv": []}, "invalid_params"),
        ({"argv": "true"}, "invalid_params"),
        ({"command": "true", "timeout": "5"}, "invalid_params"),
        ({"command": "true", "timeout": 0}, "invalid_params"),
        ({"command": "true", "timout": 5}, "invalid_params"),
        ({"command": "true", "pty": True, "merge": True}, "invalid_params"),
        ({"command": "true", "env": {"A=B": "c"}}, "invalid_params"),
        ({"command": "true", "cwd": "/does/not/exist"}, "cwd_missing"),
        ({"argv": ["/does/not/exist"]}, "not_found"),
        ([], "invalid_params"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused(rest: RestCaller, body: object, slug: str) -> None:
    assert rest.refused("POST", _ALL, body, status=422)["slug"] == slug


@pytest.mark.parametrize(
    "query",
    ["state=gone", "tag=x", "since=soon", "limit=0", "limit=1001", "cursor=1", f"q={quote('x' * 1001)}"],
)
def test_a_filter_that_makes_no_sense_is_refused(rest: RestCaller, query: str) -> None:
    rest.refused("GET", f"{_ALL}?{query}", status=422)


@pytest.mark.promise("R.problem")
@pytest.mark.parametrize(
    ("method", "path", "headers", "place"),
    [
        ("GET", f"{_ALL}?limit=0", {}, "query.limit"),
        ("GET", f"{_ALL}?state=running&state=gone", {}, "query.state"),
        ("GET", f"{_ALL}?limit=null", {}, "query.limit"),
        ("GET", f"{_ALL}/{'x' * 257}", {}, "path.process_id"),
        ("GET", f"{_ALL}/web?project=here", {}, "query.project"),
        ("GET", f"{_ALL}/{'0' * 26}/wait?timeout=nan", {}, "query.timeout"),
        ("GET", f"{_ALL}/{'0' * 26}/output?raw=maybe", {}, "query.raw"),
        ("GET", f"{_ALL}/{'0' * 26}/follow", {"Last-Event-ID": "0" * 61}, "header.last-event-id"),
        ("POST", "/api/async/process/terminate_by_pid/", {}, "query.pid"),
        ("POST", "/api/async/process/terminate_by_pid/?pid=x", {}, "query.pid"),
    ],
)
def test_a_parameter_that_is_refused_is_named_with_its_place(
    rest: RestCaller, method: str, path: str, headers: dict[str, str], place: str
) -> None:
    problem = rest.refused(method, path, status=422, headers=headers)
    (error,) = problem["details"]["errors"]
    assert (problem["slug"], error["place"]) == ("invalid_params", place)
    assert problem["detail"] == f"{place}: {error['message']}"
    assert re.search(" is needed, not .|^it is missing", error["message"]), error


@pytest.mark.parametrize("word", ["short", "0" * 26, f"{'0' * 26}%0A", "p999999", "4194304", "web"])
def test_a_word_that_means_no_process_is_none(rest: RestCaller, word: str) -> None:
    assert rest.refused("GET", f"{_ALL}/{word}", status=404)["slug"] == "process_not_found"


def test_a_flag_is_said_in_any_usual_word_and_the_last_of_two_values_counts(rest: RestCaller) -> None:
    process = rest.start("sleep 60")
    path = f"{_ALL}/{process['process_id']}"
    for word in ("no", "off", "0", "False"):
        assert rest.refused("DELETE", f"{path}?force={word}", status=409)["slug"] == "process_running"
    rest.call("DELETE", f"{path}?force=no&force=Yes")


@pytest.mark.promise("R.problem")
@pytest.mark.parametrize("process_id", ["0" * 26, "7" + "z" * 25])
def test_an_unknown_process_is_a_problem_on_every_path(rest: RestCaller, process_id: str) -> None:
    path = f"{_ALL}/{process_id}"
    for method, rest_of_path, body in (
        ("GET", "", None),
        ("PATCH", "", {"group": "x"}),
        ("DELETE", "", None),
        ("GET", "/output", None),
        ("GET", "/follow", None),
        ("GET", "/wait", None),
        ("POST", "/control", {"action": "pause"}),
        ("POST", "/signal", {"signal": "INT"}),
        ("POST", "/resize", {"rows": 1, "cols": 1}),
        ("POST", "/stdin", b"x"),
    ):
        assert rest.refused(method, path + rest_of_path, body, status=404)["slug"] == "process_not_found"


def test_a_full_group_queues_the_next_start(rest: RestCaller, group: str, gate: Gate) -> None:
    first = rest.call("POST", _ALL, {"command": gate.wait, "group": group, "group_limit": 1}, expect=201).json
    second = rest.call("POST", _ALL, {"command": "exit 3", "group": group}, expect=201).json
    assert (second["state"], second["status"], second["pid"]) == ("queued", "running", None)
    refused = rest.call("POST", f"{_ALL}/{second['process_id']}/control", {"action": "pause"}, expect=409)
    assert refused.json["slug"] == "process_queued"
    assert _ids(rest.call("GET", _ALL, state="queued", group=group)) == [second["process_id"]]
    gate.open()
    assert rest.wait(first["process_id"])["exit_code"] == 0
    assert rest.wait(second["process_id"])["exit_code"] == 3
