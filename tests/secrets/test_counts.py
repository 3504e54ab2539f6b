"""Every door says how many secrets it shows as stars: one table, of a process with three on stdout and one on
stderr.
"""

import contextlib
import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect, unix_connect

from outlive.client import Client, InvalidState, Output
from tests.attacks.attacking import Requests, create_token
from tests.extensions.bridge.extension import dialling
from tests.mcp_http.raw_caller import BACKGROUND, RawCaller
from tests.mcp_http.raw_caller import events_of as raw_events_of
from tests.rest.rest_caller import RestCaller, events_of
from tests.support.server import OutliveServer, outlive_command, run_outlive
from tests.terminals.doors import DOORS, caller_of

pytestmark = pytest.mark.thorough

TOKEN = "Vr5tUv7wXy9zAb1cDe3fGh5iJk7lMn9oPq1r"
LINE = f"t=ghp; echo a $t'_{TOKEN}' b $t'_{TOKEN}'; echo plain; echo $t'_{TOKEN}'; echo $t'_{TOKEN}' >&2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    with OutliveServer(
        tmp_path_factory.mktemp("n") / "state", args=["--redact", "all", "--callbacks", "run"]
    ) as shared:
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


def _structured(caller: RawCaller, name: str, **arguments: object) -> dict[str, Any]:
    """Return what a tool answers as members, which its text has, too."""
    result = caller.call(name, 1, official=True, **arguments).json["result"]
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    members: dict[str, Any] = result["structuredContent"]
    return members


@pytest.mark.promise("A.redacted", "S1.2")
def test_the_documents_command_tools_have_one_key_more(server: OutliveServer) -> None:
    caller = RawCaller.begin(server.mcp_url)
    ended = _structured(caller, "command_execute", command=LINE)
    assert ended["redacted"] == 4
    assert _structured(caller, "command_get_status", command_id=ended["id"])["status"]["redacted"] == 4
    assert _structured(caller, "command_execute_script", script_content=LINE)["redacted"] == 4
    goes_on = _structured(caller, "command_execute", command=f"{LINE}; sleep 60", wait_s=2)
    assert (goes_on["running"], goes_on["redacted"]) == (True, 4)
    plain = _structured(caller, "command_execute", command="echo plain")
    assert set(ended) - set(plain) == {"redacted"}
    assert len(plain) == 13


@pytest.mark.promise("A.redacted")
def test_the_documents_shell_tools_say_it_before_the_output(server: OutliveServer) -> None:
    caller, name = RawCaller.begin(server.mcp_url), "execute_linux_shell_command"
    ended = caller.call(name, cmd=LINE)
    assert ended.text.startswith("[4 secrets hidden]\na ghp_****")
    assert "structuredContent" not in ended.json["result"], "some clients show nothing else of an answer"
    goes_on = caller.call(name, cmd=f"{LINE}; sleep 60", wait_s=2)
    assert "\n\n[4 secrets hidden]\na ghp_****" in goes_on.text
    assert goes_on.json["result"]["structuredContent"]["redacted"] == 4
    assert "[4 secrets hidden]" in caller.call(BACKGROUND, cmd=LINE, wait_s=20).text
    assert caller.call(name, cmd="echo plain").text == "plain"


@pytest.mark.promise("A.redacted")
def test_server_sent_events_tell_with_each_line(server: OutliveServer) -> None:
    """Also with the parts of a line that is too long for one event, and with a last line that has no end."""
    caller = RawCaller.begin(server.mcp_url)
    last = f"t=ghp; printf %s \" \"$t'_{TOKEN}'"
    long = f"head -c 300000 /dev/zero | tr '\\0' x; {last}"
    for line, told in ((LINE, [1, 1, 2]), (last, [1]), (long, [1])):
        with caller.stream(BACKGROUND, cmd=line) as response:
            events = list(raw_events_of(response))
        seen = [data.get("redacted") for name, data in events if name in {"stdout", "stderr"}]
        assert sorted(filter(None, seen)) == told, line
        assert "hidden]" in events[-1][1]["result"]["content"][0]["text"]


