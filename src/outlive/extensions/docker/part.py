"""Docker's share of a server: the backend `docker`, its containers while the server runs, and what the
keeper is asked for a `Command` that is to run in one (`ContainerStarts`).

Nothing of this machine is looked up for it: program, PATH and folders are the container's, and the runner
there says what is missing. A container bounds more than the profile "sealed" does, and counts as that.
"""

import asyncio
import contextlib
import functools
import os
import shutil
from typing import Self, TypeVar

from outlive.backends.contract import Backend
from outlive.backends.routing import Route
from outlive.config import Settings
from outlive.core.command import Command, Limits, Profile, Sandbox
from outlive.core.errors import CommandRefused, ConfigInvalid, InvalidRequest, OutliveError
from outlive.core.events import Event, ProcessClosed, StartRejected
from outlive.core.file_words import OtherRoot
from outlive.core.identity import PROCESS_VARIABLE, ProcessId
from outlive.core.location import DOCKER, ContainerPlan, Location
from outlive.core.process import Owner
from outlive.core.values import replace
from outlive.discovery.keeper import place_runner
from outlive.engine.commands.resolver import DEFAULT_TERM, Resolved, as_bytes, check_command, shell_line
from outlive.engine.commands.sandbox import operator_limits
from outlive.extensions.docker.api import DockerSettings, check_host, docker_host
from outlive.extensions.docker.containers import Containers
from outlive.extensions.docker.folders import was_used
from outlive.extensions.docker.options import DockerOptions
from outlive.extensions.server_part import Built, Given, ServerPart
from outlive.kernel.own_code import own_code
from outlive.kernel.sockets import connect_own

# Where the runner leaves the script of a command: in memory, for it alone.
_SCRIPT = "/proc/self/fd/3"
_SHELL = "bash"
# setrlimit(2)'s numbers, as the keeper's own steps have them.
_RLIMIT_CPU, _RLIMIT_NOFILE = 0, 7
_FEATURES = ("container", "no_new_privileges", "no_capabilities", "read_only_root")

_N = TypeVar("_N", int, float)


class ContainerStarts:
    """Decides in which container a command runs, and what its runner is asked."""

    def __init__(
        self, settings: Settings, containers: Containers, *, working_folder: str, is_strict: bool
    ) -> None:
        """Take what was decided.

        Args:
            settings: The operator's.
            containers: Note plans down.
            working_folder: The workspace, if none is named.
            is_strict: Whether lists are in force: then the operator alone chooses what "ls" is.
        """
        self._options = settings.of(DockerOptions)
        self._folder = self._options.docker_workspace or working_folder  # of commands that name none
        self._limits = operator_limits(settings)
        self._is_strict = is_strict
        self._containers = containers

    async def prepare(self, command: Command, owner: Owner, process_id: ProcessId) -> Resolved:
        """Return what will run, and in which container.

        Raises:
            InvalidRequest: The words are none, no image is known, a limit cannot be kept or is higher than
            the operator's.
            CommandRefused: Lists are in force, and the image is not the operator's.
        """
        check_command(command)
        if command.prelude is not None:
            raise InvalidRequest(
                "invalid_params",
                "A named workspace is kept in outlive's state folder, which containers do not see.",
                hint="Leave out workspace, and pass cwd and env; a session container keeps its files.",
            )
        limits = command.limits.within(self._limits)
        cwd = os.path.join(self._folder, command.cwd) if command.cwd else self._folder
        plan = await asyncio.to_thread(self._plan, command, owner, process_id, limits)
        name = await self._containers.remember(plan)
        location = Location(kind="container", backend=DOCKER, image=plan.image, container=name)
        features = (*_FEATURES, *(("no_network",) if plan.network == "none" else ()))
        steps = [] if limits.cpu_s is None else [f"limit {_RLIMIT_CPU} {limits.cpu_s}"]
        steps += [] if limits.files is None else [f"limit {_RLIMIT_NOFILE} {limits.files}"]
        resolved = _resolved(command, process_id, cwd, steps)
        sandbox = Sandbox(profile=Profile.SEALED, features=features)
        return replace(resolved, location=location, sandbox=sandbox, steps=tuple(steps) or None)

    def _plan(self, command: Command, owner: Owner, process_id: ProcessId, limits: Limits) -> ContainerPlan:
        options = self._options
        image = command.image or options.docker_image
        if not image:
            raise InvalidRequest("invalid_params", "image: none is named, and the server has no default.")
        if self._is_strict and image != options.docker_image:
            raise CommandRefused(
                "command_not_allowed",
                f"The image {image[:80]!r} is not the operator's, and only listed commands are allowed.",
            )
        isolation = command.isolation or options.docker_isolation
        if options.docker_isolation == "strict" and isolation != "strict" and not owner.is_admin:
            raise CommandRefused("profile_too_weak", "Every command has a container of its own here.")
        if isolation == "session" and (wanted := _of_a_container(command.limits)):
            raise InvalidRequest(
                "invalid_params",
                f"limits: {wanted} bounds a whole container, which this command would share.",
                hint='Ask for isolation "strict", or leave the limit out.',
            )
        return ContainerPlan(
            image=image,
            workspace=os.path.realpath(self._folder),
            principal=owner.principal,
            user=options.docker_user or f"{os.getuid()}:{os.getgid()}",
            mounts=options.docker_mounts,
            network=options.docker_network,
            runtime=options.docker_runtime,
            memory_bytes=_least(limits.memory_bytes, options.docker_memory_bytes),
            cpus=_least(limits.cpus, options.docker_cpus),
            processes=_least(limits.processes, options.docker_processes),
            process_id=process_id if isolation == "strict" else "",
        )


