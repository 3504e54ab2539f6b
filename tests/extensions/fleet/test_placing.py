"""Commands that say what they need run on whichever machine has room: two nodes that are added at run time,
and this one.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlive.client import BackendUnavailable, Client, InvalidRequest, InvalidState, LimitExceeded, Process
from tests.extensions.fleet.pairs import PATIENCE_S, Proxy, a_token, output_of, wait_until
from tests.support.processes import Gate
from tests.support.server import OutliveServer, run_outlive

_PROXY_HOST = "127.0.0.2"


class Nodes:
    """A server of one processor, and two of two processors with a GPU each, one of them behind a proxy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.near = OutliveServer(folder / "near", args=("--capacity", "cpu=1,gpu=0"))
        self.far = [
            OutliveServer(
                folder / f"far{number}",
                args=("--capacity", f"cpu=2,gpu=1,zone=z{number}", "--public-name", _PROXY_HOST),
            )
            for number in (1, 2)
        ]

    @contextlib.contextmanager
    def opened(self) -> Iterator[Client]:
        """Start all, add the nodes, and yield a client of the near server once both are there."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.near)
            client = stack.enter_context(Client(self.near.state_dir, start_server=False))
            self.client = client
            self.proxies = []
            for number, far in enumerate(self.far, start=1):
                stack.enter_context(far)
                proxy = stack.enter_context(Proxy(far.port))
                self.proxies.append(proxy)
                client.fleet.add(
                    f"far{number}", f"http://{_PROXY_HOST}:{proxy.port}", token=a_token(far, "near")
                )
            wait_until(lambda: all(one["room"] for one in client.nodes()))
            yield client


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    """Three servers of the test's own."""
    return Nodes(tmp_path)


def _place(process: Process) -> str:
    location = process.info().location
    return "local" if location is None else location["backend"]


def _start(client: Client, gate: Gate, **needs: object) -> Process:
    return client.start(gate.wait, needs={"cpu": 1, **needs})


def _room(client: Client, name: str) -> dict[str, Any]:
    found = client.fleet.list()
    rooms = {"local": found["local"], **{one["name"]: one["room"] for one in found["nodes"]}}
    room: dict[str, Any] = rooms[name]
    return room