@pytest.mark.promise("A.redacted")
def test_the_documents_paths_have_a_member(server: OutliveServer) -> None:
    rest = RestCaller(server.rest_url)
    ran = rest.call("POST", "/api/sync/execute/", {"command": LINE}).json
    assert ran["redacted"] == 4
    assert rest.call("GET", f"/api/async/process/{ran['process_id']}/").json["redacted"] == 4
    assert "redacted" not in rest.call("POST", "/api/sync/execute/", {"command": "echo plain"}).json


@pytest.mark.anyio
@pytest.mark.promise("A.redacted")
@pytest.mark.parametrize("door", DOORS)
async def test_terminals_tell(door: str, server: OutliveServer) -> None:
    caller = caller_of(door, server)
    terminal_id = await caller.create(shell="/bin/bash")  # noqa: S604 -- of a terminal
    await caller.ready(terminal_id)
    command = f"t=ghp; echo $t'_{TOKEN}' $t'_{TOKEN}'"
    assert (await caller.run(terminal_id, command, wait_s=20))["redacted"] == 2
    assert "redacted" not in await caller.run(terminal_id, "echo plain", wait_s=20)
    for form in ("clean", "raw", "screen"):
        assert (await caller.ready(terminal_id, form=form))["redacted"] == 2, form
    await caller.run(terminal_id, "clear", wait_s=20)
    assert "redacted" not in await caller.ready(terminal_id, form="screen"), "nothing of it is seen any more"
    words = ("--state-dir", str(server.state_dir))
    told = json.loads(_said("terminal", "read", "--json", *words, terminal_id)[0])
    assert told["redacted"] == 2
    shown, said = _said("terminal", "read", *words, terminal_id)
    assert shown.count("ghp_***") == 2
    assert f"2 secrets hidden, `outlive logs --raw {terminal_id[-6:]}` shows them" in said
    said = _said("terminal", "exec", *words, "-t", terminal_id, command)[1]
    assert "2 secrets hidden" in said
    await caller.call("close", terminal_id=terminal_id)


@pytest.mark.anyio
@pytest.mark.promise("A.redacted")
@pytest.mark.parametrize("door", DOORS)
async def test_terminals_of_vs_code_tell(door: str, server: OutliveServer) -> None:
    async with dialling(server.bridge_url):
        caller = caller_of(door, server)
        terminal_id = await caller.create(target="vscode")
        ran = await caller.run(terminal_id, f"echo ghp_{TOKEN}")
        assert (ran["output"].count("ghp_****"), ran["redacted"]) == (1, 1)
        assert "redacted" not in await caller.run(terminal_id, "echo plain")
        await caller.call("close", terminal_id=terminal_id)


@pytest.mark.promise("A.redacted")
def test_a_web_page_may_read_the_header(server: OutliveServer) -> None:
    ask = Requests(server, token := create_token(server))
    ask.output(process_id := ask.start(LINE)["process_id"])
    page = {"Origin": "http://localhost:5173", "Authorization": f"Bearer {token}"}
    path = f"/v1/processes/{process_id}/output"
    answer = RestCaller(server.rest_url).send("GET", path, headers=page, format="raw")
    assert answer.headers["outlive-redacted"] == "4"
    assert "outlive-redacted" in answer.headers["access-control-expose-headers"]


@pytest.mark.promise("A.redacted")
def test_approvals_and_errors_tell(tmp_path: Path) -> None:
    """The words, the reason and the masked values of variables; `raw` hides nothing, so it tells nothing."""
    state_dir = tmp_path / "s"
    with OutliveServer(state_dir, args=["--redact", "all", "--ask", "true *"]) as server:
        rest = Requests(server, create_token(server, "admin"))
        wanted = {"argv": ["true", f"ghp_{TOKEN}", "x"], "env": {"A": "b", "C": None}}
        assert rest("POST", "/v1/processes", body=wanted).status == 201
        [one] = rest("GET", "/v1/approvals").body["approvals"]
        assert one["redacted"] == 2
        [one] = rest("GET", "/v1/approvals?raw=true").body["approvals"]
        assert "redacted" not in one
        with Client(state_dir, start_server=False) as person:
            assert [one.redacted for one in person.approvals()] == [2]
            assert [one.redacted for one in person.approvals(raw=True)] == [0]
            with pytest.raises(InvalidState) as raised:
                person.approve(one["process_id"], "0" * 64)
        assert raised.value.details["redacted"] == 1
        assert "2 secrets hidden, --raw shows them" in _said("approvals", "--state-dir", str(state_dir))[1]


