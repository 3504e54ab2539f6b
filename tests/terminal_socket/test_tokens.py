"""A token as a subprotocol: for web pages, on the routes that they dial, never echoed, never kept
anywhere.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from websockets.sync.client import connect as dial
from websockets.typing import Origin, Subprotocol

from outlive.server.access.authenticator import without_tokens
from tests.attacks.attacking import Requests, create_token
from tests.support.raw import Answer, close_code, open_raw_websocket, upgrade
from tests.support.rpc import connect
from tests.support.server import OutliveServer, run_outlive
from tests.terminal_socket.viewing import CONTROLLED, start, viewing

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

_PLAIN = "outlive.terminal.plain"
_OFFER = "outlive.token."


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _dial(server: OutliveServer, process_id: str, *offered: str, path: str = "", origin: str = "") -> Answer:
    """Return how a web page's upgrade is answered."""
    headers = {"Origin": origin or f"http://127.0.0.1:{server.port}"}
    if offered:
        headers["Sec-WebSocket-Protocol"] = ", ".join(offered)
    return upgrade(server.port, path=path or f"/ws/terminal/{process_id}", headers=headers)


@pytest.mark.promise("T.token")
def test_a_page_shows_its_token_as_a_subprotocol_which_is_never_echoed(server: OutliveServer) -> None:
    token = create_token(server)
    process_id = start(server, "sleep 1000", token=token)
    offer = _OFFER + token
    for offered, chosen in (
        ((CONTROLLED, offer), CONTROLLED),
        ((offer, _PLAIN), _PLAIN),
        ((offer,), None),
        (("something.else", offer), None),
    ):
        answer = _dial(server, process_id, *offered)
        assert answer.status == 101, offered
        assert token not in answer.text
        head = answer.text.lower()
        assert ("sec-websocket-protocol" in head) == (chosen is not None)
        assert chosen is None or f"sec-websocket-protocol: {chosen}" in head
    assert _dial(server, process_id, CONTROLLED).status == 401
    Requests(server, token)("POST", f"/v1/processes/{process_id}/control", body={"action": "cancel"})


@pytest.mark.promise("T.token")
def test_a_token_that_does_not_hold_is_refused_there_as_everywhere(server: OutliveServer) -> None:
    own = create_token(server)
    process_id = start(server, "sleep 1000", token=own)
    gone = create_token(server, name="gone-before")
    assert run_outlive("token", "revoke", "gone-before", state_dir=server.state_dir).returncode == 0
    for wrong in (gone, own[:-1], own + "A", "olv_", "", "x"):
        assert _dial(server, process_id, CONTROLLED, _OFFER + wrong).status == 401, wrong
    other = create_token(server)
    assert _dial(server, process_id, CONTROLLED, _OFFER + other).status == 404
    bridge = create_token(server, "bridge")
    assert _dial(server, process_id, CONTROLLED, _OFFER + bridge).status == 403
    for origin in ("http://evil.example", "null", f"http://127.0.0.1.evil.com:{server.port}"):
        assert _dial(server, process_id, CONTROLLED, _OFFER + own, origin=origin).status == 403
    Requests(server, own)("POST", f"/v1/processes/{process_id}/control", body={"action": "cancel"})


@pytest.mark.promise("T.token")
def test_a_page_may_speak_json_rpc_with_a_token_that_it_shows_so(server: OutliveServer) -> None:
    offer = _OFFER + create_token(server, "read")
    answer = _dial(server, "", "outlive.jsonrpc.v1", offer, path="/ws/mcp")
    assert answer.status == 101
    assert "sec-websocket-protocol: outlive.jsonrpc.v1" in answer.text.lower()
    assert offer not in answer.text
    origin = f"http://127.0.0.1:{server.port}"
    with dial(
        server.url,
        origin=Origin(origin),
        subprotocols=[Subprotocol("outlive.jsonrpc.v1"), Subprotocol(offer)],
    ) as page:
        assert page.subprotocol == "outlive.jsonrpc.v1"
        assert json.loads(page.recv(10))["params"]["capabilities"]["scope"] == "read"
    plain = _dial(server, "", offer, path="/ws/mcp")
    assert (plain.status, "sec-websocket-protocol" in plain.text.lower()) == (101, False)
    assert _dial(server, "", "outlive.jsonrpc.v1", offer + "A", path="/ws/mcp").status == 401
    assert _dial(server, "", "outlive.jsonrpc.v1", path="/ws/mcp").status == 401


