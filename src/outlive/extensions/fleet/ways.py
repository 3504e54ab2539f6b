"""From settings to the backends of other servers: `node_backends`. Beside `app`, which has them routed to."""

import os
import stat
from collections.abc import Mapping
from types import MappingProxyType

from outlive.client.asyncio_runtime import AsyncioRuntime
from outlive.client.link import Address, Way
from outlive.client.runtime import ConnectionLost, Runtime, Transport, Unreachable
from outlive.core.errors import BackendUnavailable, ConfigInvalid
from outlive.core.layout import Layout
from outlive.core.values import dataclass
from outlive.extensions.fleet.backend import RemoteBackend
from outlive.extensions.fleet.joined.lanes import JoinedNodes, Lane, NodeSocket
from outlive.extensions.fleet.link import Pauses
from outlive.extensions.fleet.node_client import NodeClient
from outlive.extensions.fleet.node_files import NodeEntry
from outlive.extensions.fleet.options import FleetOptions
from outlive.extensions.fleet.processes import known_nodes
from outlive.files.documents import MAX_TOKEN_BYTES, read_named
from outlive.kernel.calls import punch_hole

# A connection that lay ready while the link was cut looks as good as any other until the node does not answer
# on it. The node is reported as away after 4.5 s of silence (`extensions.fleet.link`); looking at its spare
# must not take longer.
_ANSWERS_S = 3.0
_PATIENCE_S = 15.0  # then the reason is given once more, and the wait goes on


class _TakenTransport:
    """One of them as a `Transport`; its first message was read already."""

    def __init__(self, opened: NodeSocket, first: str | bytes) -> None:
        self._opened = opened
        self._first: str | bytes | None = first

    async def send(self, frame: str | bytes) -> None:
        try:
            await self._opened.send(frame)
        except EOFError as error:
            raise ConnectionLost(was_sent=False) from error

    async def receive(self, timeout_s: float | None) -> str | bytes:
        first, self._first = self._first, None
        if first is not None:
            return first
        try:
            return await self._opened.receive(timeout_s)
        except EOFError as error:
            raise ConnectionLost from error

    async def close(self) -> None:
        self._opened.close()


class JoinedAddress:
    """One node that dials in.

    Attributes:
        is_started_here: No server is started for it.
        was_reached: Whether it has ever answered.
    """

    def __init__(self, name: str, lane: Lane) -> None:
        self._name = name
        self._lane = lane
        self.is_started_here = False
        self.was_reached = False

    def __str__(self) -> str:
        """Return what error messages call it."""
        return f"the node {self._name!r}, which dials in"

    async def dial(self, world: Runtime, query: Mapping[str, str]) -> Transport:
        """Return an open WebSocket; waits some seconds for the node to open one.

        Raises:
            Unreachable: None came, or what came is dead.

        Cancellation: safe; what was taken is closed.
        """
        deadline = world.now() + _PATIENCE_S
        while True:
            try:
                opened = await self._lane.take(patience_s=max(0.0, deadline - world.now()))
            except BackendUnavailable as error:
                raise Unreachable(error.message) from error
            try:
                await opened.begin(query)
                return _TakenTransport(opened, await opened.receive(_ANSWERS_S))
            except (EOFError, TimeoutError):
                opened.close()  # a dead one: the next may be on its way
            except BaseException:
                opened.close()
                raise


JOINED = "joined"  # shown where others have an address
# Looking for it costs nothing: the attempt itself waits until the node has dialled in.
_JOINED_PAUSES = Pauses(first_s=0.02, longest_s=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWay:
    """How a node is reached (None: not at all), its address for people, and when to try again."""

    connection: NodeClient | None
    address: str
    pauses: Pauses


def node_backends(
    options: FleetOptions,
    layout: Layout,
    entries: Mapping[str, NodeEntry] = MappingProxyType({}),
    environ: Mapping[str, str] = os.environ,
    joined: JoinedNodes | None = None,
) -> dict[str, RemoteBackend]:
    """Return the backends of all nodes by name, those included that only have processes from before.

    `joined` has the connections of those that dial in.

    Raises:
        ConfigInvalid: The file of the tokens cannot be used.
    """
    names = dict.fromkeys((*options.node_addresses, *entries, *known_nodes(layout)))
    tokens = node_tokens(options, environ)
    return {
        name: node_backend(name, options, layout, entry=entries.get(name), tokens=tokens, joined=joined)
        for name in names
    }


def node_backend(
    name: str,
    options: FleetOptions,
    layout: Layout,
    *,
    entry: NodeEntry | None,
    tokens: Mapping[str, str] | None = None,
    joined: JoinedNodes | None = None,
) -> RemoteBackend:
    """Return the backend of one node, reached as `way_to` says.

    Raises:
        ConfigInvalid: The file of the tokens cannot be used.
    """
    way = way_to(name, options, entry=entry, tokens=tokens, joined=joined)
    return RemoteBackend(
        name,
        way.connection,
        state_dir=layout.root,
        punch=punch_hole,
        address=way.address,
        pauses=way.pauses,
    )


def way_to(
    name: str,
    options: FleetOptions,
    *,
    entry: NodeEntry | None,
    tokens: Mapping[str, str] | None = None,
    joined: JoinedNodes | None = None,
) -> NodeWay:
    """Return how a node is reached: as its entry says, else as the options say, else not at all.

    Raises:
        ConfigInvalid: The file of the tokens cannot be used.
    """
    url, token, ca_file = options.node_addresses.get(name), "", options.node_ca
    if entry is not None and entry.url:
        url, token, ca_file = entry.url, entry.token, entry.ca
    elif url is not None:
        token = (node_tokens(options) if tokens is None else tokens).get(name, "")
    way: Way | None = None
    pauses = Pauses()
    if entry is not None and entry.dials_in and joined is not None:
        way, url, pauses = JoinedAddress(name, joined.lane(name)), JOINED, _JOINED_PAUSES
    elif url is not None:
        way = Address(url=url, token=token, ca_file=ca_file or None, starts_server=False)
    connection = None if way is None else NodeClient(way, world=AsyncioRuntime())
    return NodeWay(connection=connection, address=url or "", pauses=pauses)


def node_tokens(options: FleetOptions, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the nodes' tokens by name, from the file and the environment.

    Raises:
        ConfigInvalid: The file cannot be read, others may read it, or a line is none.
    """
    tokens = _read_tokens(options.node_tokens) if options.node_tokens else {}
    for name in options.node_addresses:
        variable = "OUTLIVE_NODE_TOKEN_" + "".join(mark if mark.isalnum() else "_" for mark in name).upper()
        if token := environ.get(variable, "").strip():
            tokens[name] = token
    return tokens


def _read_tokens(path: str) -> dict[str, str]:
    try:
        if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
            text = f"{path} may be read by others: chmod 600 it."
            raise ConfigInvalid("config_invalid", text, hint="It holds tokens.")
        lines = read_named(path, MAX_TOKEN_BYTES).decode().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid("config_invalid", f"node_tokens: {path} cannot be read: {error}.") from error
    pairs = [line.split() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if any(len(words) != 2 for words in pairs):
        raise ConfigInvalid("config_invalid", f"node_tokens: a line of {path} is not NAME TOKEN.")
    return {words[0]: words[1] for words in pairs}
