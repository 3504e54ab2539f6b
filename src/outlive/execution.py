"""The engine with every place where commands run: this machine, containers, nodes.

Built from settings, for `app`.
"""

import os
from collections.abc import Collection, Mapping
from typing import Any

from outlive.backends.contract import NodeState
from outlive.backends.docker.api import check_host, docker_host
from outlive.backends.docker.containers import Containers
from outlive.backends.local import LocalBackend
from outlive.backends.routing import Route, Routing
from outlive.config import Settings
from outlive.config.options import websocket_url
from outlive.config.placement_settings import parse_resources
from outlive.core.errors import ConfigInvalid
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.location import ANY, DOCKER, LOCAL, Location
from outlive.core.needs import Amounts
from outlive.core.values import replace
from outlive.discovery.config_paths import own_files, standing_file
from outlive.discovery.keeper import ensure_keeper, placed_program
from outlive.discovery.machine_capacity import machine_capacity, machine_gpus
from outlive.discovery.own_kind import own_nice, own_umask
from outlive.docker_mode import docker_containers, living_containers
from outlive.engine import Engine
from outlive.engine.settings import engine_settings
from outlive.frontends.joined.lanes import JoinedNodes
from outlive.kernel.folder_identity import claim_folder
from outlive.kernel.sockets import connect_unix
from outlive.placement.contract import Placement
from outlive.placement.fleet import FleetNode
from outlive.placement.leased import LeasedPlacement
from outlive.placement.static import StaticPlacement
from outlive.policy.redaction import Redactor
from outlive.store.machines.node_files import NodeEntry, NodeFiles

# Of `RemoteBackend`, by name: with it comes the client, 50 ms that few servers have a use for.
_Nodes = Mapping[str, Any]


def engine_and_containers(
    settings: Settings, layout: Layout, *, working_folder: str, redactor: Redactor, joined: JoinedNodes
) -> tuple[Engine, Containers]:
    """Return the engine, and what its containers are made by; neither is open.

    `joined` has the nodes that dial in.

    Raises:
        ConfigInvalid: The file of the nodes' tokens cannot be used, or commands that name no place could run
        nowhere.
        StartFailed: `docker_unavailable`: they are to run in containers of a daemon that is not on this
        machine.
    """

    def living() -> set[str]:
        return living_containers(engine)

    def located(process_id: ProcessId) -> Location:
        return engine.queries.location_of(process_id)

    nodes = _nodes(settings, layout, joined)
    _check_place(settings, nodes)
    own = (
        *own_files(os.environ, working_folder=working_folder),
        *(path for path in (settings.node_tokens, settings.tls_key) if path),
    )
    containers = docker_containers(settings, layout, living=living, own_files=own)
    told = engine_settings(
        settings, layout.root, environment=os.environ, working_folder=working_folder, redactor=redactor
    )
    local = LocalBackend(layout.root, connect_unix=connect_unix, ensure_keeper=ensure_keeper)
    routes = _NodeRoutes(settings, layout, nodes, joined)
    routing = routes.routing = Routing(
        {
            # The one table of places: name, kind, and the backend that serves it.
            LOCAL: Route(kind="local", backend=local),
            DOCKER: Route(kind="container", backend=local, ready=containers.ready),
            **{name: Route(kind="node", backend=node) for name, node in nodes.items()},
        },
        located=located,
    )
    this_machine = _this_machine(settings)
    engine = Engine(
        replace(
            told,
            remember=containers.remember,
            open_root=containers.open_root,
            umask=own_umask(),
            nice=own_nice(),
            runner=placed_program(layout),
            standing_file=standing_file(os.environ, working_folder=working_folder),
            gpus=machine_gpus(gpu_milli=this_machine.capacity.gpu_milli),
            own_files=own,
        ),
        placement=_placement(settings, layout, this_machine),
        routes=routes,
        backend=routing,
    )
    return engine, containers


def _placement(settings: Settings, layout: Layout, this_machine: FleetNode) -> Placement:
    """Return what gives places out.

    Raises:
        ConfigInvalid: Ray is not installed.
    """
    if settings.placement == "static":
        return StaticPlacement([this_machine])
    from outlive.ray_placement import RayDriver, check_ray  # noqa: PLC0415 - few servers have a use for it

    check_ray()
    driver = RayDriver(
        address=settings.ray_address,
        owner=claim_folder(layout),
        log_file=f"{layout.root}/ray.log",
    )
    # This machine takes nothing as itself: with a raylet it is one of Ray's nodes.
    return LeasedPlacement(FleetNode(name=LOCAL, capacity=Amounts()), driver)


