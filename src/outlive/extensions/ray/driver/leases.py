"""`RayLeases`: leases as detached placement groups of Ray, one a process, named by its id in the namespace
"outlive".

A group has one bundle, bound to a node by the node's id: Ray would move the group of a node that is lost
elsewhere, where nothing of ours runs. With the id it waits for a node that never comes back, and is made anew
where the process is. All calls block, and may be made in any thread.

Beside each group stands a key with its owner, id and node. The group is what counts; the key is what can be
listed: Ray keeps every group that ever was in its table, and reading 700 of them takes 10 ms of processor
time.
"""

import sys
import time
from collections.abc import Mapping
from typing import Any

import ray
from ray._private.state import available_resources_per_node
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_list, _internal_kv_put
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from outlive.core.needs import THOUSANDTHS, Amounts
from outlive.extensions.ray.driver.lease_keys import LeaseKey, read_keys
from outlive.extensions.ray.leases import LeaseOrder, LeaseReport, LeasingNode, SeenLease

NAMESPACE = "outlive"
_NODE_ID = "ray.io/node-id"  # a label that Ray gives each node
_KEYS = b"outlive"  # the keys' own namespace in Ray's key-value table
_ALL_KEYS = b"lease/"  # how they begin
# Where the room was taken by another one, Ray tries again each second: longer than that, so that room that
# becomes free is found.
_ROOM_S = 2.5
# A group that was removed frees its name after some milliseconds.
_GONE_S = 5.0
_LOOK_S = 0.005
# The groups themselves are read when nodes have come or gone, and so often beside: a control server that has
# lost them is noticed.
_VERIFY_S = 60.0
_SHOWN = 3  # of the keys that are passed over, in the log


