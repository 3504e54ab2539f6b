"""What can be asked of services, and what is answered: the same members at every door. Pure."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from outlive.extensions.services.declaration import ServiceName, ServiceRequest, check_services, did_you_mean
from outlive.extensions.services.machine import LIVING, ServicePhase, ServiceState, Stack
from outlive.operations.answers import AnswerMembers, Moment
from outlive.operations.operation import reads, runs
from outlive.operations.requests import Niceness, ProjectFolder, Seconds, Umask, WaitSeconds

_Folder = Annotated[ProjectFolder, Meta(description="The folder in which the project's file lies.")]


class StackMembers(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Which project's services are meant, and which of them."""

    folder: _Folder
    names: Annotated[
        tuple[ServiceName, ...], Meta(description="Only these services; all of them, if left out.")
    ] = ()


class UpRequest(StackMembers, kw_only=True, frozen=True):
    """The services that are to run; with `names` only these, and what they wait for."""

    services: Annotated[dict[str, ServiceRequest], Meta(description="All services of the project, by name.")]
    project: Annotated[
        ProjectFolder | None,
        Meta(description="Where their processes have names and short ids; the folder, if left out."),
    ] = None
    environment: Annotated[
        dict[str, str],
        Meta(description="What all of them begin with, PATH and HOME for instance; it is kept: no secrets."),
    ] = {}
    umask: Annotated[Umask | None, Meta(description="Permissions that their new files do not get.")] = None
    nice: Annotated[Niceness | None, Meta(description="What they begin with; the server's own else.")] = None

    def __post_init__(self) -> None:
        """Refuse services that could never start, and names of none."""
        check_services(self.services)
        for name in self.names:
            if name not in self.services:
                raise ValueError(f"there is no service {name!r}.{did_you_mean(name, self.services)}")


class DownRequest(StackMembers, kw_only=True, frozen=True):
    """The services that are to stop."""

    grace: Annotated[
        Seconds | None, Meta(description="Seconds until KILL, instead of each service's own; 0 kills.")
    ] = None


class RestartRequest(StackMembers, kw_only=True, frozen=True):
    """The services that are to end and to start again; what does not run is started."""


class ServicesRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Which services to show, and how long to wait for news of them."""

    folder: Annotated[
        ProjectFolder | None, Meta(description="Only those of this project; all of yours, if left out.")
    ] = None
    revision: Annotated[
        int | None,
        Meta(description="With folder: wait until the answer has another revision than this one,"),
    ] = None
    wait_s: Annotated[WaitSeconds, Meta(description="but so many seconds at most.")] = 0.0


class ServiceView(AnswerMembers, kw_only=True, frozen=True):
    """One service."""

    name: str
    state: Annotated[
        ServicePhase,
        Meta(
            description="waiting (for others), starting, running (not ready yet), ready, backing_off, "
            "stopping, stopped, failed or done (ended with 0)."
        ),
    ]
    command: str
    process_id: Annotated[str | None, Meta(description="Its newest process.")]
    restarts: Annotated[int, Meta(description="How often it was started again by its policy.")]
    since: Annotated[Moment, Meta(description="When that state began.")]
    until: Annotated[
        Moment | None, Meta(description="When it is started again (backing_off), or killed (stopping).")
    ]
    exit_code: Annotated[
        int | None, Meta(description="Of its last end: 0 to 255, or minus the signal's number.")
    ]
    error: Annotated[str | None, Meta(description="Why it could not start, or did not end by itself.")]
    after: Annotated[list[str], Meta(description="The services that it starts after.")]
    blocked: Annotated[bool, Meta(description="It waits for a service that will not be ready.")]


class StackView(AnswerMembers, kw_only=True, frozen=True):
    """The services of one project, in the order of its file."""

    folder: str
    project: str
    revision: Annotated[int, Meta(description="Another number after each change.")]
    services: list[ServiceView]


class StackList(AnswerMembers, kw_only=True, frozen=True):
    """The services of some projects."""

    stacks: list[StackView]


def stack_view(stack: Stack, *, folder: str, project: str, revision: int) -> StackView:
    """Return what every door shows of a project's services."""
    services = [
        _service_view(name, one, is_blocked=stack.is_blocked(name)) for name, one in stack.services.items()
    ]
    return StackView(folder=folder, project=project, revision=revision, services=services)


def _service_view(name: str, one: ServiceState, *, is_blocked: bool) -> ServiceView:
    is_over = one.phase not in LIVING
    return ServiceView(
        name=name,
        state=one.phase,
        command=one.declared.text,
        process_id=one.process_id,
        restarts=one.restarts,
        since=_moment(one.since),
        until=None if one.until is None else _moment(one.until),
        exit_code=(-one.exit_signal if one.exit_signal is not None else one.exit_code) if is_over else None,
        error=one.error,
        after=list(one.declared.after),
        blocked=is_blocked,
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


_PROBLEMS = (404, 507)
OPERATIONS = (
    runs(
        "services_up",
        "Make a project's services run as they are declared.",
        UpRequest,
        StackList,
        route="POST /v1/services/up",
        problems=_PROBLEMS,
        example={
            "folder": "/srv/shop",
            "services": {
                "db": {"command": "postgres -D data", "ready": {"port": 5432}},
                "web": {"command": ["./serve"], "after": ["db"], "restart": "on-failure"},
            },
        },
    ),
    runs(
        "services_down",
        "Stop a project's services, those that wait for others first.",
        DownRequest,
        StackList,
        route="POST /v1/services/down",
        problems=_PROBLEMS,
        example={"folder": "/srv/shop"},
    ),
    runs(
        "services_restart",
        "End a project's services and start them again.",
        RestartRequest,
        StackList,
        route="POST /v1/services/restart",
        problems=_PROBLEMS,
        example={"folder": "/srv/shop", "names": ["web"]},
    ),
    reads(
        "services_list",
        "List services, at once or after news of them.",
        ServicesRequest,
        StackList,
        pace="open",
        route="GET /v1/services",
    ),
)