@pytest.mark.promise("T.token")
def test_no_other_route_takes_it(server: OutliveServer) -> None:
    token = create_token(server)
    process_id = start(server, "sleep 1000", token=token)
    for path in (f"/v1/processes/{process_id}/follow", "/ws/terminal", "/ws/terminalx/y"):
        assert _dial(server, process_id, CONTROLLED, _OFFER + token, path=path).status == 401, path
    shown = {
        "Sec-WebSocket-Protocol": _OFFER + token,
        "Origin": f"http://localhost:{server.ready['ports']['rest']}",
    }
    assert Requests(server)("GET", f"/v1/processes/{process_id}", headers=shown).status == 401
    Requests(server, token)("POST", f"/v1/processes/{process_id}/control", body={"action": "cancel"})


@pytest.mark.promise("T.token")
async def test_a_token_that_was_shown_so_is_written_nowhere(own_server: OutliveServer) -> None:
    token = create_token(own_server)
    process_id = start(own_server, "read line", token=token)

    def dial_all() -> None:
        assert _dial(own_server, process_id, CONTROLLED, _OFFER + token).status == 101
        assert _dial(own_server, "01k9zq3v8d4t6r2m5x7b1n0c9f", CONTROLLED, _OFFER + token).status == 404
        assert _dial(own_server, process_id, CONTROLLED, _OFFER + token + "A").status == 401

    await to_thread.run_sync(dial_all)
    async with viewing(own_server, process_id, token=token) as seen:
        await seen.socket.send(b"\n")
        await seen.until_over()
    await to_thread.run_sync(own_server.stop)
    assert token not in own_server.stderr
    assert [str(path) for path in _files(own_server.state_dir) if token.encode() in path.read_bytes()] == []


@pytest.mark.promise("T.token")
async def test_a_revoked_token_ends_what_its_holder_looks_at(server: OutliveServer) -> None:
    token = create_token(server, name="leaving-terminal")
    process_id = start(server, "sleep 1000", token=token)
    headers = {"Sec-WebSocket-Protocol": f"{CONTROLLED}, {_OFFER}{token}"}
    peer, head = await to_thread.run_sync(
        lambda: open_raw_websocket(server.port, path=f"/ws/terminal/{process_id}", headers=headers)
    )
    with peer:
        assert b" 101 " in head
        revoked = await to_thread.run_sync(
            lambda: run_outlive("token", "revoke", "leaving-terminal", state_dir=server.state_dir)
        )
        assert revoked.returncode == 0
        with anyio.fail_after(10):
            assert await to_thread.run_sync(close_code, peer) == 1008


def test_the_door_never_sees_a_token() -> None:
    scope = {
        "type": "websocket",
        "headers": [(b"host", b"x"), (b"sec-websocket-protocol", b"a, outlive.token.olv_x")],
        "subprotocols": ["a", "outlive.token.olv_x"],
    }
    assert without_tokens(scope)["subprotocols"] == ["a"]
    assert without_tokens(scope)["headers"] == [(b"host", b"x"), (b"sec-websocket-protocol", b"a")]
    alone = {**scope, "subprotocols": ["outlive.token.olv_x"]}
    assert without_tokens(alone)["headers"] == [(b"host", b"x")]
    clean = {**scope, "subprotocols": ["a"]}
    assert without_tokens(clean) is clean


@pytest.mark.promise("T.names")
def test_what_is_unknown_or_somebody_elses_is_refused_before_the_upgrade(server: OutliveServer) -> None:
    token = create_token(server)
    process_id = start(server, "sleep 1000", token=token)
    view = Requests(server, token)("GET", f"/v1/processes/{process_id}").body
    for name in (process_id, str(view["pid"]), "cmd_1_1", "nothing", "0", "9" * 30, "%00", "..", "a" * 3000):
        assert upgrade(server.port, path=f"/ws/terminal/{name}").status == 404, name
    Requests(server, token)("POST", f"/v1/processes/{process_id}/control", body={"action": "cancel"})


@pytest.mark.promise("T.names")
async def test_what_is_private_to_a_session_is_not_shown(server: OutliveServer) -> None:
    async with connect(server.url) as client:
        result = await client.execute("sleep 1000", pty=True)
        path = f"/ws/terminal/{result['process_id']}"
        assert (await to_thread.run_sync(lambda: upgrade(server.port, path=path))).status == 404
        assert (
            await to_thread.run_sync(lambda: upgrade(server.port, path=f"/ws/terminal/{result['pid']}"))
        ).status == 404
        await client.request("control", type="CANCEL")
