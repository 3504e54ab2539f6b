"""What a storm over a fleet strikes: `StormFleet`, a gateway and two nodes behind relays, places counted by
the gateway or by Ray.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from outlive.client import Client
from tests.extensions.fleet.pairs import PROXY_HOST, Proxy, a_token
from tests.extensions.ray.cluster import RayCluster
from tests.keeper.client import until
from tests.keeper.house import House
from tests.support.server import OutliveServer

NODES = ("n1", "n2")
_PATIENCE_S = 120.0  # of a busy machine on which Ray starts
# Random bytes by the hundred megabytes hold what looks like a password in an address now and then. Nothing is
# forgotten before it was judged, and every client has a connection of its own.
_WORDS = ("--redact", "off", "--retention-count", "1000000", "--max-connections", "1000")


class StormFleet:
    """A gateway, two nodes, a relay before each, and each one's keeper (`houses`).

    Leaving it ends all and finds what was left.

    Attributes:
        near: The gateway.
        far: The nodes' servers, by name.
        links: The relays between.
        houses: The keepers of all three, the gateway's as "local".
        cluster: Of Ray, whose raylets have the nodes' names; None where the gateway counts.
    """

    def __init__(self, folder: Path, *, cluster: RayCluster | None, cpus: float, own_cpus: float) -> None:
        """Describe them; `cpus` are those of each node, `own_cpus` what the gateway gives of its own
        machine.
        """
        self.cluster = cluster
        self._stack = contextlib.ExitStack()
        words: tuple[str, ...] = (*_WORDS, "--capacity", f"cpu={own_cpus},gpu=0")
        environment: Mapping[str, str] = {}
        if cluster is not None:
            words += ("--placement", "ray", "--ray-address", cluster.address)
            environment = cluster.environment
        self.near = OutliveServer(folder / "near", args=words, env=environment)
        node_words = (*_WORDS, "--capacity", f"cpu={cpus},gpu=0", "--public-name", PROXY_HOST)
        self.far = {name: OutliveServer(folder / name, args=node_words) for name in NODES}
        self.links: dict[str, Proxy] = {}
        self.houses: dict[str, House] = {}

    def __enter__(self) -> Self:
        """Start all, and return once both nodes take commands."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.near)
            self._hold(stack, "local", self.near)
            with Client(self.near.state_dir, start_server=False) as client:
                for name, server in self.far.items():
                    stack.enter_context(server)
                    self._hold(stack, name, server)
                    link = self.links[name] = stack.enter_context(Proxy(server.port))
                    token = a_token(server, "near")
                    client.fleet.add(name, f"http://{PROXY_HOST}:{link.port}", token=token)
                until(lambda: all(map(_is_open, client.nodes())), "both nodes", patience_s=_PATIENCE_S)
            self._stack = stack.pop_all()
        return self

    def _hold(self, stack: contextlib.ExitStack, name: str, server: OutliveServer) -> None:
        house = self.houses[name] = House(server.state_dir)
        house.client.connect()
        stack.callback(house.client.close)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _place: TracebackType | None
    ) -> None:
        """End all."""
        self._stack.close()

    @property
    def servers(self) -> dict[str, OutliveServer]:
        """All three, by the names of their houses."""
        return {"local": self.near, **self.far}

    def waiting(self) -> tuple[str, ...]:
        """Return the ids of the commands that wait for a place, the next first."""
        with Client(self.near.state_dir, start_server=False) as client:
            return tuple(client.fleet.list()["waiting"])

    def held(self) -> list[str]:
        """Return who still counts a command: there is none where all was given back."""
        found = []
        for name, server in self.servers.items():
            with Client(server.state_dir, start_server=False) as client:
                listed = client.fleet.list()
            rooms = {
                name: listed["local"],
                **{f"{name}, {one['name']}": one["room"] for one in listed["nodes"]},
            }
            found += [f"{key}: {room['placed']} placed" for key, room in rooms.items() if room["placed"]]
            found += [f"{name}: {len(listed['waiting'])} wait"] if listed["waiting"] else []
        if self.cluster is not None:
            found += [f"Ray: {one}" for one in sorted(self.cluster.groups())]
        return found


def _is_open(node: Mapping[str, Any]) -> bool:
    return node["state"] == "connected" and node["room"] is not None and not node["room"]["draining"]
