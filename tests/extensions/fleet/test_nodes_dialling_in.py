"""What dials in as a node: nothing counts there but a code and a credential, and they count nowhere else."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import websockets
from websockets.sync.server import ServerConnection, serve

from outlive.client import Client
from outlive.core.layout import Layout
from outlive.extensions.fleet.joined.gateways import gateway_name, node_url
from outlive.kernel.folder_identity import claim_folder
from tests.attacks.attacking import Requests, create_token
from tests.extensions.fleet.joining import JoinedPair, Machine, invited, join, kept_by, refusal_of
from tests.extensions.fleet.pairs import node_state, wait_until
from tests.support.raw import upgrade
from tests.support.server import OutliveServer, run_outlive


@pytest.fixture
def near(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server that nodes may join, of the test's own: what it counts is not shared."""
    with OutliveServer(tmp_path / "near") as server:
        yield server


@pytest.mark.promise("A.node")
def test_without_a_code_nothing_is_let_in_whatever_else_it_shows(near: OutliveServer) -> None:
    """Neither the user's own processes, nor any token, nor a page."""
    token = create_token(near, "admin")
    assert upgrade(near.port, path="/node").status == 401
    assert upgrade(near.port, path="/node", headers={"Authorization": f"Bearer {token}"}).status == 401
    code = invited(near)
    shown = {"Authorization": f"Bearer {code}"}
    assert upgrade(near.port, path="/node", headers={**shown, "Origin": "https://evil.example"}).status == 403
    assert upgrade(near.port, path="/node", host="evil.example", headers=shown).status == 421
    assert upgrade(near.port, path=f"/node?token={code}").status == 401
    assert Requests(near, code)("GET", "/node").status == 426  # and nothing else


@pytest.mark.promise("A.node")
def test_a_code_counts_once_and_is_kept_as_a_hash_for_its_owner_only(near: OutliveServer) -> None:
    code = invited(near)
    file = near.state_dir / "nodes" / "far" / "node"
    assert file.stat().st_mode & 0o777 == 0o600
    assert code not in file.read_text()
    near.restart()  # it outlives the server
    machine = Machine(near, code)
    credential = machine.enter()
    wait_until(lambda: refusal_of(near, code) == 401)
    assert credential not in file.read_text()
    machine.close()
    assert code not in near.stderr
    assert credential not in near.stderr


@pytest.mark.promise("A.node")
def test_a_code_that_is_over_or_was_replaced_counts_no_more(near: OutliveServer) -> None:
    first = invited(near)
    second = invited(near)
    assert refusal_of(near, first) == 401
    near.kill()
    file = near.state_dir / "nodes" / "far" / "node"
    kept = json.loads(file.read_text())
    kept["invitation"]["expires_s"] -= 600.0
    file.write_text(json.dumps(kept))
    near.start()
    assert refusal_of(near, second) == 401


@pytest.mark.promise("A.node")
def test_an_address_that_guesses_is_told_less_and_locks_no_node_out(near: OutliveServer) -> None:
    """Nodes behind a NAT or a proxy share an address with whatever guesses there."""
    code = invited(near)
    statuses = [refusal_of(near, f"olv_join_{number:043}") for number in range(12)]
    assert statuses[:4] == [401] * 4
    assert 429 in statuses
    assert Requests(near)("GET", "/v1/processes").status == 200  # other doors serve this address as before
    for number in range(12):
        assert refusal_of(near, f"olv_join_{number:043}") in {401, 429}
        assert refusal_of(near, code) == 0


@pytest.mark.promise("A.node")
def test_a_nodes_credential_opens_no_other_door(near: OutliveServer) -> None:
    code = invited(near)
    machine = Machine(near, code)
    credential = machine.enter()
    for secret in (credential, code):
        reply = Requests(near, secret)("GET", "/v1/processes")
        assert (reply.status, reply.slug) == (401, "token_invalid")
        shown = {"Authorization": f"Bearer {secret}"}
        for path in ("/ws/mcp", "/ws/terminal/01k9zq3v8d4t6r2m5x7b1n0c9f"):
            assert upgrade(near.port, path=path, headers=shown).status == 401
    machine.say("serve")  # what only a gateway says
    with contextlib.suppress(websockets.ConnectionClosed):  # it may have been ended for that by now
        machine.socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "list"}))
    with Client(near.state_dir, start_server=False) as client:
        assert client.list() == []
    machine.close()


