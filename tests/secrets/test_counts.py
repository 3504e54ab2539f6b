"""Every door says how many secrets it shows as stars: one table, of a process with three on stdout and one on stderr."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator

import pytest
from websockets.sync.client import connect, unix_connect

from outlive.client import Client, Output
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller, events_of
from tests.support.server import OutliveServer, outlive_command, run_outlive

pytestmark = pytest.mark.thorough

TOKEN = "Vr5tUv7wXy9zAb1cDe3fGh5iJk7lMn9oPq1r"
LINE = f"t=ghp; echo a $t'_{TOKEN}' b $t'_{TOKEN}'; echo plain; echo $t'_{TOKEN}'; echo $t'_{TOKEN}' >&2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    with OutliveServer(tmp_path_factory.mktemp("n") / "state", args=["--redact", "all"]) as shared:
        yield shared


@pytest.fixture(scope="module")
def speaker(server: OutliveServer) -> str:
    """A process that has printed four secrets."""
    with Client(server.state_dir, start_server=False) as person:
        process = person.start(LINE)
        process.wait()
        return process.process_id


def _messages(server: OutliveServer, method: str, **params: object) -> Iterator[dict[str, object]]:
    with unix_connect(f"{server.state_dir}/server.sock", uri="ws://localhost/ws/mcp") as peer:
        peer.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        while True:
            message = peer.recv(timeout=20)
            text = message.partition(b"\n")[0] if isinstance(message, bytes) else message
            document = json.loads(text)
            yield document
            if document.get("method") == "process.completed" or (method == "read" and "id" in document):
                return


@pytest.mark.promise("A.redacted")
@pytest.mark.parametrize("mode", ["lines", "chunk", "binary"])
def test_json_rpc_tells_with_each_message(server: OutliveServer, speaker: str, mode: str) -> None:
    told = [
        message["params"].get("redacted", 0)  # type: ignore[attr-defined]
        for message in _messages(server, "attach", process_id=speaker, output=mode)
        if message.get("method") == "process.output"
    ]
    assert sum(told) == 4
    if mode == "lines":
        assert sorted(told) == [0, 1, 1, 2]


@pytest.mark.promise("A.redacted")
def test_json_rpc_and_rest_tell_what_this_page_shows(server: OutliveServer, speaker: str) -> None:
    rest, one = RestCaller(server.rest_url), f"/v1/processes/{speaker}/output"

    def read(**params: object) -> object:
        for message in _messages(server, "read", process_id=speaker, **params):
            if "result" in message:
                return message["result"].get("redacted")  # type: ignore[attr-defined]
        raise AssertionError("no answer")

    assert read() == 4
    assert read(encoding="base64") == 4
    whole = rest.call("GET", one).json
    assert whole["redacted"] == sum(chunk.get("redacted", 0) for chunk in whole["chunks"]) == 4
    # A page that begins in the middle of the first secret shows some of it.
    assert rest.call("GET", one, stream="stdout", start=20).json["redacted"] == 3
    assert rest.call("GET", one, stream="stdout", start=20, end=25).json["redacted"] == 1
    assert "redacted" not in rest.call("GET", one, stream="stdout", start=0, end=2).json
    assert rest.call("GET", one, grep="plain").json.get("redacted") is None
    assert rest.call("GET", one, grep="ghp_").json["redacted"] == 4
    assert rest.call("GET", one, grep="plain", context=1).json["redacted"] == 3
    for query, said in (({}, "4"), ({"stream": "stderr"}, "1"), ({"stream": "stdout", "end": 2}, None)):
        answer = rest.send("GET", one, format="raw", **query)
        assert answer.headers.get("outlive-redacted") == said, query
    pages, cursor = 0, "0"
    while True:
        page = rest.call("GET", one, cursor=cursor, limit=7).json
        pages += page.get("redacted", 0)
        cursor = page["cursor"]
        if not page["more"]:
            break
    assert pages > 4  # each page tells what it shows, also of a secret that it cuts


@pytest.mark.promise("A.redacted")
def test_followers_hear_each_secret_once(server: OutliveServer, speaker: str) -> None:
    rest, path = RestCaller(server.rest_url), f"/v1/processes/{speaker}/follow"
    with rest.stream(path) as response:
        assert sum(int(event.data.get("redacted", 0)) for event in events_of(response)) == 4
    with connect(server.rest_url.replace("http", "ws") + path + "?output=binary") as peer:
        heads = [json.loads(one.partition(b"\n")[0] if isinstance(one, bytes) else one) for one in peer]
    assert sum(head.get("redacted", 0) for head in heads) == 4
    address = server.rest_url.replace("http", "ws") + f"/ws/terminal/{speaker}"
    with connect(address, subprotocols=["outlive.terminal.v1"]) as peer:  # type: ignore[list-item]
        told = [json.loads(one) for one in peer if isinstance(one, str)]
    assert [one["count"] for one in told if one["type"] == "redacted"] == [4]


@pytest.mark.promise("A.redacted")
def test_the_client_tells(server: OutliveServer, speaker: str) -> None:
    with Client(server.state_dir, start_server=False) as person:
        process = person.get(speaker)
        assert process.read().redacted == 4
        assert process.read(raw=True).redacted == 0
        with process.follow() as items:
            assert sum(item.redacted for item in items if isinstance(item, Output)) == 4
            assert items.redacted == 4


@pytest.mark.promise("A.redacted")
def test_lean_tools_tell_in_their_first_line(server: OutliveServer, speaker: str) -> None:
    caller = RawCaller.begin(server.mcp_url)
    assert "4 secrets hidden" in repr(caller.call("read", id=speaker))
    assert "1 secret hidden" in repr(caller.call("read", id=speaker, tail=1))
    assert "3 secrets hidden" in repr(caller.call("run", command=LINE.rpartition(";")[0]))
    assert "hidden" not in repr(caller.call("run", command="echo plain"))


@pytest.mark.promise("A.redacted")
def test_the_command_line_tells_a_person(server: OutliveServer, speaker: str) -> None:
    words = ("logs", "--state-dir", str(server.state_dir), speaker)
    ours, theirs = pty.openpty()
    done = subprocess.run([*outlive_command(), *words], stdout=subprocess.PIPE, stderr=theirs, check=True)
    os.close(theirs)
    said = os.read(ours, 65536).decode()
    os.close(ours)
    assert "4 secrets hidden, --raw shows them" in said
    assert done.stdout.count(b"ghp_****") == 3
    assert "hidden" not in run_outlive("logs", speaker, state_dir=server.state_dir).stderr
    lines = run_outlive("logs", "--json", speaker, state_dir=server.state_dir).stdout.splitlines()
    assert sum(json.loads(line).get("redacted", 0) for line in lines) == 4


@pytest.mark.promise("A.redacted")
def test_a_secret_that_comes_in_pieces_counts_once(server: OutliveServer) -> None:
    """Over reads of any size, and while it is still written."""
    rest = RestCaller(server.rest_url)
    command = "printf 'ghp_'; for c in Vr5tUv7 wXy9zAb1c De3fGh5iJk 7lMn9oPq1r; do printf $c; sleep 0.05; done; echo"
    started = rest.call("POST", "/v1/processes", {"command": command}, expect=201).json
    with rest.stream(f"/v1/processes/{started['process_id']}/follow") as response:
        events = [event.data for event in events_of(response)]
    assert sum(int(data.get("redacted", 0)) for data in events) == 1