def _resolved(command: Command, process_id: ProcessId, cwd: str, steps: list[str]) -> Resolved:
    """Return what the runner is asked; what it has to do besides is added to the steps."""
    env = {PROCESS_VARIABLE: process_id, "PWD": cwd}
    if command.stdio == "pty":
        env["TERM"] = DEFAULT_TERM
    if not command.inherits_env:
        steps.append("clear")
    for name, value in command.env.items():
        if value is None:
            env.pop(name, None)
            steps.append(f"unset {name}")
        else:
            env[name] = value
    if command.argv is not None:
        argv, script = command.argv, b""
        if command.script is not None:
            argv, script = (*argv, _SCRIPT), as_bytes(command.script) or b"\n"
        return Resolved(program=argv[0], argv=argv, env=env, cwd=cwd, shell=None, script=script)
    line, script = shell_line(command.line or "", _SCRIPT)
    steps.append("else sh")  # under that name
    return Resolved(program=_SHELL, argv=(_SHELL, "-c", line), env=env, cwd=cwd, shell=_SHELL, script=script)


def _of_a_container(limits: Limits) -> str:
    """Name the limit that only a container of its own can keep for a command."""
    for name in ("memory_bytes", "cpus", "processes"):
        if getattr(limits, name) is not None:
            return name.removesuffix("_bytes")
    return ""


def _least(one: _N | None, other: _N | None) -> _N | None:
    return min((value for value in (one, other) if value is not None), default=None)


class DockerPart(ServerPart):
    """Has commands run in containers (see `ContainerPlaces`), and removes those that nothing uses.

    Nothing is asked of a daemon before one is needed.
    """

    def __init__(self, given: Given) -> None:
        """Take the server.

        Raises:
            ConfigInvalid: All commands are to run in containers, and no image is named.
            StartFailed: `docker_unavailable`: or the daemon is not on this machine.
        """
        super().__init__(given)
        options = given.settings.of(DockerOptions)
        if given.settings.backend == DOCKER:
            check_host(docker_host(given.environ))
            if not options.docker_image:
                text = (
                    "Commands are to run in containers (--backend docker, USE_DOCKER), but no image is named."
                )
                hint = "Name one: --image debian:12, or OUTLIVE_DOCKER_IMAGE=debian:12."
                raise ConfigInvalid("config_invalid", text, hint=hint)
        called = filter(None, [shutil.which("outlive", path=given.environ.get("PATH", ""))])
        self._removing: set[asyncio.Task[None]] = set()
        self.containers = self
        self._all = Containers(
            given.layout,
            DockerSettings(
                host=docker_host(given.environ),
                pull=options.docker_pull,
                idle_s=options.docker_idle_s,
                own=(*own_code(), *called, *given.own_files),
            ),
            connect=connect_own,
            runner=functools.cache(functools.partial(place_runner, given.layout)),
            living=self._living,
        )

    def backends(self, local: Backend) -> dict[str, Route]:
        """Return the one place, whose processes are the keeper's."""
        return {DOCKER: Route(kind="container", backend=local, ready=self._all.ready)}

    def join(self, built: Built) -> None:
        """Take the engine."""
        self._engine = engine = built.engine
        self._starts = ContainerStarts(
            self.given.settings,
            self._all,
            working_folder=self.given.working_folder,
            is_strict=engine.settings.is_strict,
        )

    async def prepare(self, command: Command, owner: Owner, process_id: ProcessId) -> Resolved:
        """Return what will run, and in which container (see `ContainerStarts.prepare`)."""
        return await self._starts.prepare(command, owner, process_id)

    def open_root(self, container: str) -> OtherRoot:
        """Open the root folder of a running container. Blocks."""
        return self._all.open_root(container)

    async def __aenter__(self) -> Self:
        """Look for containers that no process uses, and see to those of processes that end."""
        kinds = (ProcessClosed, StartRejected)
        self._unsubscribe = self._engine.events.subscribe(self._remove_own, kinds=kinds)
        if await asyncio.to_thread(was_used, self.given.layout):
            await self._engine.queries.known()  # none may be taken for one that no process uses
        await self._all.open()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """See to no more ends."""
        self._unsubscribe()

    async def end(self) -> None:
        """Close what the engine's last starts needed."""
        await self._all.close()

    def _living(self) -> set[str]:
        """Return the names of the containers in which a process lives, or will."""
        return {
            name
            for process in self._engine.queries.live()
            if (name := process.record.location.container) is not None
            and not (process.status.is_closed and process.record.descendants == 0)
        }

    def _remove_own(self, event: Event) -> None:
        """Remove a process's own container when nothing of the process is left, or it never ran."""
        match event:
            case ProcessClosed():
                name = event.record.location.container
            case StartRejected():
                name = event.container
            case _:
                return
        if name is not None:
            self._removing.add(task := asyncio.create_task(self._let_go(name), name=f"let go of {name}"))
            task.add_done_callback(self._removing.discard)

    async def _let_go(self, name: str) -> None:
        # Where the daemon is away it is removed later, as all that no process uses.
        with contextlib.suppress(OutliveError):
            await self._all.let_go(name)
