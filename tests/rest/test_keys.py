"""POST /v1/processes with a key: the earlier process is answered, and nothing is started."""

from pathlib import Path

import pytest

from tests.rest.rest_caller import Query, RestCaller

_ALL = "/v1/processes"


@pytest.mark.promise("R.start.key")
def test_a_known_key_answers_200_and_the_earlier_process(rest: RestCaller, tmp_path: Path) -> None:
    body = {"command": "exit 3", "project": str(tmp_path), "key": "build"}
    first = rest.send("POST", _ALL, body)
    again = rest.send("POST", _ALL, body)
    assert (first.status, again.status) == (201, 200)
    assert again.json["process_id"] == first.json["process_id"]
    assert (again.json["short_id"], again.json["key"]) == ("p1", "build")
    refused = rest.refused("POST", _ALL, {**body, "command": "true"}, status=409)
    assert refused["slug"] == "key_taken"


@pytest.mark.promise("R.list")
def test_lists_are_filtered_by_project_key_and_short_id(rest: RestCaller, tmp_path: Path) -> None:
    one = rest.run("true", project=str(tmp_path), key="k")["process_id"]
    two = rest.run("true", project=str(tmp_path))["process_id"]

    def listed(**query: Query) -> list[str]:
        page = rest.call("GET", _ALL, project=str(tmp_path), **query)
        return [process["process_id"] for process in page.json["processes"]]

    assert listed() == [two, one]
    assert listed(key="k") == [one]
    assert listed(short_id="P2") == [two]
