"""Ways to the page without being the user of this machine: none of them gets a code, and none opens the page
with one.
"""

import http.client
import json
import re
import socket
import sys
from pathlib import Path

import pytest

from tests.attacks.attacking import Requests, create_token, knock_as_nobody, needs_second_user
from tests.attacks.raw_http import RawReply, raw_request
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer, run_outlive

pytestmark = pytest.mark.thorough

_FORM = "POST /ui/session HTTP/1.1"
_CODES = "POST /ui/codes HTTP/1.1"
_NAVIGATION = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document")
_BROWSER = "Accept: text/html,application/xhtml+xml,*/*;q=0.8"


def _code(server: OutliveServer, *words: str) -> str:
    """Have a file made, and return the code that its form sends."""
    done = run_outlive("ui", "--print", *words, state_dir=server.state_dir)
    assert done.returncode == 0, done.stderr
    found = re.search(r'name="code" value="([^"]+)"', Path(done.stdout.strip()).read_text())
    assert found is not None
    return found[1]


def _send(server: OutliveServer, code: str, *headers: str, host: str = "localhost") -> RawReply:
    port = server.ready["ports"]["rest"]
    return raw_request(port, _FORM, *headers, body=f"code={code}".encode(), host=host)


def _token_in(answer: RawReply) -> str:
    assert answer.status == 200, answer
    found = re.search(r'content="(olv_[^"]+)"', answer.body.decode())
    assert found is not None
    return found[1]


def _page_tokens(server: OutliveServer) -> list[dict[str, object]]:
    listed = json.loads(run_outlive("token", "list", "--json", state_dir=server.state_dir).stdout)
    return [one for one in listed["tokens"] if one["name"].startswith("page-")]


@pytest.mark.promise("U.code", "U.code.form")
def test_the_form_of_a_file_opens_the_page_with_a_token_that_can_be_revoked(serve: ServerFactory) -> None:
    server = serve()
    port = server.ready["ports"]["rest"]
    process_id = Requests(server).start("sleep 60")["process_id"]
    opened = _send(server, _code(server, "--scope", "read"), "Origin: null", *_NAVIGATION)
    assert "access-control-allow-origin" not in opened.headers
    secret = _token_in(opened)
    own = (f"Authorization: Bearer {secret}", f"Origin: http://127.0.0.1:{port}")
    shown = raw_request(port, f"GET /v1/processes/{process_id} HTTP/1.1", *own)
    assert (shown.status, shown.json["process_id"]) == (200, process_id)
    cancel = b'{"action": "cancel"}'
    json_type = "Content-Type: application/json"
    refused = raw_request(
        port, f"POST /v1/processes/{process_id}/control HTTP/1.1", json_type, *own, body=cancel
    )
    assert refused.status == 403, "a page of the scope read only looks"
    (token,) = _page_tokens(server)
    assert (token["scope"], token["as_user"]) == ("read", True)
    entered = run_outlive("audit", "show", "--json", state_dir=server.state_dir).stdout
    assert '"token_create"' in entered
    assert '"ui_code"' in entered
    assert secret not in entered
    assert run_outlive("token", "revoke", str(token["name"]), state_dir=server.state_dir).returncode == 0
    assert raw_request(port, f"GET /v1/processes/{process_id} HTTP/1.1", *own).status == 401
    Requests(server)("POST", f"/v1/processes/{process_id}/control", body={"action": "cancel"})


@pytest.mark.promise("U.code")
def test_a_page_lives_on_when_the_server_is_killed_and_a_code_does_not(serve: ServerFactory) -> None:
    server = serve()
    secret, unused = _token_in(_send(server, _code(server), "Origin: null")), _code(server)
    server.kill()
    server.start()
    assert Requests(server, secret)("GET", "/v1/approvals").status == 200
    assert _send(server, unused, "Origin: null").status == 403


@pytest.mark.promise("U.code.form")
def test_a_code_that_was_used_opens_nothing(besieged: OutliveServer) -> None:
    code = _code(besieged)
    assert _send(besieged, code, "Origin: null").status == 200
    before = _page_tokens(besieged)
    again = _send(besieged, code, "Origin: null")
    assert (again.status, b"olv_" in again.body) == (403, False)
    assert _page_tokens(besieged) == before


@pytest.mark.promise("U.code.form")
@pytest.mark.parametrize(
    ("headers", "host", "status"),
    [
        (("Origin: http://localhost:5173",), "localhost", 401),  # a page of another port of this machine
        (("Origin: http://evil.example",), "localhost", 403),
        (("Origin: null", "Origin: null"), "localhost", 403),
        (("Origin: null", "Sec-Fetch-Mode: cors"), "localhost", 403),  # a script in a sandboxed frame
        (("Origin: null", "Sec-Fetch-Mode: no-cors"), "localhost", 403),
        (("Origin: null", *_NAVIGATION[:2], "Sec-Fetch-Dest: iframe"), "localhost", 403),
        (("Origin: null", "Via: 1.1 proxy"), "localhost", 401),
        (("Origin: null",), "evil.example", 421),
        (("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"), "localhost", 403),
        ((), "localhost", 403),  # no page at all: a program, which needs none
    ],
)
def test_a_code_counts_in_the_form_of_a_file_alone(
    besieged: OutliveServer, headers: tuple[str, ...], host: str, status: int
) -> None:
    code = _code(besieged)
    before = _page_tokens(besieged)
    refused = _send(besieged, code, *headers, host=host)
    assert (refused.status, b"olv_" in refused.body) == (status, False)
    assert _page_tokens(besieged) == before
    assert _send(besieged, code, "Origin: null").status == 200, "and it was not used up"