@pytest.mark.thorough
@pytest.mark.promise("A.node")
def test_a_second_machine_with_the_same_credential_is_not_let_in_while_the_first_lives(
    tmp_path: Path,
) -> None:
    with JoinedPair(tmp_path) as pair:
        # Copied while it was being renewed, it counts no more: then it is copied again.
        wait_until(lambda: refusal_of(pair.near, kept_by(pair.far)["credential"]) == 0)
        copied = kept_by(pair.far)["credential"]
        second = Machine(pair.near, copied, instance="another")
        message = second.hear()
        assert (message["type"], message["error"]) == ("refused", "node_busy")
        assert second.is_ended()
        assert node_state(pair.near)["state"] == "connected"
        wait_until(lambda: "not let in" in pair.near.stderr)  # the operator reads it
        pair.proxy.cut()  # the first connects once more, with another credential
        pair.proxy.heal()
        wait_until(lambda: kept_by(pair.far)["credential"] != copied)
        pair.connected()
        wait_until(lambda: refusal_of(pair.near, copied) == 401)


@pytest.mark.promise("A.node")
def test_a_node_that_says_nonsense_ends_its_own_connection_alone(near: OutliveServer) -> None:
    code = invited(near)
    for said in ("", "{", '{"type": "welcome"}', json.dumps({"type": "kept", "labels": 3}), "x" * 100_000):
        machine = Machine(near, code)
        machine.hear()
        machine.socket.send(said)
        with contextlib.suppress(websockets.ConnectionClosed):
            assert machine.hear()["type"] == "refused"
        machine.close()
    last = Machine(near, code)
    last.enter()
    last.close()


@pytest.mark.thorough
@pytest.mark.promise("A.node")
def test_a_gateway_behind_the_same_host_is_not_the_owner_of_what_another_has_started(
    near: OutliveServer, tmp_path: Path
) -> None:
    """Tunnels end on one host: a gateway that is joined after another one was left must not find its
    commands.
    """
    with OutliveServer(tmp_path / "far") as far, OutliveServer(tmp_path / "next") as following:
        with Client(far.state_dir, start_server=False) as client:
            names = []
            for gateway in (near, following):
                join(far, f"ws://127.0.0.1:{gateway.port}", invited(gateway))
                (shown,) = client.fleet.list()["gateways"]
                names.append(shown["name"])
                assert client.fleet.leave("127.0.0.1")["gateways"] == []
        assert names == [f"127.0.0.1:{near.port}", f"127.0.0.1:{following.port}"]


@pytest.mark.promise("A.node")
@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("wss://gw.example:8003", "gw.example"),
        ("https://GW.example:8003/ws/mcp", "gw.example"),
        ("wss://gw.example", "gw.example:443"),
        ("wss://gw.example:443/", "gw.example:443"),
        ("ws://localhost", "localhost:80"),
        ("ws://[::1]:8003", "[::1]"),
        ("wss://gw.example:8003/a", "gw.example:8003-f311430bf402"),
        ("wss://gw.example:8003/a/", "gw.example:8003-f311430bf402"),
        ("wss://gw.example/b", "gw.example:443-3921e0334af3"),
    ],
)
def test_gateways_of_different_addresses_have_different_names(url: str, name: str) -> None:
    assert gateway_name(node_url(url)) == name


@pytest.mark.promise("A.node")
def test_what_other_machines_call_themselves_controls_no_terminal(tmp_path: Path) -> None:
    evil = "x\x1b[2J\x1b]0;owned\x07"
    far = OutliveServer(tmp_path / "far", args=("--capacity", f"zone={evil}"))
    kept = far.state_dir / "gateways" / "gw.json"
    far.state_dir.mkdir(mode=0o700)
    claim_folder(Layout(str(far.state_dir)))
    kept.parent.mkdir()
    kept.write_text(json.dumps({"url": "ws://127.0.0.1:1/node", "node": evil, "credential": "x"}))
    with far:
        for words in (("ls",), ("inspect", "local")):
            answer = run_outlive("node", *words, state_dir=far.state_dir)
            assert answer.returncode == 0
            assert "owned" in answer.stdout
            assert [
                one for one in answer.stdout + answer.stderr if not one.isprintable() and one != "\n"
            ] == []


@pytest.mark.thorough
@pytest.mark.promise("A.node")
def test_a_gateway_that_ends_each_session_at_once_is_dialled_ever_more_seldom(tmp_path: Path) -> None:
    came: list[float] = []

    def serve_nothing(connection: ServerConnection) -> None:
        came.append(time.monotonic())
        connection.send(json.dumps({"type": "welcome", "node": "far", "credential": "olv_node_x"}))
        connection.recv(timeout=10)
        connection.send(json.dumps({"type": "serve", "query": {}}))

    with OutliveServer(tmp_path / "far") as far, serve(serve_nothing, "127.0.0.1", 0) as gateway:
        thread = threading.Thread(target=gateway.serve_forever)
        thread.start()
        try:
            join(far, f"ws://127.0.0.1:{gateway.socket.getsockname()[1]}", "olv_join_x")
            wait_until(lambda: len(came) >= 7)
        finally:
            gateway.shutdown()
            thread.join()
    # The pauses between them are at least 0.05, 0.1, 0.2, 0.4 and 0.8 s.
    assert came[6] - came[0] > 1.5
