"""A command runs again by the server's own `rerun`, over JSON-RPC and REST, as it was started."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outlive.client import Client, Process
from tests.docs.wire import Wire
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.processes import Gate
from tests.support.server import OutliveServer

# Returns the members of the answer: of the new process, or of the refusal, with its slug as `reason`.
Rerun = Callable[..., dict[str, Any]]
_SECRET = "hunter2-hunter2"


@pytest.fixture(params=["jsonrpc", "rest"])
def rerun(request: pytest.FixtureRequest, server: OutliveServer) -> Iterator[Rerun]:
    if request.param == "jsonrpc":
        with Wire.dialled(server.url) as wire:

            def by_rpc(word: str, **members: object) -> dict[str, Any]:
                answer = wire.call("rerun", process_id=word, **members)
                return dict(answer.get("data", answer))

            yield by_rpc
    else:
        rest = RestCaller(server.rest_url)

        def by_rest(word: str, **members: object) -> dict[str, Any]:
            answer = rest.send("POST", f"/v1/processes/{word}/rerun", members)
            if answer.status == 201:
                return dict(answer.json)
            return {**answer.json.get("details", {}), "reason": answer.json["slug"]}

        yield by_rest


@pytest.fixture
def client(server: OutliveServer) -> Iterator[Client]:
    with Client(server.state_dir, start_server=False) as opened:
        yield opened


def _output(process: Process) -> bytes:
    process.wait(20)
    return b"".join(item.data for item in process.tail().items if hasattr(item, "data"))


@pytest.mark.promise("S0.19.rerun")
def test_it_runs_as_it_did(rerun: Rerun, client: Client, tmp_path: Path) -> None:
    line = 'echo "$PWD $COLOUR ${#KEY}"; umask; exit 3'
    words = ["bash", "-c", f"{line}; true"]
    for command in (line, words, f"{line} # {'x' * 200_000}"):
        first = client.start(
            command, name="again", cwd=tmp_path, env={"COLOUR": "red"}, tags={"a": "b"}, umask=0o27
        )
        expected = _output(first)
        second = client.get(str(rerun(first.process_id)["process_id"]))
        assert _output(second) == expected
        info = second.info()
        assert (info.name, info.tags) == ("again", {"a": "b", "repeats": first.process_id})
        assert info.exit_code == first.info().exit_code


@pytest.mark.promise("S0.19.rerun")
def test_secrets_are_given_again_and_never_missing(rerun: Rerun, client: Client) -> None:
    first = client.start("echo ${#KEY}", env_secrets={"KEY": _SECRET})
    first.wait(20)
    refused = rerun(first.process_id)
    assert (refused["reason"], refused["missing"]) == ("invalid_params", ["KEY"])
    again = rerun(first.process_id, env_secrets={"KEY": _SECRET})
    assert _output(client.get(str(again["process_id"]))) == b"15\n"


@pytest.mark.promise("S0.19.rerun")
def test_what_lives_keeps_its_name_and_a_terminal_is_opened_anew(
    rerun: Rerun, client: Client, gate: Gate
) -> None:
    named = client.start(gate.wait, name="holds-it")
    assert rerun(named.process_id)["reason"] == "name_taken"
    named.cancel(0)
    beside = client.start(gate.wait)
    second = client.get(str(rerun(beside.process_id)["process_id"]))
    assert beside.info().ended_at is None
    gate.open()
    assert second.wait(20).exit_code == 0


def test_a_command_of_a_host_gets_the_servers_environment_and_the_answer_says_so(
    server: OutliveServer, client: Client
) -> None:
    tools = RawCaller.begin(server.mcp_url)
    assert not tools.call("run", command="echo from-a-tool").json["result"]["isError"]
    (ran,) = [one for one in client.list() if one.command == "echo from-a-tool"]
    with Wire.dialled(server.url) as wire:
        again = client.get(str(wire.call("rerun", process_id=ran.process_id)["process_id"]))
    assert _output(again) == b"from-a-tool\n"
