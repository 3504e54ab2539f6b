"""Names of processes under attack: another principal's, a foreign pid, a pid that was given again, a command
inside that asks for more.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlive.client import Client, OutliveError
from outlive.protocols.frames import decode_pid
from tests.attacks.attacking import Requests, create_token
from tests.mcp_http.raw_caller import RawCaller
from tests.support.processes import Gate
from tests.support.server import OutliveServer

pytestmark = pytest.mark.walls


@pytest.mark.promise("W.names", "W.names.pid", "A.owner")
def test_no_word_finds_another_principals_process(besieged: OutliveServer, gate: Gate) -> None:
    mine, yours = Requests(besieged), Requests(besieged, create_token(besieged, "admin"))
    view = mine.start(gate.wait, name="victim")
    tools = RawCaller.begin(besieged.mcp_url, {"Authorization": f"Bearer {create_token(besieged, 'run')}"})
    words = [
        view["process_id"],
        "victim",
        view["short_id"],
        view["process_id"][-6:],
        str(view["pid"]),
        "@last",
    ]
    for word in words:
        assert mine("GET", f"/v1/processes/{word}").status == 200, word
        for method, path in (("GET", ""), ("DELETE", "?force=true"), ("GET", "/output")):
            refused = yours(method, f"/v1/processes/{word}{path}")
            assert (refused.status, refused.slug) == (404, "process_not_found"), word
            assert view["process_id"] not in json.dumps(refused.body).replace(word, "")
        assert tools.call("stop", ids=[word]).json["result"]["isError"], word
    # The name is free for each principal, and each one's means its own.
    own = yours.start(gate.wait, name="victim", replace=True)
    assert yours("GET", "/v1/processes/victim").body["process_id"] == own["process_id"]
    assert mine("GET", "/v1/processes/victim").body["state"] == "running"


@pytest.mark.promise("W.names.pid")
def test_the_pid_of_a_process_that_outlive_does_not_run_means_none(besieged: OutliveServer) -> None:
    mine = Requests(besieged)
    for pid in (1, os.getpid(), besieged.pid):
        assert mine("GET", f"/v1/processes/{pid}").slug == "process_not_found"
        asked = mine("POST", f"/v1/processes/{pid}/control", body={"action": "cancel"})
        assert (asked.status, asked.slug) == (404, "process_not_found")


@pytest.mark.promise("W.names.pid")
def test_a_pid_whose_start_time_is_another_means_none(own_server: OutliveServer, gate: Gate) -> None:
    """As where the kernel has given it again: what lives there began at another moment than the record
    says.
    """
    with Client(own_server.state_dir, start_server=False) as client:
        process = client.start(gate.wait)
        assert client.get(str(process.pid)).process_id == process.process_id
        path = Path(own_server.state_dir) / "processes" / process.process_id / "pid"
        noted = path.read_bytes()
        record = decode_pid(noted)
        assert record is not None
        ticks = record.start_ticks
        path.write_bytes(noted.replace(str(ticks).encode(), str(ticks - 7).encode(), 1))
        try:
            with pytest.raises(OutliveError) as refused:
                client.get(str(process.pid))
            assert refused.value.code == "process_not_found"
        finally:
            path.write_bytes(noted)


@pytest.mark.promise("W.names")
def test_a_name_that_looks_like_an_id_cannot_be_had_to_take_its_place(
    besieged: OutliveServer, gate: Gate
) -> None:
    mine = Requests(besieged)
    victim = mine.start(gate.wait)
    shown = victim["process_id"][-6:]
    for word in (victim["process_id"], victim["short_id"], str(victim["pid"])):
        assert mine("POST", "/v1/processes", body={"command": "true", "name": word}).slug == "name_invalid"
    named = mine("POST", "/v1/processes", body={"command": gate.wait, "name": shown})
    if named.status == 201:  # six letters, one id in ten: then the word means neither
        assert mine("GET", f"/v1/processes/{shown}").slug == "process_ambiguous"
    else:
        assert named.slug == "name_invalid"
    assert mine("GET", f"/v1/processes/{victim['process_id']}").body["state"] == "running"


@pytest.mark.promise("W.names", "W.names.unique")
def test_a_command_inside_reaches_by_a_name_what_it_reaches_by_an_id_and_no_more(
    own_server: OutliveServer, gate: Gate
) -> None:
    """What it may not end, it does not end by a start that replaces it, either."""
    mine = Requests(own_server)
    victim = mine.start(gate.wait, name="web", profile="open")
    token = create_token(own_server, "run")
    script = (
        "import http.client, json, sys\n"
        "def ask(method, path, body):\n"
        "    link = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=20)\n"
        "    link.request(method, path, json.dumps(body), {'Authorization': 'Bearer ' + sys.argv[2],"
        " 'Content-Type': 'application/json'})\n"
        "    return json.loads(link.getresponse().read()).get('slug')\n"
        "print(ask('POST', '/v1/processes/web/control', {'action': 'cancel'}),"
        " ask('POST', '/v1/processes', {'command': 'true', 'name': 'web', 'replace': True, 'profile': "
        "'guarded'}))\n"
    )
    with_token = Requests(own_server, token)
    named = with_token.start(gate.wait, name="web", profile="open")
    words = ["python3", "-I", "-c", script, str(own_server.ready["ports"]["rest"]), token]
    inside = with_token("POST", "/v1/processes", body={"argv": words, "profile": "guarded"}).body
    said = with_token.output(inside["process_id"]).split()
    assert said == ["profile_too_weak", "profile_too_weak"]
    for one, requests in ((victim, mine), (named, with_token)):
        assert requests("GET", f"/v1/processes/{one['process_id']}").body["state"] == "running"


@pytest.mark.promise("W.names.unique")
def test_of_many_starts_at_once_with_one_name_one_lives(own_server: OutliveServer, gate: Gate) -> None:
    def start(_number: int) -> str:
        with Client(own_server.state_dir, start_server=False) as client:
            try:
                return client.start(gate.wait, name="one").process_id
            except OutliveError as error:
                return error.code

    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(start, range(8)))
    assert said.count("name_taken") == 7


@pytest.mark.promise("W.names.unique")
def test_a_server_that_was_killed_leaves_a_name_taken_and_found(
    own_server: OutliveServer, gate: Gate
) -> None:
    """The name stands in the process's own folder: neither a lock nor the index has to survive."""
    with Client(own_server.state_dir, start_server=False) as client:
        first = client.start(gate.wait, name="web")
    own_server.kill()
    for path in Path(own_server.state_dir).glob("registry.db*"):
        path.unlink()
    own_server.start()
    with Client(own_server.state_dir, start_server=False) as client:
        with pytest.raises(OutliveError) as refused:
            client.start("true", name="web")
        assert refused.value.code == "name_taken"
        assert client.get("web").process_id == first.process_id
        second = client.start(gate.wait, name="web", replace=True)
        assert client.get(first.process_id).info().ended_at is not None
        own_server.restart()  # kills it, too
        assert client.get("web").process_id == second.process_id
