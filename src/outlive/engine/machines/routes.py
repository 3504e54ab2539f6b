"""`NodeRoutes`: where requests to nodes go.

`extensions.fleet.routes` has the one that reaches them, `NoRoutes` reaches none.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from outlive.backends.contract import NodeState
from outlive.core.errors import ConfigInvalid
from outlive.core.identity import ProcessId
from outlive.store.machines.node_files import NodeEntry


class NodeRoutes(Protocol):
    """Where requests to nodes go (`extensions.fleet.routes`)."""

    @property
    def declared(self) -> Mapping[str, str]:
        """The addresses of the nodes that settings name."""

    def check(self, entry: NodeEntry) -> NodeEntry:
        """Return an entry with its address as it is asked.

        Raises:
            ConfigInvalid: The address is none, or the authority's file cannot be read.
        """

    async def put(self, name: str, entry: NodeEntry | None) -> None:
        """Reach a node as an entry says from now on, or (None) as the settings say, or not any more."""

    def states(self) -> dict[str, NodeState]:
        """Return what is known of them."""

    async def ask(self, name: str, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a node's answer to any other method (docs/jsonrpc.md), which may be repeated.

        Raises:
            OutliveError: What the node says, or that it does not answer.
        """

    async def adopt(
        self, name: str, process_id: ProcessId, spec: bytes, *, pid: int, started_ns: int
    ) -> None:
        """Follow a process that a node runs already; `spec` describes it here. It is kept when this returns.

        Raises:
            InvalidRequest: The id is taken.
            LimitExceeded: `disk_full`.
        """

    async def ask_files(
        self, name: str, method: str, params: Mapping[str, Any], data: bytes | memoryview
    ) -> Mapping[str, Any]:
        """Return a node's answer to a method about files (`operations.files`).

        The bytes of a piece are its member `data`.

        Raises:
            OutliveError: What the node says, or that it does not answer.
        """


class NoRoutes:
    """No other server is reached (see `NodeRoutes`)."""

    @property
    def declared(self) -> Mapping[str, str]:
        """Return no addresses."""
        return {}

    def check(self, entry: NodeEntry) -> NodeEntry:
        """Refuse every node."""
        raise ConfigInvalid("config_invalid", f"This server reaches no other one: {entry.name!r}.")

    async def put(self, name: str, entry: NodeEntry | None) -> None:
        """Do nothing."""

    def states(self) -> dict[str, NodeState]:
        """Return none."""
        return {}

    async def ask(self, name: str, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse: there is no such node."""
        raise AssertionError(f"no node was named: {name} {method} {len(params)}")

    async def adopt(
        self, name: str, process_id: ProcessId, spec: bytes, *, pid: int, started_ns: int
    ) -> None:
        """Refuse: there is no such node."""
        raise AssertionError(f"no node was named: {name} {process_id} {len(spec)} {pid} {started_ns}")

    async def ask_files(
        self, name: str, method: str, params: Mapping[str, Any], data: bytes | memoryview
    ) -> Mapping[str, Any]:
        """Refuse: there is no such node."""
        raise AssertionError(f"no node was named: {name} {method} {len(params)} {len(data)}")
