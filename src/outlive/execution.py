"""The engine with every place where commands run: this machine, containers, nodes.

Built from settings, for `app`.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from outlive.backends.local import LocalBackend
from outlive.backends.routing import Route, Routing
from outlive.config import Settings
from outlive.config.placement_settings import parse_resources
from outlive.core.errors import ConfigInvalid
from outlive.core.identity import ProcessId
from outlive.core.location import ANY, DOCKER, LOCAL, Location
from outlive.core.needs import Amounts
from outlive.core.values import replace
from outlive.discovery.config_paths import standing_file
from outlive.discovery.keeper import ensure_keeper, placed_program
from outlive.discovery.machine_capacity import machine_capacity, machine_gpus
from outlive.discovery.own_kind import own_nice, own_umask
from outlive.engine import Engine
from outlive.engine.settings import engine_settings
from outlive.extensions.contract import check_new
from outlive.extensions.server_part import Given, ServerPart
from outlive.kernel.sockets import connect_unix
from outlive.placement.contract import Placement
from outlive.placement.fleet import FleetNode
from outlive.placement.waiting_line import StaticPlacement
from outlive.policy.redaction import Redactor

_T = TypeVar("_T")


def engine_and_routing(
    given: Given, *, redactor: Redactor, parts: Sequence[ServerPart]
) -> tuple[Engine, Routing]:
    """Return the engine and the places where commands run; neither is open. `parts` are the extensions'.

    Raises:
        ConfigInvalid: Commands that name no place could run nowhere, or two places have one name.
    """

    def located(process_id: ProcessId) -> Location:
        return engine.queries.location_of(process_id)

    settings, layout = given.settings, given.layout
    local = LocalBackend(layout.root, connect_unix=connect_unix, ensure_keeper=ensure_keeper)
    places: dict[str, Route] = {}
    for part in parts:
        brought = part.backends(local)
        check_new(brought, {LOCAL, ANY, *places}, kind="place")
        places |= brought
    _check_place(settings, places)
    told = engine_settings(
        settings,
        layout.root,
        environment=given.environ,
        working_folder=given.working_folder,
        redactor=redactor,
    )
    # The one table of places: name, kind, and the backend that serves it.
    routing = Routing({LOCAL: Route(kind="local", backend=local), **places}, located=located)
    this_machine = _this_machine(settings)
    engine = Engine(
        replace(
            told,
            containers=_first(part.containers for part in parts),
            notices=_first(part.notices for part in parts) or told.notices,
            passes_trace=any(part.passes_trace for part in parts),
            remote_files=_first(part.remote_files for part in parts),
            umask=own_umask(),
            nice=own_nice(),
            runner=placed_program(layout),
            standing_file=standing_file(given.environ, working_folder=given.working_folder),
            gpus=machine_gpus(gpu_milli=this_machine.capacity.gpu_milli),
            own_files=given.own_files,
        ),
        placement=_placement(settings, parts, this_machine),
        backend=routing,
    )
    return engine, routing


def _first(brought: Iterable[_T | None]) -> _T | None:
    """Return what the first part brings that brings any; a generator asks no part behind it."""
    return next((one for one in brought if one is not None), None)


def _placement(settings: Settings, parts: Sequence[ServerPart], this_machine: FleetNode) -> Placement:
    """Return what gives places out.

    Raises:
        ConfigInvalid: It is unknown, or a package for it is missing.
    """
    if settings.placement == "static":
        return StaticPlacement([this_machine])
    if (found := _first(part.placement(this_machine) for part in parts)) is not None:
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
    if settings.backend not in {LOCAL, ANY, *places}:
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
