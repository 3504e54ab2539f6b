"""/v1/search, from outside: what is found in the output of all processes, by whom, and when it ends."""

import json
import os
import time
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

import pytest

from tests.attacks.attacking import create_token
from tests.rest.rest_caller import Json, Query, RestCaller
from tests.support.processes import cpu_ticks
from tests.support.server import OutliveServer


def found(rest: RestCaller, text: str, **query: Query) -> list[Json]:
    """Return the lines of an answer."""
    answer = rest.call("GET", "/v1/search", text=text, **query)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.body.splitlines()]


def matches(lines: list[Json]) -> list[Json]:
    return [line["match"] for line in lines if "match" in line]


def texts(rest: RestCaller, text: str, **query: Query) -> list[str]:
    return [one["line"] for one in matches(found(rest, text, **query))]


@pytest.mark.promise("R.search")
def test_all_output_is_searched_newest_first_by_text_and_by_pattern(rest: RestCaller) -> None:
    old = rest.run("echo zebra one; echo other; echo Zebra two >&2", name="old", group="zoo", project="/zoo")
    new = rest.run("seq 3; echo zebra.three; seq 4 6", tags={"kind": "new"})
    assert texts(rest, "zebra") == ["zebra.three", "zebra one"]
    assert texts(rest, "zebra", ignore_case="true") == ["zebra.three", "zebra one", "Zebra two"]
    assert texts(rest, "zebra.", group="zoo") == []
    assert texts(rest, r"^zebra\b.(one|t)", regex="true") == ["zebra.three", "zebra one"]
    assert texts(rest, "zebra", project="/zoo", ignore_case="true") == ["zebra one", "Zebra two"]
    assert texts(rest, "zebra", project="/zoo", ignore_case="true", each=1) == ["zebra one"]
    assert texts(rest, "zebra", tag="kind=new") == ["zebra.three"]
    assert texts(rest, "zebra", process_id="old", project="/zoo") == ["zebra one"]
    match, searched, end = found(rest, "zebra.", context=2)
    (one,) = matches([match])
    assert (one["before"], one["after"]) == (["2", "3"], ["4", "5"])
    assert (one["process_id"], one["type"], one["offset"], one["at"]) == (new["process_id"], "stdout", 6, 6)
    assert searched["searched"]["processes"] >= 2
    assert end == {"next": None, "why": "all"}
    # A match leads to its byte.
    (last,) = [one for one in matches(found(rest, "Zebra")) if one["process_id"] == old["process_id"]]
    page = rest.output(old["process_id"], at=last["at"])
    assert page["chunks"][0]["data"].startswith("Zebra two")


@pytest.mark.promise("R.search")
def test_a_search_that_reached_its_limit_goes_on_where_it_ended(rest: RestCaller) -> None:
    for _ in range(3):
        rest.run("for n in 1 2 3 4 5; do echo pager-$n; echo pager+$n >&2; done", group="pages")
    whole = [(one["process_id"], one["line"]) for one in matches(found(rest, "pager", group="pages"))]
    assert len(whole) == 30
    pages: list[tuple[str, str]] = []
    cursor: Query = {}
    while True:
        lines = found(rest, "pager", group="pages", limit=4, **cursor)
        pages += [(one["process_id"], one["line"]) for one in matches(lines)]
        if lines[-1]["next"] is None:
            break
        assert lines[-1]["why"] == "limit"
        cursor = {"cursor": lines[-1]["next"]}
    assert pages == whole


@pytest.mark.promise("R.search")
def test_a_search_finds_no_secret_and_nothing_of_another_principal(own_server: OutliveServer) -> None:
    """The attacks: to ask for what is hidden, and for what belongs to another."""
    rest = RestCaller(own_server.rest_url)
    token = "ghp_" + "aB3xY9kQ2mN7vR4tW8zL5cD1fG6hJ0pS3uE2"
    value = "correct horse battery"
    rest.run(f'echo "key {token} here"; echo "pass $PASS here"; echo plain here', env_secrets={"PASS": value})
    assert texts(rest, " here") == [f"key ghp_{'*' * 36} here", f"pass {'*' * len(value)} here", "plain here"]
    for text in (token, token[4:10], value, value[:7], value[-7:]):
        assert texts(rest, text) == [], text
        assert texts(rest, text, ignore_case="true") == []
    for text in ("ghp_[a-z]", "ghp_a", "pass c", "pass [^*]", "key ghp_[^*]"):
        assert texts(rest, text, regex="true") == [], text
    other = {"Authorization": f"Bearer {create_token(own_server)}"}
    answer = rest.call("GET", "/v1/search", text="here", headers=other)
    assert matches([json.loads(line) for line in answer.body.splitlines()]) == []


@pytest.mark.promise("R.search")
@pytest.mark.parametrize(
    "query",
    [
        {"text": ""},
        {"text": "a\nb"},
        {"text": "(", "regex": "true"},
        {"text": "x", "cursor": "nonsense"},
        {"text": "x", "limit": 0},
        {"text": "x", "context": 1000},
        {},
    ],
)
def test_a_search_that_makes_no_sense_is_refused(rest: RestCaller, query: Query) -> None:
    answer = rest.send("GET", "/v1/search", **query)
    assert answer.status == 422
    assert answer.json["hint"]


@pytest.mark.thorough
@pytest.mark.promise("R.search")
def test_when_the_caller_leaves_the_server_reads_no_more(own_server: OutliveServer) -> None:
    """A log of 60 GB, which takes a minute, a caller that hangs up after the first line, and what the kernel
    counts.
    """
    rest = RestCaller(own_server.rest_url)
    process_id = rest.run("echo begin")["process_id"]
    os.truncate(own_server.state_dir / "processes" / process_id / "out", 60 * 1024**3)  # holes are read, too
    parts = urlsplit(own_server.rest_url)
    assert parts.hostname
    connection = HTTPConnection(parts.hostname, parts.port, timeout=30)
    connection.request("GET", f"/v1/search?{urlencode({'text': 'zqxj'})}")
    answer = connection.getresponse()
    assert answer.readline().startswith(b'{"searched"')
    connection.close()
    answer.close()
    # Looks a moment apart, until no time was spent in between: long before the log's end.
    deadline = time.monotonic() + 15
    before, now = -1, cpu_ticks(own_server.pid)
    while now - before > 2:
        assert time.monotonic() < deadline
        time.sleep(0.5)
        before, now = now, cpu_ticks(own_server.pid)


def test_callers_that_ask_for_plain_text_get_the_same_lines_as_that(rest: RestCaller) -> None:
    """Clients that a generator has made know no other type for what is no document."""
    answer = rest.call("GET", "/v1/search", text="nowhere", headers={"Accept": "text/plain"})
    assert answer.headers["content-type"].startswith("text/plain")
    assert b'"next":null' in answer.body
