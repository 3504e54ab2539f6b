"""`RayHosts`: asks the nodes of Ray for their outlive servers, by a `NodeHost` on each, a detached actor that
starts or finds the node's own server, and lets others use it.

The server is no child of the actor: it lives in a session of its own, with the environment of the raylet
instead of the worker's (which hides GPUs), and goes on without actor, raylet and Ray.
"""

import contextlib
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from outlive.config.options import is_loopback
from outlive.core.documents import decode_json
from outlive.core.errors import ProcessNotFound
from outlive.core.layout import Layout
from outlive.discovery.state_folder import layout_of
from outlive.extensions.ray.driver.leases import name_of
from outlive.kernel.files import read_small
from outlive.kernel.folder_identity import claim_folder
from outlive.kernel.locks import holder_of
from outlive.kernel.state_files import is_stopped
from outlive.placement.contract import FoundNode
from outlive.policy.access import Scope
from outlive.store.token_file import TokenFile

# A server that has to make its keeper and its registry is ready in a second, on a machine that is busy in
# ten.
_READY_S = 60.0
_LOOK_S = 0.05
_RAY = b"RAY_"  # Ray's own settings, its token among them: no command is to see them
_EVERYWHERE = frozenset({"0.0.0.0", "::"})
# All servers that lease places of a cluster are one caller on its nodes: what one has started, another one
# may adopt. A program that reaches Ray can run anything on all of them anyway.
_PRINCIPAL = "cluster:ray"
_NAME_LETTERS = 24  # of a server's name in the name of its token


class NodeHost:
    """The server of one node, found or started. Ray makes it again where its process dies."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._tokens: dict[str, str] = {}  # by the server that they were made for

    def admit(self, owner: str) -> tuple[str, str]:
        """Return where this node's server is, and a token for another server: the same as long as that
        counts, else a new one.

        Raises:
            TimeoutError: The server does not start; its log says why.
            RuntimeError: An operator has stopped it.
            LookupError: It serves no TCP port.
        """
        layout = _served()
        url = self._url(layout)
        token, files, name = self._tokens.get(owner), TokenFile(layout), f"ray-{owner[:_NAME_LETTERS]}"
        if token is None or all(one.name != name for one in files.read()):
            with contextlib.suppress(ProcessNotFound):
                files.revoke(name)
            now = datetime.now(UTC)
            token = self._tokens[owner] = files.create(name, Scope.RUN, now=now, acts_for=_PRINCIPAL)[1]
        return url, token

    def _url(self, layout: Layout) -> str:
        url = str(decode_json(read_small(layout.server_ports) or b"{}").get("url") or "")
        if not url:
            raise LookupError("the node's outlive server serves no TCP port")
        parts = urlsplit(url)
        if parts.hostname in _EVERYWHERE:
            host = f"[{self._address}]" if ":" in self._address else self._address
            return f"{parts.scheme}://{host}:{parts.port}"
        return url


def _served() -> Layout:
    """Return the state folder of this node's server, which is started where none runs."""
    environment = _environment_of(os.getppid())
    for name in ("OUTLIVE_STATE_DIR", "XDG_STATE_HOME", "HOME"):
        if name in environment:
            os.environ[name] = environment[name]
    layout = layout_of(None)
    if _is_ready(layout):
        return layout
    if is_stopped(layout):
        raise RuntimeError(
            "an operator has stopped the node's outlive server: `outlive serve` there brings it back"
        )
    os.makedirs(layout.root, mode=0o700, exist_ok=True)
    claim_folder(layout)  # its format is the first file in it
    with open(f"{layout.root}/server.log", "ab") as log:
        # The shell leaves it behind: Ray ends a worker's children with the worker.
        words = (sys.executable, "-m", "outlive", "serve")
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", *words],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=True,
        )
    deadline = time.monotonic() + _READY_S
    while not _is_ready(layout):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the node's outlive server does not start: see {layout.root}/server.log")
        time.sleep(_LOOK_S)
    return layout


def _is_ready(layout: Layout) -> bool:
    pid = decode_json(read_small(layout.server_ports) or b"{}").get("pid")
    return pid is not None and holder_of(layout.server_lock) == pid


def _environment_of(raylet: int) -> dict[str, str]:
    """Return what the raylet was started with, without Ray's own."""
    with open(f"/proc/{raylet}/environ", "rb") as file:
        members = [member.partition(b"=") for member in file.read().split(b"\0") if member]
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in members if not name.startswith(_RAY)}


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