@pytest.mark.thorough
@pytest.mark.promise("L.place")
def test_commands_spread_over_all_machines_and_the_rest_waits(nodes: Nodes, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with nodes.opened() as client:
        started = [_start(client, gate) for _ in range(7)]
        assert sorted(map(_place, started[:5])) == ["far1", "far1", "far2", "far2", "local"]
        assert [one.info().waits_for for one in started[5:]] == ["place", "place"]
        assert client.fleet.list()["waiting"] == [one.process_id for one in started[5:]]
        listed = run_outlive("ps", state_dir=nodes.near.state_dir).stdout.splitlines()
        places = [line.split()[listed[0].split().index("ON") - 1] for line in listed[1:]]  # none has a name
        assert sorted(places[2:]) == ["far1", "far1", "far2", "far2", "local"]
        gate.open()
        for one in started:
            assert one.wait().exit_code == 0
            assert output_of(one) == (b"", b"")


@pytest.mark.thorough
@pytest.mark.promise("L.place")
def test_gpus_labels_and_neighbours_decide_where(nodes: Nodes, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with nodes.opened() as client:
        first = client.start(gate.wait, needs={"gpu": 1, "labels": {"zone": "z2"}})
        second = client.start(gate.wait, needs={"gpu": 1})
        third = client.start(gate.wait, needs={"gpu": 1})
        beside = client.start(gate.wait, needs={"cpu": 1, "same_node_as": second.process_id})
        assert [_place(one) for one in (first, second, third, beside)] == ["far2", "far1", "any", "far1"]
        with pytest.raises(LimitExceeded, match="No machine has as much free"):
            client.start("true", needs={"gpu": 1, "wait": False})
        with pytest.raises(InvalidRequest, match="no machine that is known"):
            client.start("true", needs={"gpu": 2, "wait": False})
        gate.open()
        for one in (first, second, third, beside):
            assert one.wait().exit_code == 0


@pytest.mark.thorough
@pytest.mark.promise("L.nodes")
def test_a_drained_node_takes_nothing_and_one_that_is_busy_is_not_removed(
    nodes: Nodes, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    with nodes.opened() as client:
        client.fleet.drain("far1")
        client.fleet.drain("local")
        started = [_start(client, gate) for _ in range(3)]
        assert [_place(one) for one in started] == ["far2", "far2", "any"]
        with pytest.raises(InvalidState, match="2 processes run on 'far2'"):
            client.fleet.remove("far2")
        with pytest.raises(InvalidRequest, match="there is no node 'far9'"):
            client.fleet.drain("far9")
        client.fleet.resume("far1")
        wait_until(lambda: _place(started[2]) == "far1")
        gate.open()
        for one in started:
            assert one.wait().exit_code == 0
        wait_until(lambda: not client.nodes()[0]["processes"])
        assert [one["name"] for one in client.fleet.remove("far1")["nodes"]] == ["far2"]
        waits = client.start("true", needs={"labels": {"zone": "z1"}})
        wait_until(lambda: client.fleet.list()["unfit"] == [waits.process_id])


@pytest.mark.thorough
@pytest.mark.promise("L.count")
def test_a_node_refuses_what_another_server_has_taken(nodes: Nodes, tmp_path: Path) -> None:
    """Two servers share a node: what it has no room for waits for another machine, and nothing is
    overbooked.
    """
    gate = Gate(tmp_path / "gate")
    with nodes.opened() as client, Client(nodes.far[0].state_dir, start_server=False) as own:
        client.fleet.drain("local")
        client.fleet.drain("far2")
        taken = own.start(gate.wait, needs={"cpu": 2})
        with pytest.raises(LimitExceeded, match="as much free"):
            _start(client, gate, wait=False)
        refused = _start(client, gate)
        assert refused.info().waits_for == "place"
        client.fleet.resume("far2")
        wait_until(lambda: _place(refused) == "far2")
        gate.open()
        assert taken.wait().exit_code == 0
        assert refused.wait().exit_code == 0


@pytest.mark.promise("L.place")
def test_a_node_that_takes_nothing_keeps_no_command_from_the_others(nodes: Nodes, tmp_path: Path) -> None:
    """It says that it is there and empty, so it would be chosen for each: its token may only read."""
    gate = Gate(tmp_path / "gate")
    with nodes.opened() as client:
        client.fleet.drain("local")
        address = f"http://{_PROXY_HOST}:{nodes.proxies[0].port}"
        client.fleet.remove("far1")
        client.fleet.add("far1", address, token=a_token(nodes.far[0], "reader", "read"))
        wait_until(lambda: all(one["state"] == "connected" and one["room"] for one in client.nodes()))
        with pytest.raises(LimitExceeded, match=r"'far1'.*scope 'run'") as refused:
            _start(client, gate, labels={"zone": "z1"}, wait=False)
        assert refused.value.code == "no_room"
        started = [_start(client, gate) for _ in range(3)]
        wait_until(lambda: sorted(map(_place, started)) == ["any", "far2", "far2"])
        gate.open()
        for one in started:
            assert one.wait(PATIENCE_S).exit_code == 0


@pytest.mark.thorough
@pytest.mark.promise("L.place", "L.once")
def test_two_servers_that_are_each_others_nodes_run_what_they_are_given(nodes: Nodes, tmp_path: Path) -> None:
    """What a node is given for its room runs there, and is not passed on, back to where it came from at the
    worst.
    """
    gate = Gate(tmp_path / "gate")
    with nodes.opened() as client, Client(nodes.far[0].state_dir, start_server=False) as own:
        own.fleet.add("near", nodes.near.url, token=a_token(nodes.near, "far1"))
        wait_until(lambda: own.nodes()[0]["room"])
        started = [_start(client, gate, labels={"zone": "z1"}) for _ in range(3)]
        assert [_place(one) for one in started] == ["far1", "far1", "any"]
        gate.open()
        for one in started:
            assert one.wait().exit_code == 0


@pytest.mark.thorough
@pytest.mark.promise("L.once")
def test_a_node_that_is_away_gets_nothing_and_loses_nothing(nodes: Nodes, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with nodes.opened() as client:
        client.fleet.drain("local")
        first = client.start(f"{gate.wait}; echo far", needs={"labels": {"zone": "z1"}})
        nodes.proxies[0].cut()
        wait_until(lambda: client.nodes()[0]["state"] == "away")
        assert not first.info().is_reachable
        second = client.start(gate.wait, needs={"labels": {"zone": "z1"}})
        assert second.info().waits_for == "place"
        assert _place(_start(client, gate)) == "far2"
        nodes.proxies[0].heal()
        wait_until(lambda: _place(second) == "far1")
        gate.open()
        assert first.wait().exit_code == 0
        assert output_of(first) == (b"far\n", b"")
        assert second.wait().exit_code == 0


@pytest.mark.thorough
@pytest.mark.promise("L.once")
def test_a_killed_server_starts_each_waiting_command_once(nodes: Nodes, tmp_path: Path) -> None:
    gate, ran = Gate(tmp_path / "gate"), tmp_path / "ran"
    with nodes.opened() as client:
        started = [
            client.start(f"echo {number} >> {ran}; {gate.wait}", needs={"cpu": 1}) for number in range(8)
        ]
        wait_until(lambda: ran.exists() and len(ran.read_text().split()) == 5)
        nodes.near.restart()
        wait_until(lambda: all(one["state"] == "connected" for one in client.nodes()))
        wait_until(lambda: _room(client, "far1")["placed"] == 2)
        assert _room(client, "local")["placed"] == 1
        (here,) = (one for one in started if _place(one) == "local")
        here.cancel()
        assert here.wait().cause == "cancel"
        wait_until(lambda: len(ran.read_text().split()) == 6)
        started.remove(here)
        gate.open()
        for one in started:
            assert one.wait().exit_code == 0
        assert sorted(ran.read_text().split()) == [str(number) for number in range(8)]


@pytest.mark.thorough
@pytest.mark.promise("L.nodes.wall")
def test_a_node_is_kept_with_its_token_for_its_owner_only(nodes: Nodes) -> None:
    with nodes.opened() as client:
        kept = nodes.near.state_dir / "nodes" / "far1" / "node"
        assert kept.stat().st_mode & 0o777 == 0o600
        for address in ("ftp://x", "https://user:word@host"):
            with pytest.raises(InvalidRequest, match="url"):
                client.fleet.add("other", address)
        with pytest.raises(InvalidRequest, match="meaning of its own"):
            client.fleet.add("any", "https://host:1")
        with pytest.raises((InvalidRequest, BackendUnavailable)):
            client.start("true", backend="other")


@pytest.mark.promise("L.gpus")
def test_each_command_gets_gpus_of_its_own_also_after_a_kill(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    line = f"echo $CUDA_VISIBLE_DEVICES; {gate.wait}"
    server = OutliveServer(tmp_path / "state", args=("--capacity", "cpu=9,gpu=3"))
    with server, Client(server.state_dir, start_server=False) as client:
        first = client.start("echo $CUDA_VISIBLE_DEVICES; cat", stdin="pipe", needs={"gpu": 1})
        second = client.start(line, needs={"gpu": 2})
        assert second.info().needs == {"gpu": 2, "node": "local", "gpus": ["1", "2"]}
        server.restart()
        third = client.start(line, needs={"gpu": 0.5})
        assert third.info().waits_for == "place"
        first.close_stdin()
        wait_until(lambda: third.info().pid is not None)
        gate.open()
        for one, gpus in ((first, b"0\n"), (second, b"1,2\n"), (third, b"0\n")):
            assert one.wait().exit_code == 0
            assert output_of(one) == (gpus, b"")


@pytest.mark.promise("L.gpus")
def test_what_fits_on_no_single_gpu_of_a_node_waits_until_it_does(tmp_path: Path) -> None:
    """The node has as much free all together, so it is asked again each second, under the same id."""
    gate, mark = Gate(tmp_path / "gate"), tmp_path / "mark"
    near = OutliveServer(tmp_path / "near", args=("--capacity", "cpu=1,gpu=0"))
    far = OutliveServer(tmp_path / "far", args=("--capacity", "cpu=9,gpu=2"))
    with near, far, Client(near.state_dir, start_server=False) as client:
        client.fleet.add("far", far.url, token=a_token(far, "near"))
        wait_until(lambda: client.nodes()[0]["room"])
        parts = [client.start(gate.wait, needs={"gpu": 0.6}) for _ in range(2)]
        waits = client.start(f"echo x >> {mark}", needs={"gpu": 0.8})
        with Client(far.state_dir, start_server=False) as own:
            wait_until(
                lambda: [one.get("reason") for one in own.server.audit()["entries"]].count("no_room") > 2
            )
        wait_until(lambda: waits.info().waits_for == "place")  # but while the node is asked
        gate.open()
        assert [one.wait(PATIENCE_S).exit_code for one in (*parts, waits)] == [0, 0, 0]
    assert mark.read_text() == "x\n"


@pytest.mark.thorough
def test_a_node_gives_gpus_and_what_needs_none_is_told_of_none(nodes: Nodes) -> None:
    with nodes.opened() as client:
        for needs, told in (({"gpu": 1}, b"0\n"), ({"cpu": 1}, b"none\n")):
            started = client.start(
                "echo ${CUDA_VISIBLE_DEVICES-none}", needs={**needs, "labels": {"zone": "z1"}}
            )
            assert started.wait().exit_code == 0
            assert output_of(started) == (told, b"")


@pytest.mark.thorough
@pytest.mark.promise("L.unfit", "L.nodes")
def test_what_fits_no_machine_waits_for_one_and_is_named(nodes: Nodes, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    with nodes.opened() as client:
        runs = client.start(f"{gate.wait}; echo far", needs={"labels": {"zone": "z1"}})
        waits = client.start("true", needs={"labels": {"zone": "moon"}})
        found = client.fleet.list()
        assert (found["waiting"], found["unfit"]) == ([waits.process_id], [waits.process_id])
        with pytest.raises(InvalidState, match="no machine has room for it"):
            waits.write(b"x")
        far = client.nodes()[0]
        client.fleet.add("far1", far["address"], labels={"zone": "moon"})
        assert waits.wait().exit_code == 0
        assert client.fleet.list()["unfit"] == []
        gate.open()
        assert runs.wait().exit_code == 0
        assert output_of(runs) == (b"far\n", b"")


def _deeds(client: Client) -> list[tuple[str, str, str, str | None]]:
    """Return what the audit log has of nodes, oldest first."""
    entries = client.server.audit()["entries"]
    return [
        (one["what"], one["node"], one["decision"], one.get("reason"))
        for one in reversed(entries)
        if one["what"].startswith("node_")
    ]


@pytest.mark.thorough
@pytest.mark.promise("L.nodes.wall")
def test_changes_of_nodes_are_in_the_audit_log_and_what_was_started_here_makes_none(nodes: Nodes) -> None:
    with nodes.opened() as client:
        words = [sys.executable, "-m", "outlive", "node", "drain", "local"]
        started = client.start(words, grant="admin", env={"OUTLIVE_STATE_DIR": str(nodes.near.state_dir)})
        assert started.wait().exit_code not in {0, None}
        assert b"cannot change the machines" in output_of(started)[1]
        assert not client.fleet.list()["local"]["draining"]
        client.fleet.drain("far1")
        wait_until(lambda: len(_deeds(client)) == 4)
        told = _deeds(client)
        assert sorted(told[:2]) == [("node_add", f"far{number}", "allowed", None) for number in (1, 2)]
        assert told[2:] == [
            ("node_drain", "local", "denied", "scope_missing"),
            ("node_drain", "far1", "allowed", None),
        ]


@pytest.mark.promise("L.place")
def test_what_no_machine_could_run_waits_for_the_first_node_that_could(nodes: Nodes) -> None:
    """Also where the server had no node at all when it was asked."""
    far = nodes.far[0]
    with nodes.near, far, Client(nodes.near.state_dir, start_server=False) as client:
        waits = client.start("echo there", needs={"gpu": 1})
        assert client.fleet.list()["unfit"] == [waits.process_id]
        client.fleet.add("far1", far.url, token=a_token(far, "near"))
        assert waits.wait(PATIENCE_S).exit_code == 0
        assert (_place(waits), output_of(waits)) == ("far1", (b"there\n", b""))
