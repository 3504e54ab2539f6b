"""One word for a process means the same at every door, and a name belongs to one process that lives."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as dial

from outlive.client import Client, OutliveError
from tests.docs.wire import Wire
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.processes import Gate
from tests.support.server import OutliveServer, run_outlive

# Returns the id of the process that a word means there; the slug of the refusal where it means none.
Finder = Callable[[str], str]


def _name() -> str:
    return "n-" + os.urandom(6).hex()


@pytest.fixture(scope="module")
def finders(server: OutliveServer) -> Iterator[dict[str, Finder]]:
    """Every door, asked for a process of no project."""
    tools, rest = RawCaller.begin(server.mcp_url), RestCaller(server.rest_url)

    def by_rest(word: str) -> str:
        answer = rest.send("GET", f"/v1/processes/{word}")
        return str(answer.json["process_id"] if answer.status == 200 else answer.json["slug"])

    def by_tool(word: str) -> str:
        result = tools.call("wait", ids=[word], wait_s=0).json["result"]
        text = result["content"][0]["text"]
        if result["isError"]:
            return "process_ambiguous" if "may be any of" in text else "process_not_found"
        # `wait` shows the short id; REST knows whose that is.
        return by_rest(text.split()[0].strip("["))

    def by_socket(word: str) -> str:
        address = f"{server.rest_url.replace('http', 'ws', 1)}/ws/terminal/{word}"
        try:
            with dial(address, subprotocols=["outlive.terminal.v1"]) as socket:  # type: ignore[list-item] # a NewType
                return str(json.loads(str(socket.recv(timeout=20)))["process_id"])
        except InvalidStatus as error:
            return str(json.loads(error.response.body or b"{}")["error"])

    with Wire.dialled(server.url) as wire, Client(server.state_dir, start_server=False) as client:

        def by_rpc(word: str) -> str:
            answer = wire.call("get", process_id=word)
            return str(answer["data"]["reason"] if "code" in answer else answer["process_id"])

        def by_client(word: str) -> str:
            try:
                return client.get(word).process_id
            except OutliveError as error:
                return error.code

        yield {
            "jsonrpc": by_rpc,
            "rest": by_rest,
            "mcp": by_tool,
            "terminal": by_socket,
            "client": by_client,
        }


@pytest.mark.promise("W.names")
def test_every_door_takes_every_name_of_a_process(
    server: OutliveServer, finders: dict[str, Finder], gate: Gate
) -> None:
    name = _name()
    with Client(server.state_dir, start_server=False) as client:
        process = client.start(gate.wait, name=name)
        info = process.info()
        view = RestCaller(server.rest_url).send("GET", f"/v1/processes/{process.process_id}").json
        assert (info.name, view["name"]) == (name, name)
        words = [process.process_id, name, info.short_id or "", process.process_id[-6:], "@last"]
        # To a model's tools a number is a short id (promise S4.13.lenient): a pid means nothing there.
        by_pid = {door: find for door, find in finders.items() if door != "mcp"}
        for word, asked in (*((word, finders) for word in words), (str(process.pid), by_pid)):
            found = {door: find(word) for door, find in asked.items()}
            assert found == dict.fromkeys(asked, process.process_id), word
        gate.open()
        process.wait(20)
        # What has ended keeps its name, and has no pid any more.
        assert {find(name) for find in finders.values()} == {process.process_id}
        assert {find(str(process.pid)) for find in finders.values()} == {"process_not_found"}
        assert {find(_name()) for find in finders.values()} == {"process_not_found"}


@pytest.mark.promise("W.names")
def test_what_lives_comes_before_what_has_ended_and_the_newest_of_that_before_the_others(
    server: OutliveServer, finders: dict[str, Finder], gate: Gate
) -> None:
    name = _name()
    with Client(server.state_dir, start_server=False) as client:
        first, second = _ended(client, name), _ended(client, name)
        assert {find(name) for find in finders.values()} == {second}
        live = client.start(gate.wait, name=name)
        assert {find(name) for find in finders.values()} == {live.process_id}
        assert first != second


def _ended(client: Client, name: str) -> str:
    process = client.start("true", name=name)
    process.wait(20)
    return process.process_id


@pytest.mark.promise("W.names")
def test_a_word_that_may_mean_two_processes_means_none(
    server: OutliveServer, finders: dict[str, Finder], gate: Gate
) -> None:
    """An id may end in a word of letters that is a name, too: neither hides the other."""
    with Client(server.state_dir, start_server=False) as client:
        other = client.start("true").process_id
        word = "webabc"
        looks_so = client.start("true", process_id=other[:-6] + word)
        looks_so.wait(20)
        assert {find(word) for find in finders.values()} == {looks_so.process_id}
        client.start(gate.wait, name=word)
        assert {find(word) for find in finders.values()} == {"process_ambiguous"}


@pytest.mark.promise("W.names")
def test_a_project_has_its_own_names_and_another_one_is_named(
    server: OutliveServer, tmp_path: Path, gate: Gate
) -> None:
    name = _name()
    rest = RestCaller(server.rest_url)
    with Client(server.state_dir, start_server=False) as client:
        here = client.start(gate.wait, name=name, project=str(tmp_path))
        there = client.start(gate.wait, name=name, project="/usr")
        for project, process in ((str(tmp_path), here), ("/usr", there)):
            assert client.get(name, project=project).process_id == process.process_id
            answer = rest.send("GET", f"/v1/processes/{name}", project=project)
            assert answer.json["process_id"] == process.process_id
            assert client.list(name=name, project=project, limit=9)[0].process_id == process.process_id
        with pytest.raises(OutliveError) as refused:
            client.get(name, project="/etc")
        assert refused.value.code == "process_not_found"
        assert there.process_id in refused.value.hint
        # Without a project it is one of two.
        assert rest.send("GET", f"/v1/processes/{name}").json["slug"] == "process_ambiguous"


@pytest.mark.promise("W.names.unique")
def test_a_second_start_of_a_living_name_is_refused_or_replaces_it(server: OutliveServer, gate: Gate) -> None:
    name = _name()
    rest = RestCaller(server.rest_url)
    with Client(server.state_dir, start_server=False) as client:
        first = client.start(gate.wait, name=name, grace_s=5)
        with pytest.raises(OutliveError) as refused:
            client.start("true", name=name)
        assert refused.value.code == "name_taken"
        assert first.process_id in refused.value.message
        taken = rest.send("POST", "/v1/processes", {"command": "true", "name": name})
        assert (taken.status, taken.json["slug"]) == (409, "name_taken")
        second = client.start(gate.wait, name=name, replace=True)
        ended = first.info()
        assert (ended.cause, ended.error, ended.ended_at is not None) == (
            "cancel",
            "Replaced by a start of the same name.",
            True,
        )
        third = rest.send("POST", "/v1/processes", {"command": gate.wait, "name": name, "replace": True}).json
        assert second.info().ended_at is not None
        assert client.get(name).process_id == third["process_id"]


@pytest.mark.promise("W.names.unique")
def test_what_cannot_be_started_replaces_nothing(server: OutliveServer, gate: Gate) -> None:
    name = _name()
    with Client(server.state_dir, start_server=False) as client:
        first = client.start(gate.wait, name=name)
        for wrong in ({"cwd": "/no/such/folder"}, {"profile": "no such"}):
            with pytest.raises(OutliveError):
                client.start(["/no/such/program"], name=name, replace=True, **wrong)  # type: ignore[arg-type] # wrong on purpose
        assert first.info().ended_at is None


@pytest.mark.promise("W.names.grammar")
@pytest.mark.parametrize("name", ["p7", "@last", "4711", "", "a b"])
def test_every_door_refuses_what_is_no_name(server: OutliveServer, name: str) -> None:
    rest = RestCaller(server.rest_url)
    refused = rest.send("POST", "/v1/processes", {"command": "true", "name": name})
    assert (refused.status, refused.json["slug"]) == (422, "name_invalid")
    with Client(server.state_dir, start_server=False) as client, pytest.raises(OutliveError) as error:
        client.start("true", name=name)
    assert error.value.code == "name_invalid"
    said = run_outlive("run", "--name", name, "--", "true", state_dir=server.state_dir)
    assert said.returncode == 125
    assert "Begin with a letter" in said.stderr


@pytest.mark.promise("W.names.approval")
def test_an_approval_takes_the_servers_id_alone(server: OutliveServer) -> None:
    """A name, a short id and @last are words that the asking program chose, or may change meanwhile."""
    with Client(server.state_dir, start_server=False) as client:
        client.start("true", name="approved").wait(20)
        for word in ("@last", "p1", "approved"):
            with pytest.raises(OutliveError) as refused:
                client.approve(word, "0" * 64)
            assert refused.value.code == "process_not_found"
            with pytest.raises(OutliveError) as refused:
                client.deny(word)
            assert refused.value.code == "process_not_found"