class RayLeases:
    """Takes leases, gives them back and looks at all of them, for one server (`owner`)."""

    def __init__(self, owner: str) -> None:
        """Use the connection that `ray.init` has made."""
        self._owner = owner
        self._ids: dict[str, str] = {}  # of the nodes that are there, by name
        self._verified: tuple[frozenset[str], float] | None = (
            None  # with which nodes the groups were read, and when
        )
        self._others: dict[str, list[bytes]] = {}  # keys that other servers have written, by process
        self._has_told = False  # that there are keys of others
        self._missing: frozenset[str] = frozenset()  # processes whose group was not where its key says

    def carry_out(self, order: LeaseOrder) -> str:
        """Do what is ordered; return why it could not be done, "" when it was.

        Raises what Ray does where its control server does not answer, or another server asks for the same
        lease just now.
        """
        if not order.node:
            self._give_back(order.process_id)
            return ""
        node_id = self._ids.get(order.node) or self._look_for_nodes().get(order.node)
        if node_id is None:
            return f"Ray knows no node {order.node!r} that is there"
        found = _group_of(order.process_id)
        if found is not None:
            if _node_of(found) == node_id:
                return ""
            self._give_back(order.process_id)
        key = LeaseKey(self._owner, order.process_id, node_id).encode()
        # Before the group: one that is there without a key would be given back by no server.
        _internal_kv_put(key, b"", namespace=_KEYS)
        group = placement_group(
            [_bundle(order.amounts)],
            strategy="STRICT_PACK",
            name=order.process_id,
            lifetime="detached",
            bundle_label_selector=[{_NODE_ID: node_id}],
        )
        if group.wait(_ROOM_S) and _node_of(placement_group_table(group)) == node_id:
            self._missing -= {order.process_id}
            return ""
        self._give_back(order.process_id)
        return "another one was first"

    def look(self) -> LeaseReport:
        """Return what there is and what is leased."""
        nodes = {one["NodeID"]: one for one in ray.nodes() if one["Alive"]}
        names = {node_id: name_of(one) for node_id, one in nodes.items()}
        self._ids = {name: node_id for node_id, name in names.items()}
        keys, odd = read_keys(_internal_kv_list(_ALL_KEYS, namespace=_KEYS))
        if odd and not self._has_told:
            self._has_told = True
            sys.stderr.write(f"keys that no server of ours has written are passed over: {odd[:_SHOWN]}\n")
        others: dict[str, list[bytes]] = {}
        for key in keys:
            if key.owner != self._owner:
                others.setdefault(key.process_id, []).append(key.encode())
        self._others = others  # at once: other threads read it
        self._verify(keys, frozenset(nodes))
        free = available_resources_per_node()
        return LeaseReport(
            nodes=tuple(
                LeasingNode(
                    name=names[node_id],
                    capacity=_amounts(one["Resources"]),
                    free=_amounts(free.get(node_id, {})),
                    labels={name: value for name, value in one["Labels"].items() if "/" not in name},
                )
                for node_id, one in nodes.items()
            ),
            leases=tuple(
                SeenLease(
                    process_id=key.process_id,
                    node="" if key.process_id in self._missing else names.get(key.node_id, ""),
                    is_ours=key.owner == self._owner,
                )
                for key in keys
            ),
        )

    def _verify(self, keys: list[LeaseKey], nodes: frozenset[str]) -> None:
        """Note which groups are not where their keys say, where that may have changed."""
        now = time.monotonic()
        if self._verified is not None and self._verified[0] == nodes and now - self._verified[1] < _VERIFY_S:
            return
        places = {
            group["name"]: _node_of(group) for group in placement_group_table().values() if _node_of(group)
        }
        self._missing = frozenset(key.process_id for key in keys if places.get(key.process_id) != key.node_id)
        self._verified = (nodes, now)

    def _look_for_nodes(self) -> Mapping[str, str]:
        self._ids = {name_of(one): one["NodeID"] for one in ray.nodes() if one["Alive"]}
        return self._ids

    def _give_back(self, process_id: str) -> None:
        """Remove a group and wait until its name is free; one that is not there is a success."""
        deadline = time.monotonic() + _GONE_S
        while (found := _group_of(process_id)) is not None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the placement group of {process_id} does not go away")
            remove_placement_group(found["group"])
            time.sleep(_LOOK_S)
        own = _internal_kv_list(LeaseKey(self._owner, process_id, "").encode(), namespace=_KEYS)
        # Also what the server has written from which this one has adopted the command: it may be gone for
        # good.
        others = self._others.pop(process_id, [])
        if not own and not others:  # it was adopted, and has ended, since the last look
            keys, _ = read_keys(_internal_kv_list(_ALL_KEYS, namespace=_KEYS))
            others = [key.encode() for key in keys if key.process_id == process_id]
        for key in (*own, *others):
            _internal_kv_del(key, namespace=_KEYS)


def _group_of(process_id: str) -> dict[str, Any] | None:
    """Return what Ray knows of a process's group, the group itself as `group`; None where there is none."""
    try:
        group: PlacementGroup = get_placement_group(process_id)
    except ValueError:
        return None
    found: dict[str, Any] = placement_group_table(group)
    if not found or found["state"] == "REMOVED":
        return None
    return {**found, "group": group}


def _node_of(group: Mapping[str, Any]) -> str:
    """Return the id of the node on which a group is; "" while it is on none."""
    return str(group["bundles_to_node_id"].get(0, "")) if group.get("state") == "CREATED" else ""


def name_of(node: Mapping[str, Any]) -> str:
    """Return the name that was given to a node (`ray start --node-name`), or its address."""
    return str(node.get("NodeName") or node["NodeManagerAddress"])


def _bundle(amounts: Amounts) -> dict[str, float]:
    found = {
        "CPU": amounts.cpu_milli / THOUSANDTHS,
        "memory": amounts.memory_bytes,
        "GPU": amounts.gpu_milli / THOUSANDTHS,
    }
    return {name: value for name, value in found.items() if value}


def _amounts(resources: Mapping[str, float]) -> Amounts:
    return Amounts.of(
        cpu=resources.get("CPU", 0), memory_bytes=int(resources.get("memory", 0)), gpu=resources.get("GPU", 0)
    )
