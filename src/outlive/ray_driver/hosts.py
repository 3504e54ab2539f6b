"""`RayHosts`: asks the nodes of Ray for their outlive servers, by a `NodeHost` on each."""

import time
import traceback
from collections.abc import Iterator
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from outlive.placement.leases import FoundNode
from outlive.ray_driver.leases import name_of
from outlive.ray_driver.node_host import NodeHost

# A node where outlive is not installed, or does not start, is asked again so often.
_AGAIN_S = 60.0


class RayHosts:
    """Which nodes have said where their servers are. Used by one thread."""

    def __init__(self, owner: str) -> None:
        """Ask on behalf of a server."""
        self._owner = owner
        self._asked: dict[str, Any] = {}  # references to what they will answer, by the nodes' ids
        self._done: set[str] = set()
        self._again: dict[str, float] = {}

    def look(self) -> Iterator[FoundNode]:
        """Ask nodes that are new, and yield those that have answered."""
        now = time.monotonic()
        for node in ray.nodes():
            node_id = node["NodeID"]
            # One without processors and GPUs takes no command that needs something.
            is_useful = node["Alive"] and (node["Resources"].get("CPU") or node["Resources"].get("GPU"))
            is_asked = node_id in self._asked or node_id in self._done
            if is_useful and not is_asked and now >= self._again.get(node_id, 0):
                self._asked[node_id] = (name_of(node), self._ask(node_id, node["NodeManagerAddress"]))
        for node_id, (name, answer) in list(self._asked.items()):
            if not ray.wait([answer], timeout=0)[0]:
                continue
            del self._asked[node_id]
            try:
                url, token = ray.get(answer)
            except Exception:  # noqa: BLE001 - Ray raises many kinds: the node is asked again
                traceback.print_exc()
                self._again[node_id] = now + _AGAIN_S
            else:
                self._done.add(node_id)
                yield FoundNode(name=name, url=url, token=token)

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
