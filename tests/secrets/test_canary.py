"""The canaries: the server's key, a value of `env_secrets` and a printed token show up nowhere, across kills."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import unix_connect

from outlive.client import AccessDenied, Client, OutliveError
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.fixtures import ServerFactory
from tests.support.processes import Gate
from tests.support.server import OutliveServer, run_outlive

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
    raw_words = b"".join(_cli(server, "logs", "--raw", process_id))
    assert VALUE.encode() in raw_words
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
    assert VALUE in run_outlive("logs", "--raw", process_id, state_dir=server.state_dir).stdout


def rest_of(server: OutliveServer) -> RestCaller:
    return RestCaller(server.rest_url)


def test_texts_and_errors_hold_no_keys(serve: ServerFactory) -> None:
    token = "ghp_" + PRINTED
    server = serve()
    rest = RestCaller(server.rest_url)
    process_id = rest.run(f"true {token} postgres://me:{VALUE}@db/x")["process_id"]
    with Client(server.state_dir, start_server=False) as client, pytest.raises(OutliveError) as refused:
        client.start([f"/no/such/{token}"])
    assert PRINTED not in str(refused.value)
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


def test_a_command_in_the_foreground_is_byte_exact(serve: ServerFactory) -> None:
    """`outlive run` is as if outlive were not there: a pipe must not lose a key."""
    server = serve()
    done = run_outlive("run", "--no-start", "-c", f"echo ghp_{PRINTED}", state_dir=server.state_dir)
    assert done.stdout == f"ghp_{PRINTED}\n"


def test_raw_reads_need_the_scope_admin(serve: ServerFactory) -> None:
    server = serve("--redact", "all")
    rest = RestCaller(server.rest_url)
    process_id = rest.run(f"t=ghp; echo ${{t}}_{PRINTED}")["process_id"]
    assert rest.raw(process_id) == b"ghp_" + b"*" * 36 + b"\n"
    # Over TCP our own user is let in without the widest scope.
    refused = rest.send("GET", f"/v1/processes/{process_id}/output", raw="true")
    assert refused.status in {200, 403}
    with Client(server.state_dir, start_server=False) as client:
        items = client.get(process_id).read(raw=True).items
        assert PRINTED.encode() in items[0].data  # type: ignore[union-attr]
    assert issubclass(AccessDenied, OutliveError)
    assert subprocess.run(["true"], check=False).returncode == 0


def test_redaction_can_be_switched_off(serve: ServerFactory) -> None:
    server = serve("--redact", "off")
    rest = RestCaller(server.rest_url)
    process_id = rest.run('t=ghp; echo "${t}_$MINE"', env_secrets={"MINE": PRINTED})["process_id"]
    assert rest.raw(process_id) == f"ghp_{PRINTED}\n".encode()
