"""A node that dials in: it joins with a code, runs commands as any other, and is lost by no crash and no cut
on either side.
"""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import BackendUnavailable, Client, InvalidRequest
from outlive.policy.access import digest_of
from tests.attacks.attacking import Requests
from tests.extensions.fleet.joining import JoinedPair, Machine, invited, kept_by, refusal_of
from tests.extensions.fleet.pairs import PROXY_HOST, a_token, node_state, output_of, wait_until
from tests.faults.returning import stop_server, until_back
from tests.support.processes import Gate
from tests.support.server import OutliveServer, end_keeper, outlive_command, run_outlive


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[JoinedPair]:
    """A node and its gateway, of the test's own."""
    with JoinedPair(tmp_path, "--label", "rack=3") as pair:
        yield pair


@pytest.fixture
def near(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server that nodes may join."""
    with OutliveServer(tmp_path / "near") as server:
        yield server


@pytest.mark.promise("S4.12.nodes.joined")
def test_a_machine_joins_with_a_code_and_runs_commands(joined: JoinedPair) -> None:
    with joined.client() as client:
        shown = node_state(joined.near)
        assert (shown["address"], shown["added"], shown["room"]["labels"]) == ("joined", True, {"rack": "3"})
        process = client.start("read x; echo got $x; exit 3", stdin="pipe", needs={"labels": {"rack": "3"}})
        process.write(b"word\n")
        assert process.wait().exit_code == 3
        assert output_of(process) == (b"got word\n", b"")
        location = process.info().location
        assert (location or {}).get("backend") == "far"
        size = 30_000_000
        large = client.start(f"head -c {size} /dev/zero", backend="far", output_limit=2 * size)
        assert len(output_of(large)[0]) == size
    with Client(joined.far.state_dir, start_server=False) as own:
        (gateway,) = own.fleet.list()["gateways"]
        name = f"{PROXY_HOST}:{joined.proxy.port}"
        assert (gateway["node"], gateway["state"], gateway["name"]) == ("far", "connected", name)
        assert own.list() == []  # what runs here for the gateway is its own


@pytest.mark.promise("S4.12.nodes.joined")
def test_a_node_that_joined_is_drained_and_removed_like_any_other(joined: JoinedPair, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with joined.client() as client:
        client.fleet.drain("local")
        client.fleet.drain("far")
        process = client.start(gate.wait, needs={"cpu": 1})
        assert process.info().waits_for == "place"
        client.fleet.resume("far")
        gate.open()
        assert process.wait().exit_code == 0
        with pytest.raises(InvalidRequest, match="dials in by itself"):
            client.fleet.add("far", "https://host:1")
        wait_until(lambda: not client.nodes()[0]["processes"])
        credential = kept_by(joined.far)["credential"]
        assert client.fleet.remove("far")["nodes"] == []
        assert refusal_of(joined.near, credential) == 401
    with Client(joined.far.state_dir, start_server=False) as own:
        wait_until(
            lambda: own.fleet.list()["gateways"][0]["state"] == "away"
        )  # the open connection was closed
        assert own.fleet.leave(PROXY_HOST)["gateways"] == []
        assert not (joined.far.state_dir / "gateways").exists()


@pytest.mark.thorough
@pytest.mark.promise("S4.12.nodes.joined.crash")
def test_a_cut_link_and_killed_servers_cost_nothing(joined: JoinedPair) -> None:
    """Every way in turn, while one command writes: no byte and no code is lost, and nothing has to be joined
    again.
    """
    with joined.client() as client:
        process = client.start("for i in $(seq 400); do echo line $i; sleep .05; done; exit 9", backend="far")
        wait_until(lambda: process.info().cursor.stdout > 0)
        joined.proxy.cut()
        joined.away()
        assert not process.info().is_reachable
        with pytest.raises(BackendUnavailable):
            client.start("true", backend="far")
        joined.proxy.heal()
        joined.connected()
        joined.near.restart()
        joined.connected()
        joined.far.restart()
        joined.connected()
        assert process.wait(60).exit_code == 9
        assert output_of(process)[0] == b"".join(b"line %d\n" % number for number in range(1, 401))


@pytest.mark.usefixtures("stays_stopped")
@pytest.mark.thorough
@pytest.mark.promise("S4.12.nodes.silent")
def test_a_node_that_joined_and_says_nothing_is_told_and_comes_back(joined: JoinedPair) -> None:
    with joined.client() as client:
        process = client.start("read x; exit 4", backend="far", stdin="pipe")
        os.kill(joined.far.pid, signal.SIGSTOP)
        try:
            joined.away()
            assert not process.info().is_reachable
        finally:
            os.kill(joined.far.pid, signal.SIGCONT)
        joined.connected()
        process.write(b"\n")
        assert process.wait().exit_code == 4


@pytest.mark.thorough
@pytest.mark.promise("S4.12.nodes.joined.crash")
@pytest.mark.parametrize("seed", range(3))
def test_kills_in_the_middle_of_a_connection_lose_no_node(joined: JoinedPair, seed: int) -> None:
    """Each connection changes the credential on two disks; whichever side dies, one that counts is left."""
    for number in range(8):
        victim = joined.near if (number + seed) % 2 else joined.far
        joined.proxy.cut()
        joined.proxy.chop = lambda number=number: 300 + 137 * (number * 7 + seed * 3) % 900
        joined.proxy.heal()
        taken = joined.proxy.taken
        wait_until(lambda taken=taken: joined.proxy.taken > taken)  # type: ignore[misc] # as above
        victim.restart()
    joined.proxy.chop = None
    joined.connected()


@pytest.mark.promise("S4.12.nodes.joined.crash")
def test_the_old_credential_counts_until_the_new_one_is_kept(near: OutliveServer) -> None:
    """At each step that a crash can leave behind, the node has one that counts, and a copy of an older one
    counts no more.
    """
    code = invited(near)
    crashed = Machine(near, code)
    first = crashed.hear()["credential"]
    crashed.close()  # before it was kept: the code counts still
    machine = Machine(near, code)
    credential = machine.enter()
    wait_until(lambda: refusal_of(near, first))
    machine.close()
    again = Machine(near, credential)
    new = again.hear()["credential"]
    again.close()  # kept, and not acknowledged: both count, over a restart as well
    near.restart()
    later = Machine(near, new)
    newest = later.enter()
    wait_until(
        lambda: (
            json.loads((near.state_dir / "nodes/far/node").read_text())["credentials"] == [digest_of(newest)]
        )
    )
    later.close()
    assert [refusal_of(near, one) for one in (credential, new)] == [401, 401]
    assert refusal_of(near, newest) == 0


@pytest.mark.thorough
def test_a_code_is_read_from_stdin_and_starts_the_machines_server(
    near: OutliveServer, tmp_path: Path
) -> None:
    far = tmp_path / "far"
    answer = run_outlive("node", "invite", "far", "--label", "zone=eu", state_dir=near.state_dir)
    assert answer.returncode == 0, answer.stderr
    url = f"ws://127.0.0.1:{near.port}"
    joined = subprocess.run(
        [*outlive_command(), "node", "join", url, "--state-dir", str(far)],
        input=answer.stdout,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    try:
        assert joined.returncode == 0, joined.stderr
        wait_until(lambda: (node_state(near)["room"] or {}).get("labels") == {"zone": "eu"})
    finally:
        with Client(far, start_server=False) as client:
            client.fleet.leave(url)
        stop_server(far)
        end_keeper(far)


@pytest.mark.thorough
@pytest.mark.promise("S4.12.nodes.joined.crash")
def test_a_killed_server_of_a_node_comes_back_without_any_client(joined: JoinedPair) -> None:
    """The machine's own users may never ask for it: the guardian starts it again, and it dials."""
    with joined.client() as client:
        process = client.start("read x; exit 5", backend="far", stdin="pipe")
        pid = joined.far.pid
        joined.far.kill()
        try:
            until_back(joined.far.state_dir, after=pid)
            joined.away()
            joined.connected()
            process.write(b"\n")
            assert process.wait().exit_code == 5
        finally:
            stop_server(joined.far.state_dir)


@pytest.mark.promise("S4.12.nodes.joined")
def test_a_machine_is_a_node_of_several_servers_and_joins_again_under_its_name(tmp_path: Path) -> None:
    """Two servers of one host get names of their own; what one of them starts is not seen by the other."""
    with contextlib.ExitStack() as stack:
        far = stack.enter_context(OutliveServer(tmp_path / "far"))
        nears = [stack.enter_context(OutliveServer(tmp_path / f"near{number}")) for number in range(2)]
        first, second = (f"127.0.0.1:{near.port}" for near in nears)
        own = stack.enter_context(Client(far.state_dir, start_server=False))
        for near in (*nears, nears[1]):
            own.fleet.join(near.url, invited(near))
        assert [one["name"] for one in own.fleet.list()["gateways"]] == [first, second]
        with pytest.raises(InvalidRequest, match="no node of"):
            own.fleet.leave("127.0.0.1")  # which of them is not said
        own.fleet.leave(first)
        own.fleet.join(nears[1].url, invited(nears[1]))  # its name stays, and so does what belongs to it
        assert [one["name"] for one in own.fleet.list()["gateways"]] == [second]
        own.fleet.join(nears[0].url, invited(nears[0]))
        for near in nears:
            wait_until(lambda near=near: node_state(near)["state"] == "connected")  # type: ignore[misc] # bound now
            with Client(near.state_dir, start_server=False) as client:
                assert output_of(client.start("echo here", backend="far"))[0] == b"here\n"
                assert len(client.list()) == 1
                wait_until(lambda client=client: not client.nodes()[0]["processes"])  # type: ignore[misc] # as above


@pytest.mark.thorough
@pytest.mark.promise("S4.12.nodes.joined")
def test_machines_join_and_leave_at_every_door(near: OutliveServer, tmp_path: Path) -> None:
    """JSON-RPC's `node_invite`, `node_join` and `node_leave`, and the paths of REST.

    A token of the scope run may do neither.
    """
    run_only = Requests(near, a_token(near, "runs"))
    assert run_only("POST", "/v1/nodes/far/invite", body={}).slug == "scope_missing"
    assert run_only("POST", "/v1/gateways", body={"url": near.url, "code": "x"}).slug == "scope_missing"
    rest = Requests(near, a_token(near, "decides", "admin"))
    invitation = rest("POST", "/v1/nodes/far/invite", body={"labels": {"zone": "eu"}}).body["invitation"]
    assert (invitation["name"], invitation["code"][:9]) == ("far", "olv_join_")
    assert rest("POST", "/v1/nodes/far/invite", body={"label": {}}).slug == "invalid_params"
    assert rest("GET", "/v1/nodes").body["invitation"] is None
    with OutliveServer(tmp_path / "far") as far:
        there = Requests(far, a_token(far, "decides", "admin"))
        reply = there("POST", "/v1/gateways", body={"url": near.url, "code": invitation["code"]})
        assert [one["node"] for one in reply.body["gateways"]] == ["far"], reply
        wait_until(lambda: node_state(near)["state"] == "connected")
        assert node_state(near)["room"]["labels"] == {"zone": "eu"}
        reply = there("POST", "/v1/gateways", body={"url": near.url, "code": invitation["code"]})
        assert (reply.status, reply.slug) == (401, "token_invalid")
        assert there("DELETE", "/v1/gateways/127.0.0.1").body["gateways"] == []
        assert there("DELETE", "/v1/gateways/127.0.0.1").status == 422
        with Client(near.state_dir, start_server=False) as client:
            code = client.fleet.invite("far")["invitation"]["code"]  # a second machine in its place
            with Client(far.state_dir, start_server=False) as own:
                own.fleet.join(near.url, code)
                wait_until(lambda: node_state(near)["state"] == "connected")
                own.fleet.leave(near.url)
            wait_until(lambda: node_state(near)["state"] == "away")
            for name in ("local", "any"):
                with pytest.raises(InvalidRequest, match="meaning of its own"):
                    client.fleet.invite(name)
