"""The canaries: the server's key, a value of `env_secrets` and a printed token show up nowhere, across
kills.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect, unix_connect

from outlive.client import Client, OutliveError
from tests.attacks.attacking import create_token
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller, events_of
from tests.support.fixtures import ServerFactory
from tests.support.processes import Gate
from tests.support.server import OutliveServer, run_outlive

pytestmark = pytest.mark.thorough

KEY = "canary-of-the-server-5f0e2b71"
VALUE = "canary-of-the-command-93ac14de"
SECOND = "kanarie-zwei-77aa"
PRINTED = "Qr5tUv7wXy9zAb1cDe3fGh5iJk7lMn9oPq1r"  # with "ghp_" before it, which no command's text has
CANARIES = tuple(word.encode() for word in (KEY, VALUE, SECOND, PRINTED))
# Printed whole, letter by letter, in a line of 300 KB, without a line's end; the token from two halves.
SPEAKER = r"""
t=ghp; u=_Qr5tUv7wXy9z; v=Ab1cDe3fGh5iJk7lMn9oPq1r
echo "value $MINE end"; echo "token $t$u$v end" >&2
s=$MINE; while [ -n "$s" ]; do printf %s "${s%"${s#?}"}"; s=${s#?}; done; echo
head -c 300000 /dev/zero | tr '\0' x; echo "$MINE$OTHER"
printf '{"k": "%s", "t": "%s"}' "$MINE" "$t$u$v"
"""
HEADERS = {"X-API-Key": KEY}


def _websocket(server: OutliveServer, method: str, **params: object) -> Iterator[bytes]:
    """Yield every message of a JSON-RPC connection until the process that is asked for has completed."""
    with unix_connect(f"{server.state_dir}/server.sock", uri="ws://localhost/ws/mcp") as peer:
        peer.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        while True:
            message = peer.recv(timeout=20)
            yield message if isinstance(message, bytes) else message.encode()
            text = message if isinstance(message, str) else ""
            if "process.completed" in text or (method != "attach" and '"id":1' in text.replace(" ", "")):
                return


def _cli(server: OutliveServer, *words: str) -> Iterator[bytes]:
    done = run_outlive(*words, state_dir=server.state_dir)
    yield done.stdout.encode() + done.stderr.encode()


def _raw_logs(server: OutliveServer, *words: str) -> str:
    """Return what the command line shows to who has a token, as tests have no terminal."""
    env = {"OUTLIVE_TOKEN": create_token(server, "admin")}
    return run_outlive("logs", "--raw", *words, state_dir=server.state_dir, env=env).stdout


def _seen(
    server: OutliveServer, process_id: str, *, has_ended: bool, with_cli: bool
) -> Iterator[tuple[str, bytes]]:
    """Yield (door, bytes) of every way to read a process."""
    rest, one = RestCaller(server.rest_url), f"/v1/processes/{process_id}"
    queries: list[dict[str, Any]] = [
        {},
        {"encoding": "base64"},
        {"format": "raw"},
        {"format": "raw", "stream": "stdout", "start": 3, "end": 40},
        {"tail": 3},
        {"grep": "e", "context": 2},
        {"grep": VALUE[:12]},
        {"stream": "stdout", "cursor": "9.0"},
    ]
    for query in queries:
        yield f"rest {query}", rest.call("GET", f"{one}/output", headers=HEADERS, **query).body
    yield "rest", rest.call("GET", one, headers=HEADERS).body
    yield "rest list", rest.call("GET", "/v1/processes", headers=HEADERS).body
    mcp = RawCaller.begin(server.mcp_url, HEADERS)
    pages: list[dict[str, Any]] = [{}, {"tail": 5}, {"grep": "end", "context": 1}]
    for page in pages:
        yield f"mcp read {page}", repr(mcp.call("read", id=process_id, **page)).encode()
    yield "mcp list", repr(mcp.call("list")).encode()
    yield "mcp history", repr(mcp.call("command_list_history")).encode()
    for encoding in ("utf-8", "base64"):
        params = {"process_id": process_id, "encoding": encoding, "limit": 100}
        yield f"jsonrpc read {encoding}", b"".join(_websocket(server, "read", **params))
    yield "jsonrpc list", b"".join(_websocket(server, "list"))
    if has_ended:
        follow = rest.call("GET", f"{one}/follow", headers=HEADERS, expect=200)
        yield "rest follow", follow.body
        for output in ("lines", "chunk", "binary"):
            sent = b"".join(_websocket(server, "attach", process_id=process_id, output=output))
            yield f"jsonrpc {output}", sent
    if not with_cli:  # a third of a second each
        return
    for words in (
        ["logs"],
        ["logs", "--json"],
        ["logs", "--tail", "2"],
        ["logs", "--grep", "a"],
        ["inspect"],
    ):
        yield " ".join(words), b"".join(_cli(server, *words, process_id))
    yield "ps", b"".join(_cli(server, "ps", "--all", "--json"))
    yield "audit", b"".join(_cli(server, "audit", "show", "--json"))
    if has_ended:
        yield "logs --follow", b"".join(_cli(server, "logs", "--follow", process_id))


def _check(server: OutliveServer, process_id: str, *, has_ended: bool, with_cli: bool = True) -> None:
    for door, shown in _seen(server, process_id, has_ended=has_ended, with_cli=with_cli):
        for canary in CANARIES:
            assert canary not in shown, (door, canary)
        if "base64" not in door and door.startswith(("rest {}", "logs")) and "--grep" not in door:
            assert b"***" in shown, door
    _check_files(server)


def _check_files(server: OutliveServer) -> None:
    """Grep the whole state folder, the logs of output aside."""
    for path in Path(server.state_dir).rglob("*"):
        if path.is_file() and path.name not in {"out", "err"}:
            content = path.read_bytes()
            for canary in CANARIES:
                assert canary not in content, (path, canary)
    for canary in CANARIES:
        assert canary.decode() not in server.stderr


def _raw_output(server: OutliveServer, process_id: str) -> bytes:
    folder = Path(server.state_dir) / "processes" / process_id
    files = (folder / "out", folder / "err")  # the second is made with its first bytes
    return b"".join(file.read_bytes() for file in files if file.exists())


def _until(met: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not met():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_no_canary_shows_up_anywhere_across_kills(serve: ServerFactory, gate: Gate) -> None:
    server = serve(MCP_API_KEY=KEY)
    rest = RestCaller(server.rest_url)
    body = {
        "command": f"{SPEAKER}\n{gate.wait}",
        "env_secrets": {"MINE": VALUE, "OTHER": SECOND},
        "tags": {"a": "b"},
    }
    started = rest.call("POST", "/v1/processes", body, expect=201, headers=HEADERS).json
    process_id = started["process_id"]
    _until(lambda: b'"}' in _raw_output(server, process_id), "the output")
    raw = _raw_output(server, process_id)
    assert all(canary in raw for canary in CANARIES[1:])  # the log itself is byte-exact
    _check(server, process_id, has_ended=False)
    with Client(server.state_dir, start_server=False) as client:
        follow = client.get(process_id).follow()
        first = b"".join(item.data for item, _ in zip(follow, range(3), strict=False))  # type: ignore[union-attr]
        assert VALUE.encode() not in first
        page = client.get(process_id).read(raw=True)
        assert VALUE.encode() in b"".join(item.data for item in page.items)  # type: ignore[union-attr]
    server.kill()
    server.start()
    _check(
        server, process_id, has_ended=False, with_cli=False
    )  # the values were read from the process itself
    gate.open()
    masks = Path(server.state_dir) / "processes" / process_id / "masks"
    _until(masks.exists, "the places")
    _check(server, process_id, has_ended=True, with_cli=False)
    server.kill()
    for words in (["logs"], ["logs", "--json"]):
        shown = b"".join(_cli(server, *words, "--no-start", process_id))
        assert not any(canary in shown for canary in CANARIES)
        assert b"value ****" in shown
    assert VALUE in _raw_logs(server, process_id)
    server.start()
    _check(server, process_id, has_ended=True)


def test_what_nobody_knows_any_more_is_hidden_altogether(serve: ServerFactory, gate: Gate) -> None:
    """The process ends while no server knows the values: its output is shown to nobody without --raw."""
    server = serve()
    rest = RestCaller(server.rest_url)
    command = f"echo before; echo $MINE; {gate.wait}; echo $MINE"
    process_id = rest.start(command, env_secrets={"MINE": VALUE})["process_id"]
    _until(lambda: VALUE.encode() in _raw_output(server, process_id), "the output")
    server.kill()
    gate.open()
    done = Path(server.state_dir) / "processes" / process_id / "done"
    _until(done.exists, "the end")
    server.start()
    assert set(rest_of(server).raw(process_id)) <= set(b"*\n")
    shown = run_outlive("logs", process_id, state_dir=server.state_dir).stdout
    assert set(shown) <= set("*\n")
    assert VALUE in _raw_logs(server, process_id)


def rest_of(server: OutliveServer) -> RestCaller:
    return RestCaller(server.rest_url)


def test_texts_and_errors_hold_no_keys(serve: ServerFactory) -> None:
    token = "ghp_" + PRINTED
    server = serve()
    rest = RestCaller(server.rest_url)
    process_id = rest.run(f"true {token} postgres://me:{VALUE}@db/x")["process_id"]
    for words, cwd in (([f"/no/such/{token}"], "/"), (["true"], f"/no/such/{token}")):
        with Client(server.state_dir, start_server=False) as client, pytest.raises(OutliveError) as refused:
            client.start(words, cwd=cwd)
        error = refused.value
        assert error.details, "they name what was not found"
        assert PRINTED not in f"{error} {error.hint} {dict(error.details)}"
    for door, refusal in _refusals(server, f"/no/such/{token}"):
        assert b"/no/such/ghp_" in refusal, f"{door}: it names what was not found"
        assert PRINTED.encode() not in refusal, door
    answers = [
        rest.call("GET", f"/v1/processes/{process_id}").body,
        rest.call("GET", "/v1/processes").body,
        *_cli(server, "ps", "--all"),
        *_cli(server, "audit", "show"),
    ]
    for shown in answers:
        assert PRINTED.encode() not in shown
        assert VALUE.encode() not in shown
    assert b"postgres://me:****" in answers[0]
    assert b"not_found" in answers[-1]
    server.stop()
    database = (Path(server.state_dir) / "registry.db").read_bytes()
    assert PRINTED.encode() not in database


def _refusals(server: OutliveServer, missing: str) -> Iterator[tuple[str, bytes]]:
    """Yield (door, answer) of requests for a program or folder that is not there."""
    rest, mcp = RestCaller(server.rest_url), RawCaller.begin(server.mcp_url)
    for path, body in (
        ("/v1/processes", {"argv": [missing]}),
        ("/v1/processes", {"argv": ["true"], "cwd": missing}),
        ("/v1/processes", {"script": "true", "interpreter": missing}),
        ("/v1/terminals", {"shell": missing}),
        ("/v1/terminals", {"cwd": missing}),
    ):
        yield f"rest {path} {sorted(body)}", rest.call("POST", path, body, expect=422).body
    tools: tuple[tuple[str, dict[str, Any]], ...] = (
        ("run", {"argv": [missing]}),
        ("run", {"command": "true", "cwd": missing}),
        ("run", {"script": "true", "interpreter": missing}),
        ("execute_linux_shell_command", {"cmd": "true", "cwd": missing}),
        ("execute_background_linux_shell_command", {"cmd": "true", "cwd": missing}),
        ("command_execute", {"command": missing}),
        ("command_execute", {"command": "true", "cwd": missing}),
        ("command_execute_script", {"script_content": "true", "interpreter": missing}),
        ("terminal_create", {"shell": missing}),
        ("terminal_create", {"cwd": missing}),
    )
    for tool, arguments in tools:
        yield f"mcp {tool} {sorted(arguments)}", mcp.call(tool, **arguments).body


def test_a_command_in_the_foreground_is_byte_exact(serve: ServerFactory) -> None:
    """`outlive run` is as if outlive were not there: a pipe must not lose a key."""
    server = serve()
    done = run_outlive("run", "--no-start", "-c", f"echo ghp_{PRINTED}", state_dir=server.state_dir)
    assert done.stdout == f"ghp_{PRINTED}\n"


def test_raw_reads_need_the_scope_admin(serve: ServerFactory) -> None:
    """Over every way that REST has; the token's scope decides, and nothing of the answer has begun before."""
    server = serve("--redact", "all")
    rest = RestCaller(server.rest_url)
    token, hidden = f"ghp_{PRINTED}".encode(), b"ghp_" + b"*" * 36
    for scope, status in (("run", 403), ("admin", 200)):
        headers = {"Authorization": f"Bearer {create_token(server, scope)}"}
        body = {"command": f"t=ghp; echo ${{t}}_{PRINTED}"}
        started = rest.call("POST", "/v1/processes", body, expect=201, headers=headers).json
        one = f"/v1/processes/{started['process_id']}"
        rest.call("GET", f"{one}/wait", until="closed", headers=headers)
        for path, query in (("output", {}), ("output", {"format": "raw"}), ("follow", {})):
            answer = rest.send("GET", f"{one}/{path}", headers=headers, raw="true", **query)
            assert (answer.status, token in answer.body) == (status, status == 200), (scope, path, query)
            answer = rest.send("GET", f"{one}/{path}", headers=headers, **query)
            assert (answer.status, token in answer.body, hidden in answer.body) == (200, False, True)
        seen = _followed(server, f"{one}/follow?raw=true", headers)
        assert seen == (status, status == 200)
    process_id = rest.run(f"t=ghp; echo ${{t}}_{PRINTED}")["process_id"]
    with Client(server.state_dir, start_server=False) as client:
        items = client.get(process_id).read(raw=True).items
        assert PRINTED.encode() in items[0].data  # type: ignore[union-attr]


def _followed(server: OutliveServer, path: str, headers: dict[str, str]) -> tuple[int, bool]:
    """Follow a process that has ended over a WebSocket; return the status and whether the token was seen."""
    try:
        with connect(server.rest_url.replace("http", "ws") + path, additional_headers=headers) as peer:
            return 200, any(PRINTED in str(message) for message in peer)
    except InvalidStatus as error:
        return error.response.status_code, PRINTED.encode() in (error.response.body or b"")


def test_a_beginning_is_held_back_from_others_than_raw_followers(serve: ServerFactory, gate: Gate) -> None:
    """What may become a secret waits; who sees secrets anyway does not."""
    server = serve("--redact", "all")
    rest = RestCaller(server.rest_url)
    headers = {"Authorization": f"Bearer {create_token(server, 'admin')}"}
    # Written on and on, each time less than the time after which a beginning is shown.
    line = f"printf 'ghp_'; while ! [ -e {gate.path} ]; do printf a; sleep 0.05; done"
    started = rest.call("POST", "/v1/processes", {"command": line}, expect=201, headers=headers).json
    one = f"/v1/processes/{started['process_id']}"
    with rest.stream(f"{one}/follow", headers=headers, raw="true") as response:
        text = ""
        for event in events_of(response):
            text += str(event.data.get("data", ""))
            if text.startswith("ghp_aaa"):
                break
    gate.open()
    rest.call("GET", f"{one}/wait", headers=headers)


def test_redaction_can_be_switched_off(serve: ServerFactory) -> None:
    server = serve("--redact", "off")
    rest = RestCaller(server.rest_url)
    process_id = rest.run('t=ghp; echo "${t}_$MINE"', env_secrets={"MINE": PRINTED})["process_id"]
    assert rest.raw(process_id) == f"ghp_{PRINTED}\n".encode()


def test_patterns_of_the_operators_own_are_hidden_everywhere(serve: ServerFactory) -> None:
    """At the doors, in records and logs, while the server runs, and from files alone; `secrets` hides them,
    too.
    """
    own = "k3y" + "9" * 5
    extra = ("--redact-extra", "acme_[a-z0-9]{8}\nnever_[0-9]{8}")
    server = serve("--redact", "secrets", *extra, MCP_API_KEY=KEY)
    rest = RestCaller(server.rest_url)
    body = {"command": f"a=acme; b=k3y; echo ${{a}}_${{b}}99999 # acme_{own}"}
    process_id = rest.call("POST", "/v1/processes", body, expect=201, headers=HEADERS).json["process_id"]
    one = f"/v1/processes/{process_id}"
    rest.call("GET", f"{one}/wait", headers=HEADERS)
    hidden = "acme_" + "*" * len(own)
    assert hidden in rest.call("GET", one, headers=HEADERS).json["command"]
    for door, shown in _seen(server, process_id, has_ended=True, with_cli=True):
        assert own.encode() not in shown, door
        assert (hidden.encode() in shown) or not door.startswith(("rest {}", "rest follow", "logs")), door
    logs = ("logs", "--no-start", process_id)
    server.kill()
    assert run_outlive(*logs, state_dir=server.state_dir).stdout == f"{hidden}\n"
    assert _raw_logs(server, *logs[1:]) == f"acme_{own}\n"


def test_a_pattern_that_could_be_slow_keeps_the_server_from_starting(tmp_path: Path) -> None:
    done = run_outlive("serve", "--redact-extra", "acme_(a+a+)+", state_dir=tmp_path / "state")
    assert done.returncode != 0
    assert "redact_extra: the pattern 'acme_(a+a+)+' cannot be used" in done.stderr
    assert "docs/redaction.md" in done.stderr
