"""Where requests to nodes go: `FleetRoutes`, which imports the rest of this folder, and with it the client,
for the first node; few servers have one.
"""

import os
from collections.abc import Mapping
from typing import Any

from outlive.backends.contract import NodeState
from outlive.backends.routing import Route, Routing
from outlive.config import Settings
from outlive.config.options import websocket_url
from outlive.core.errors import ConfigInvalid
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.values import replace
from outlive.extensions.fleet.joined.lanes import JoinedNodes
from outlive.extensions.fleet.node_files import NodeEntry, NodeFiles
from outlive.extensions.fleet.options import FleetOptions


class FleetRoutes:
    """Reaches the nodes of settings and files, and those that are added while the server runs.

    Attributes:
        backends: The nodes' backends by name, those included that only have processes from before.
        routing: The table of places, in which nodes come and go; set once it has been made.
    """

    def __init__(self, settings: Settings, layout: Layout, joined: JoinedNodes) -> None:
        """Take the settings; `joined` has the nodes that dial in.

        Raises:
            ConfigInvalid: The file of the nodes' tokens cannot be used.
        """
        self._options = settings.of(FleetOptions)
        self._layout = layout
        self.backends = _backends(self._options, layout, joined)
        self._joined = joined
        self.routing: Routing | None = None

    @property
    def declared(self) -> Mapping[str, str]:
        """The addresses of the nodes that settings name."""
        return self._options.node_addresses

    def check(self, entry: NodeEntry) -> NodeEntry:
        """Return an entry with its address as it is asked.

        Raises:
            ConfigInvalid: The address is none, or the authority's file cannot be read.
        """
        try:
            url = websocket_url(entry.url)
        except ValueError as error:
            raise ConfigInvalid("config_invalid", f"url: {error}.") from error
        if entry.ca and not os.path.isfile(entry.ca):
            raise ConfigInvalid("config_invalid", f"ca: there is no file {entry.ca!r}.")
        # Of a node that was found no operator says by which authority it is known.
        return replace(entry, url=url, ca=entry.ca or (self._options.node_ca if entry.is_found else ""))

    async def put(self, name: str, entry: NodeEntry | None) -> None:
        """Reach a node as the entry says, or (None) as the settings say, or not any more."""
        from outlive.extensions.fleet.ways import node_backend, way_to  # noqa: PLC0415 - start-up time: 50 ms

        routing = self._opened()
        backend = self.backends.get(name)
        if backend is None:
            backend = node_backend(name, self._options, self._layout, entry=entry, joined=self._joined)
            await routing.put(name, Route(kind="node", backend=backend))
            self.backends[name] = (
                backend  # not before: one that could not be opened is made anew, not reached otherwise
            )
        else:
            way = way_to(name, self._options, entry=entry, joined=self._joined)
            await backend.reconnect(way.connection, address=way.address, pauses=way.pauses)
        if entry is None:
            self._joined.forget(name)
        if entry is None and name not in self.declared and not backend.nodes()[name].processes:
            del self.backends[name]
            await routing.drop(name)

    def states(self) -> dict[str, NodeState]:
        """Return what is known of the nodes."""
        return self._opened().nodes()

    async def ask(self, name: str, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a node's answer to a method (docs/jsonrpc.md), which may be repeated.

        Raises:
            OutliveError: What the node says, or that it does not answer.
        """
        asking = self.backends[name].requests.over(lambda node: node.request(method, params))
        found: Mapping[str, Any] = await asking
        return found

    async def adopt(
        self, name: str, process_id: ProcessId, spec: bytes, *, pid: int, started_ns: int
    ) -> None:
        """Follow a process that a node runs already; `spec` describes it here. It is kept when this returns.

        Raises:
            InvalidRequest: The id is taken.
            LimitExceeded: `disk_full`.
        """
        await self.backends[name].adopt(process_id, spec, pid=pid, started_ns=started_ns)

    async def ask_files(
        self, name: str, method: str, params: Mapping[str, Any], data: bytes | memoryview
    ) -> Mapping[str, Any]:
        """Return a node's answer to a method about files."""
        asking = self.backends[name].requests.plainly(lambda node: node.files(method, params, data))
        found: Mapping[str, Any] = await asking
        return found

    def _opened(self) -> Routing:
        if self.routing is None:
            raise AssertionError("the engine has been made")
        return self.routing


def _backends(options: FleetOptions, layout: Layout, joined: JoinedNodes) -> dict[str, Any]:
    """Return each node's `RemoteBackend`, a type that is not imported for it."""
    if not options.nodes and not os.path.isdir(layout.nodes):
        return {}
    from outlive.extensions.fleet.ways import node_backends  # noqa: PLC0415 - start-up time: 50 ms

    entries = {entry.name: entry for entry in NodeFiles(layout).read() if entry.is_reached}
    return dict(node_backends(options, layout, entries, joined=joined))
