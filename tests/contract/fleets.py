"""Two nodes and the server that places commands on them, counted by itself or leased by Ray.

What it starts alternates between them.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outlive.client import Client
from tests.extensions.fleet.pairs import a_token, wait_until
from tests.extensions.ray.cluster import RayCluster
from tests.support.server import OutliveServer

# A hundredth of a processor: a test that starts thirty commands waits for none of them.
_CPU = 0.01
CPU_WORD = f"cpu={_CPU}"
_CAPACITY = "cpu=2,gpu=0"  # as much as each of the cluster's raylets has
_LABEL = "half"
_OPEN_S = 90.0  # Ray's driver loads Ray first, on a machine that may be busy


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A server on which another one starts commands, with the token that it has for that."""

    server: OutliveServer
    token: str

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """Return a client that sees what the other server sees."""
        with Client(url=self.server.url, token=self.token) as client:
            yield client


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The server that is asked, and its nodes by their names."""

    near: OutliveServer
    nodes: Mapping[str, Node]

    def needs(self) -> Iterator[Mapping[str, Any]]:
        """Yield for ever the options of a start that say what it needs: one of the nodes in turn, then
        any.
        """
        bound: list[Mapping[str, Any]] = [{"cpu": _CPU, "labels": {_LABEL: name}} for name in self.nodes]
        return itertools.cycle([{"needs": needs} for needs in (*bound, {"cpu": _CPU})])


@contextlib.contextmanager
def open_fleet(folder: Path, cluster: RayCluster | None) -> Iterator[Fleet]:
    """Start the servers; `cluster` leases the places, if there is one.

    Commands that say nothing are placed, too.
    """
    words = ["--backend", "any"]
    env: dict[str, str] = {}
    if cluster is not None:
        words += ["--placement", "ray", "--ray-address", cluster.address]
        env = cluster.environment
    with contextlib.ExitStack() as stack:
        servers = {
            name: stack.enter_context(OutliveServer(folder / name, args=("--capacity", _CAPACITY)))
            for name in ("n1", "n2")
        }
        near = stack.enter_context(OutliveServer(folder / "near", args=words, env=env))
        nodes = {name: Node(server=server, token=a_token(server, "near")) for name, server in servers.items()}
        with Client(near.state_dir, start_server=False) as client:
            client.fleet.drain("local")
            for name, node in nodes.items():
                url = f"http://127.0.0.1:{node.server.port}"
                client.fleet.add(name, url, token=node.token, labels={_LABEL: name})
        wait_connected(near)
        others = _leases(near) if cluster is not None else 0
        yield Fleet(near=near, nodes=nodes)
        if cluster is not None:
            _give_back(near, others)


def wait_connected(near: OutliveServer, *, is_placing: bool = True) -> None:
    """Wait until all nodes of a server are connected, if it has any, and where it places commands on them
    take some.
    """
    with Client(near.state_dir, start_server=False) as client:
        wait_until(
            lambda: all(
                _is_open(one) if is_placing else one["state"] == "connected" for one in client.nodes()
            ),
            patience_s=_OPEN_S,
        )


def _is_open(node: Mapping[str, Any]) -> bool:
    room = node["room"]
    return node["state"] == "connected" and room is not None and not room["draining"]


def _leases(near: OutliveServer) -> int:
    """Return how many leases there are, those of other servers included."""
    with Client(near.state_dir, start_server=False) as client:
        return sum(one["room"]["placed"] for one in client.nodes())


def _give_back(near: OutliveServer, others: int) -> None:
    """End all that a server runs and wait until no more leases are left than others have."""
    wait_connected(near)
    with Client(near.state_dir, start_server=False) as client:
        for info in client.list(active=True):
            client.remove(info.process_id, force=True)
    wait_until(lambda: _leases(near) <= others)
