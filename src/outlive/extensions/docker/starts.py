"""From a `Command` that is to run in a container to what the keeper is asked: `ContainerStarts`.

Nothing of this machine is looked up for it: program, PATH and folders are the container's, and the runner
there says what is missing. A container bounds more than the profile "sealed" does, and counts as that.
"""

import asyncio
import os
from typing import TypeVar

from outlive.config import Settings
from outlive.core.command import Command, Limits, Profile, Sandbox
from outlive.core.errors import CommandRefused, InvalidRequest
from outlive.core.identity import PROCESS_VARIABLE, ProcessId
from outlive.core.location import DOCKER, ContainerPlan, Location
from outlive.core.process import Owner
from outlive.core.values import replace
from outlive.engine.commands.resolver import DEFAULT_TERM, Resolved, as_bytes, check_command, shell_line
from outlive.engine.commands.sandbox import operator_limits
from outlive.extensions.docker.containers import Containers
from outlive.extensions.docker.options import DockerOptions

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
