"""What an extension adds to a server (`ServerPart`), and what it is given there: `Given`, then `Built`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Self

from starlette.routing import BaseRoute

from outlive.backends.contract import Backend
from outlive.backends.routing import Route, Routing
from outlive.config import Settings
from outlive.core.layout import Layout
from outlive.core.values import dataclass
from outlive.engine import Engine
from outlive.engine.commands.elsewhere import ContainerPlaces, RemoteFiles
from outlive.engine.commands.notices import Notices
from outlive.engine.terminals import Terminals
from outlive.frontends.jsonrpc.door import JsonRpcFrontend
from outlive.observability.metrics import Family
from outlive.placement.contract import Placement
from outlive.placement.fleet import FleetNode
from outlive.server.access.authenticator import Entrance
from outlive.server.access.peers import Peers
from outlive.server.limiters import Take
from outlive.server.operations import Carrier


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The server that an extension's part belongs to, before its engine is made.

    Attributes:
        settings: What the user chose; `settings.of` has an extension's own options.
        layout: The state folder.
        working_folder: Where commands run by default.
        own_files: Outlive's files outside of the state folder: settings, tokens, keys.
        ports: The open ports by their names.
        environ: The server's environment.
    """

    settings: Settings
    layout: Layout
    working_folder: str
    own_files: tuple[str, ...]
    ports: Mapping[str, int]
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The parts of a server that is built and not yet open.

    Attributes:
        engine: The engine.
        routing: The places where commands run; they may come and go.
        terminals: The hosts of terminals; they join it as they come.
        sessions: Serves a JSON-RPC session over a connection.
        peers: Names the process that has opened a connection.
        take: Counts a message of a principal, and returns the seconds to wait before it is read.
        metric_families: Returns every metric, with its values at this moment.
    """

    engine: Engine
    routing: Routing
    terminals: Terminals
    sessions: JsonRpcFrontend
    peers: Peers
    take: Take
    metric_families: Callable[[], Sequence[Family]]


class ServerPart:
    """An extension's share of one server: a subclass overrides what it brings.

    In this order: made, asked for `backends` and `placement`, `join` with the engine, asked for `routes`.
    `begin` comes before the engine is opened, and `end` after it is closed. `async with` opens the part when
    the engine is open and closes it before the engine; `hang_up` comes earlier, to end what clients merely
    keep open.

    Attributes:
        containers: The containers of this machine.
        remote_files: The files of nodes.
        notices: The notices of processes that ask for them.
        passes_trace: Whether commands get the span that they are as TRACEPARENT.
        entrance: Judges callers at one path by what they show there, instead of tokens and uids.
        endpoints: Paths to show on the front page, by their names.
        token_paths: Paths of upgrades at which tokens of the scope bridge count.
        socket_hint: A sentence for a WebSocket that found no endpoint.
    """

    containers: ContainerPlaces | None = None
    remote_files: RemoteFiles | None = None
    notices: Notices | None = None
    passes_trace: bool = False
    entrance: Entrance | None = None
    endpoints: Mapping[str, str] = MappingProxyType({})
    token_paths: frozenset[str] = frozenset()
    socket_hint = ""

    def __init__(self, given: Given) -> None:
        """Take the server; open nothing."""
        self.given = given

    def backends(self, local: Backend) -> Mapping[str, Route]:  # noqa: ARG002 -- for those that override it
        """Return places where commands run, by the names that `--backend` takes; `local` is the keeper's."""
        return {}

    def placement(self, this_machine: FleetNode) -> Placement | None:  # noqa: ARG002 -- as above
        """Return what gives places out if `--placement` names this extension, None otherwise."""
        return None

    def join(self, built: Built) -> None:
        """Take the engine and what else was made."""

    def routes(self) -> Sequence[BaseRoute]:
        """Return what the HTTP server answers."""
        return ()

    def carriers(self) -> Mapping[str, Carrier]:
        """Return what carries out the extension's operations, by their names."""
        return {}

    def health(self) -> Mapping[str, object]:
        """Return members for the answer of /health."""
        return {}

    def families(self) -> Iterable[Family]:
        """Return metrics."""
        return ()

    async def begin(self) -> None:
        """Get ready for an engine that is about to open."""

    async def end(self) -> None:
        """Let go of what the engine needed to the end."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        return None

    def hang_up(self) -> None:
        """End what clients merely keep open."""
