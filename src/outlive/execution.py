"""The engine with every place where commands run: this machine, containers, nodes.

Built from settings, for `app`.
"""

import os
from collections.abc import Collection, Sequence

from outlive.backends.docker.api import check_host, docker_host
from outlive.backends.docker.containers import Containers
from outlive.backends.local import LocalBackend
from outlive.backends.routing import Route, Routing
from outlive.config import Settings
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
from outlive.extensions.server_part import ServerPart
from outlive.kernel.sockets import connect_unix
from outlive.placement.contract import Placement
from outlive.placement.fleet import FleetNode
from outlive.placement.static import StaticPlacement
from outlive.policy.redaction import Redactor


def engine_and_containers(
    settings: Settings,
    layout: Layout,
    *,
    working_folder: str,
    redactor: Redactor,
    parts: Sequence[ServerPart],
) -> tuple[Engine, Routing, Containers]:
    """Return the engine, the places where commands run, and what containers are made by; none is open.

    `parts` are the extensions'.

    Raises:
        ConfigInvalid: Commands that name no place could run nowhere.
        StartFailed: `docker_unavailable`: they are to run in containers of a daemon that is not on this
        machine.
    """

    def living() -> set[str]:
        return living_containers(engine)

    def located(process_id: ProcessId) -> Location:
        return engine.queries.location_of(process_id)

    local = LocalBackend(layout.root, connect_unix=connect_unix, ensure_keeper=ensure_keeper)
    places = {name: route for part in parts for name, route in part.backends(local).items()}
    _check_place(settings, places)
    own = (
        *own_files(os.environ, working_folder=working_folder),
        *(path for path in (settings.node_tokens, settings.tls_key) if path),
    )
    containers = docker_containers(settings, layout, living=living, own_files=own)
    told = engine_settings(
        settings, layout.root, environment=os.environ, working_folder=working_folder, redactor=redactor
    )
    routing = Routing(
        {
            # The one table of places: name, kind, and the backend that serves it.
            LOCAL: Route(kind="local", backend=local),
            DOCKER: Route(kind="container", backend=local, ready=containers.ready),
            **places,
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
        placement=_placement(settings, parts, this_machine),
        routes=next((part.nodes for part in parts if part.nodes is not None), None),
        backend=routing,
    )
    return engine, routing, containers


def _placement(settings: Settings, parts: Sequence[ServerPart], this_machine: FleetNode) -> Placement:
    """Return what gives places out.

    Raises:
        ConfigInvalid: It is unknown, or a package for it is missing.
    """
    if settings.placement == "static":
        return StaticPlacement([this_machine])
    for part in parts:
        if (found := part.placement(this_machine)) is not None:
            return found
    raise ConfigInvalid(
        "config_invalid",
        f"--placement {settings.placement[:40]!r}: no extension gives places out under this name.",
        hint="--placement static, or ray (outlive[ray]).",
    )


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


def _check_place(settings: Settings, places: Collection[str]) -> None:
    """Refuse at the start what every command would be refused for later."""
    if settings.backend == DOCKER:
        check_host(docker_host(os.environ))
        if not settings.docker_image:
            raise ConfigInvalid(
                "config_invalid",
                "Commands are to run in containers (--backend docker, USE_DOCKER), but no image is named.",
                hint="Name one: --image debian:12, or OUTLIVE_DOCKER_IMAGE=debian:12.",
            )
    if settings.backend not in {LOCAL, DOCKER, ANY, *places}:
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