@pytest.mark.promise("U.code.form", "A.inside")
def test_a_command_of_ours_opens_nothing_with_a_code(besieged: OutliveServer, tmp_path: Path) -> None:
    script = (
        "import http.client, sys\n"
        "one = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=20)\n"
        "one.request('POST', '/ui/session', 'code=' + sys.argv[2], {'Origin': 'null'})\n"
        "answer = one.getresponse()\n"
        "print(answer.status, b'olv_' in answer.read())\n"
    )
    mine, port, code = Requests(besieged), besieged.ready["ports"]["rest"], _code(besieged)
    body = {"argv": [sys.executable, "-I", "-c", script, str(port), code], "cwd": str(tmp_path)}
    assert mine.output(mine("POST", "/v1/processes", body=body).body["process_id"]) == "401 False\n"
    assert _send(besieged, code, "Origin: null").status == 200


@pytest.mark.promise("U.code.who", "A.inside")
@pytest.mark.parametrize("grant", ["", "--grant=admin"])
def test_a_command_of_ours_gets_no_code_whatever_it_was_granted(besieged: OutliveServer, grant: str) -> None:
    script = (
        "import http.client, os, socket, sys\n"
        "one = http.client.HTTPConnection('localhost', timeout=20)\n"
        "one.sock = socket.socket(socket.AF_UNIX)\n"
        "one.sock.connect(sys.argv[1] + '/server.sock')\n"
        "token = os.environ.get('OUTLIVE_TOKEN')\n"
        "one.request('POST', '/ui/codes', headers={'Authorization': 'Bearer ' + token} if token else {})\n"
        "print(one.getresponse().status)\n"
    )
    state = besieged.state_dir
    run = ["run", *([grant] if grant else []), "--", sys.executable]
    done = run_outlive(*run, "-I", "-c", script, str(state), state_dir=state)
    assert done.stdout == ("403\n" if grant else "401\n"), done
    nested = run_outlive(*run, "-m", "outlive", "ui", "--print", state_dir=state)
    assert (nested.returncode, nested.stdout) == (1, "")
    assert "A process that outlive has started" in nested.stderr


@pytest.mark.promise("U.code.who")
def test_nothing_but_the_unix_socket_gives_a_code(serve: ServerFactory) -> None:
    server = serve("--allow-origin", "http://localhost:5173")
    port = server.ready["ports"]["rest"]
    for shown in (
        (),
        ("Origin: http://localhost:5173",),  # acts as the user, and opens no page
        ("Origin: null",),
        (f"Authorization: Bearer {create_token(server, 'admin')}",),
        ("Via: 1.1 proxy",),
    ):
        refused = raw_request(port, _CODES, *shown)
        assert refused.status in {401, 403}, shown
    shown_over_unix = {
        "token": {"Authorization": f"Bearer {create_token(server, 'admin')}"},
        "page": {"Origin": "null"},
        "proxy": {"X-Forwarded-For": "127.0.0.1"},
    }
    for name, headers in shown_over_unix.items():
        assert _ask_unix(server, headers) in {401, 403}, name
    assert not (server.state_dir / "ui").exists()


def _ask_unix(server: OutliveServer, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("localhost", timeout=20)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(server.state_dir / "server.sock"))
    try:
        connection.request("POST", "/ui/codes", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.promise("U.code.who")
def test_a_key_of_the_operator_gives_no_code_and_asks_for_none(serve: ServerFactory) -> None:
    server = serve(MCP_API_KEY="k")
    port = server.ready["ports"]["rest"]
    assert raw_request(port, _CODES, "X-API-Key: k").status == 403
    assert _token_in(_send(server, _code(server), "Origin: null"))


@pytest.mark.promise("U.shell")
def test_the_shell_is_seen_by_all_and_shows_nothing(serve: ServerFactory) -> None:
    server = serve(MCP_API_KEY="k")
    Requests(server, "k").start("sleep 60", name="secretive")
    for port in server.ready["ports"].values():
        for shown in ((), ("X-API-Key: k",), ("Via: 1.1 proxy",)):
            page = raw_request(port, "GET / HTTP/1.1", _BROWSER, *shown)
            assert (page.status, b"secretive" in page.body) == (200, False)
        assert raw_request(port, "GET / HTTP/1.1").status == 401, "a program shows the key, as before"
        assert raw_request(port, "GET / HTTP/1.1", _BROWSER, host="evil.example").status == 421
        frame = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe")
        assert raw_request(port, "GET / HTTP/1.1", _BROWSER, *frame).status == 403
        assert raw_request(port, "GET / HTTP/1.1", _BROWSER, "Origin: http://evil.example").status == 403
    Requests(server, "k")("POST", "/v1/processes/secretive/control", body={"action": "cancel"})


@needs_second_user
@pytest.mark.promise("U.code.who", "A.peer")
def test_another_user_sees_the_shell_and_gets_no_code(besieged: OutliveServer) -> None:
    routes = [("GET", "/ui/app.js"), ("POST", "/ui/codes"), ("POST", "/ui/session"), ("GET", "/")]
    answers = knock_as_nobody(besieged.ready["ports"]["rest"], routes)
    assert list(answers.values()) == [200, 401, 401, 401]