def _this_machine(settings: Settings) -> FleetNode:
    """Return what this machine gives to commands that say what they need."""
    asked, has = parse_resources(",".join(settings.capacity)), machine_capacity()
    named = asked.amounts
    return FleetNode(
        name=LOCAL,
        capacity=Amounts(
            cpu_milli=has.cpu_milli if asked.cpu is None else named.cpu_milli,
            memory_bytes=has.memory_bytes if asked.memory is None else named.memory_bytes,
            gpu_milli=has.gpu_milli if asked.gpu is None else named.gpu_milli,
        ),
        labels=frozenset(asked.labels),
        is_open=settings.backend != DOCKER,  # places in containers are not counted
    )


def _check_place(settings: Settings, nodes: Collection[str]) -> None:
    """Refuse at the start what every command would be refused for later."""
    if settings.backend == DOCKER:
        check_host(docker_host(os.environ))
        if not settings.docker_image:
            raise ConfigInvalid(
                "config_invalid",
                "Commands are to run in containers (--backend docker, USE_DOCKER), but no image is named.",
                hint="Name one: --image debian:12, or OUTLIVE_DOCKER_IMAGE=debian:12.",
            )
    if settings.backend not in {LOCAL, DOCKER, ANY, *nodes}:
        raise ConfigInvalid(
            "config_invalid",
            (
                f"Commands are to run at {settings.backend!r}, which is neither local nor docker nor a node "
                "that is named."
            ),
            hint=(
                "--backend (OUTLIVE_BACKEND) takes local, docker or a name of --node NAME=URL; "
                "USE_DOCKER takes true or false."
            ),
        )


class _NodeRoutes:
    """Reaches nodes that are added while the server runs (see `engine.machines.routes.NodeRoutes`)."""

    def __init__(self, settings: Settings, layout: Layout, backends: _Nodes, joined: JoinedNodes) -> None:
        self._settings = settings
        self._layout = layout
        self._backends = dict(backends)
        self._joined = joined
        self.routing: Routing | None = None

    @property
    def declared(self) -> Mapping[str, str]:
        return self._settings.node_addresses

    def check(self, entry: NodeEntry) -> NodeEntry:
        try:
            url = websocket_url(entry.url)
        except ValueError as error:
            raise ConfigInvalid("config_invalid", f"url: {error}.") from error
        if entry.ca and not os.path.isfile(entry.ca):
            raise ConfigInvalid("config_invalid", f"ca: there is no file {entry.ca!r}.")
        # Of a node that was found no operator says by which authority it is known.
        return replace(entry, url=url, ca=entry.ca or (self._settings.node_ca if entry.is_found else ""))

    async def put(self, name: str, entry: NodeEntry | None) -> None:
        from outlive.extensions.fleet.ways import node_backend, way_to  # noqa: PLC0415 - see `_Nodes`

        routing = self._opened()
        backend = self._backends.get(name)
        if backend is None:
            backend = node_backend(name, self._settings, self._layout, entry=entry, joined=self._joined)
            await routing.table.put(name, Route(kind="node", backend=backend))
            self._backends[name] = (
                backend  # not before: one that could not be opened is made anew, not reached otherwise
            )
        else:
            way = way_to(name, self._settings, entry=entry, joined=self._joined)
            await backend.reconnect(way.connection, address=way.address, pauses=way.pauses)
        if entry is None:
            self._joined.forget(name)
        if entry is None and name not in self.declared and not backend.nodes()[name].processes:
            del self._backends[name]
            await routing.table.drop(name)

    def states(self) -> dict[str, NodeState]:
        return self._opened().nodes()

    async def ask(self, name: str, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        asking = self._backends[name].requests.over(lambda node: node.request(method, params))
        found: Mapping[str, Any] = await asking
        return found

    async def adopt(
        self, name: str, process_id: ProcessId, spec: bytes, *, pid: int, started_ns: int
    ) -> None:
        await self._backends[name].adopt(process_id, spec, pid=pid, started_ns=started_ns)

    async def ask_files(
        self, name: str, method: str, params: Mapping[str, Any], data: bytes | memoryview
    ) -> Mapping[str, Any]:
        asked = self._backends[name].requests.plainly(lambda node: node.files(method, params, data))
        found: Mapping[str, Any] = await asked
        return found

    def _opened(self) -> Routing:
        if self.routing is None:
            raise AssertionError("the engine has been made")
        return self.routing


def _nodes(settings: Settings, layout: Layout, joined: JoinedNodes) -> _Nodes:
    if not settings.nodes and not os.path.isdir(layout.nodes):
        return {}
    from outlive.extensions.fleet.ways import node_backends  # noqa: PLC0415 - see `_Nodes`

    entries = {entry.name: entry for entry in NodeFiles(layout).read() if entry.is_reached}
    return node_backends(settings, layout, entries, joined=joined)
