"""`RayHosts`: asks the nodes of Ray for their outlive servers, by a `NodeHost` on each."""

import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any, NamedTuple

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from outlive.config.options import is_loopback
from outlive.extensions.ray.driver.leases import name_of
from outlive.extensions.ray.driver.node_host import NodeHost
from outlive.placement.contract import FoundNode

# So often a node is asked again: its server may have died, have another address by now, or have been
# installed at last.
_AGAIN_S = 20.0


class _AskedNode(NamedTuple):
    """A node that was asked: its name and address in the cluster, and a reference to what it will answer."""

    name: str
    address: str
    answer: Any


class RayHosts:
    """What the nodes say of where their servers are. Used by one thread."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._asked: dict[str, _AskedNode] = {}  # by the nodes' ids
        self._again: dict[str, float] = {}  # when nodes that are there are asked again

    def look(self) -> Iterator[FoundNode]:
        """Ask nodes that are new, and the others from time to time.

        Yield those that have answered, the same again, too.
        """
        now = time.monotonic()
        alive = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
        self._again = {node_id: at for node_id, at in self._again.items() if node_id in alive}
        for node_id, node in alive.items():
            # One without processors and GPUs takes no command that needs something.
            is_useful = node["Resources"].get("CPU") or node["Resources"].get("GPU")
            if is_useful and node_id not in self._asked and now >= self._again.get(node_id, 0):
                address = node["NodeManagerAddress"]
                self._asked[node_id] = _AskedNode(name_of(node), address, self._ask(node_id, address))
        for node_id, asked in list(self._asked.items()):
            if not ray.wait([asked.answer], timeout=0)[0]:
                continue
            del self._asked[node_id]
            self._again[node_id] = now + _AGAIN_S
            try:
                url, token = ray.get(asked.answer)
            except Exception:  # noqa: BLE001 - Ray raises many kinds: the node is asked again
                traceback.print_exc()
                continue
            # It would be another server, on this machine, that got the token and the commands.
            if is_loopback(url) and asked.address != ray.util.get_node_ip_address():
                sys.stderr.write(
                    f"the node {asked.name} is not used: its server listens for its own machine only ({url});"
                    " start Ray there with OUTLIVE_HOST=0.0.0.0 (docs/fleet.md)\n"
                )
                continue
            yield FoundNode(name=asked.name, url=url, token=token)

    def _ask(self, node_id: str, address: str) -> ray.ObjectRef:
        actor = (
            ray.remote(NodeHost)
            .options(
                name=f"node-host/{node_id}",
                lifetime="detached",
                get_if_exists=True,
                max_restarts=-1,
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
            .remote(address)
        )
        return actor.admit.remote(self._owner)