@pytest.mark.promise("A.redacted")
def test_the_words_of_a_command_count_where_they_are_shown(tmp_path: Path) -> None:
    """Also by the next server: from the index, and from the folders alone."""
    line, state_dir = f"true ghp_{TOKEN} ghp_{TOKEN[::-1]}; echo ghp_{TOKEN}", tmp_path / "s"
    with OutliveServer(state_dir, args=["--redact", "all"]) as server:
        rest = RestCaller(server.rest_url)
        started = rest.call("POST", "/api/sync/execute/", {"command": line}).json
        assert started["redacted"] == 3 + 1
        caller = RawCaller.begin(server.mcp_url)
        assert _structured(caller, "command_execute", command=line)["redacted"] == 3 + 1
        assert [one["redacted"] for one in _structured(caller, "command_list_history")["history"]] == [3, 3]
        assert "3 secrets hidden" in caller.call("list", all=True).text
        assert (
            rest.call("POST", "/v1/processes", {"command": "sleep 60"}, expect=201).json.get("redacted")
            is None
        )
    for remembers in (True, False):
        if not remembers:
            for file in state_dir.glob("registry.db*"):
                file.unlink()
        with OutliveServer(state_dir, args=["--redact", "all"]) as server:
            path = f"/v1/processes/{started['process_id']}"
            assert RestCaller(server.rest_url).call("GET", path).json["redacted"] == 3
            with Client(state_dir, start_server=False) as person:
                assert person.get(started["process_id"]).info().redacted == 3


def _said(*words: str) -> tuple[str, str]:
    """Run the command line with its stderr at a terminal, and nothing else.

    Return what it said on stdout and there.
    """
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*outlive_command(), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=True,
        timeout=60,
    )
    os.close(theirs)
    said = b""
    with contextlib.suppress(OSError):  # that is how Linux tells that the other side is closed
        while more := os.read(ours, 65536):
            said += more
    os.close(ours)
    return done.stdout.decode(), said.decode()


@pytest.mark.promise("A.redacted")
def test_the_command_line_tells_a_person(server: OutliveServer, speaker: str) -> None:
    words = ("--state-dir", str(server.state_dir), speaker)
    shown, said = _said("logs", *words)
    assert "4 secrets hidden, --raw shows them" in said
    assert shown.count("ghp_****") == 3
    shown, said = _said("attach", *words)
    assert f"4 secrets hidden, `outlive logs --raw {speaker[-6:]}` shows them" in said
    assert shown.count("ghp_****") == 3
    with Client(server.state_dir, start_server=False) as person:
        inner = [*outlive_command(), "run", "--state-dir", str(server.state_dir), "-c", LINE]
        process = person.start(inner, pty=True)  # what outlive runs sees no secrets, at a terminal neither
        process.wait()
        shown = "".join(one.data.decode() for one in process.read().items if isinstance(one, Output))
    assert shown.count("ghp_****") == 4
    assert "outlive: 4 secrets hidden, `outlive logs --raw" in shown
    assert "hidden" not in run_outlive("logs", speaker, state_dir=server.state_dir).stderr
    lines = run_outlive("logs", "--json", speaker, state_dir=server.state_dir).stdout.splitlines()
    assert sum(json.loads(line).get("redacted", 0) for line in lines) == 4


@pytest.mark.promise("A.redacted")
def test_a_secret_that_comes_in_pieces_counts_once(server: OutliveServer) -> None:
    """Over reads of any size, and while it is still written."""
    rest = RestCaller(server.rest_url)
    command = (
        "printf 'ghp_'; for c in Vr5tUv7 wXy9zAb1c De3fGh5iJk 7lMn9oPq1r; do printf $c; sleep 0.05; "
        "done; echo"
    )
    started = rest.call("POST", "/v1/processes", {"command": command}, expect=201).json
    with rest.stream(f"/v1/processes/{started['process_id']}/follow") as response:
        events = [event.data for event in events_of(response)]
    assert sum(int(data.get("redacted", 0)) for data in events) == 1
