"""From a `Command` that is to run in a container to what the keeper is asked: `ContainerStarts`.

Nothing of this machine is looked up for it: program, PATH and folders are the container's, and the runner
there says what is missing. A container bounds more than the profile "sealed" does, and counts as that.

Commands that run on a node: nothing of this machine is looked up for them, and nothing of its environment
goes over.

What the caller said travels in the spec's `meta` under `ASKED`, and the node resolves it: program, folder,
environment, sandbox and limits are its own.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from outlive.config import Settings
from outlive.core.command import Command, Limits, Profile, Sandbox
from outlive.core.errors import CommandRefused, InvalidRequest
from outlive.core.identity import PROCESS_VARIABLE, ProcessId
from outlive.core.location import DOCKER, LOCAL, ContainerPlan, Kind, Location
from outlive.core.process import Owner, ProcessRecord
from outlive.core.spec import Spec
from outlive.core.values import asdict, replace
from outlive.engine.commands.resolver import DEFAULT_TERM, Resolved, as_bytes, check_command, shell_line
from outlive.engine.commands.sandbox import operator_limits

# Where the runner leaves the script of a command: in memory, for it alone.
_SCRIPT = "/proc/self/fd/3"
_SHELL = "bash"
# setrlimit(2)'s numbers, as the keeper's own steps have them.
_RLIMIT_CPU, _RLIMIT_NOFILE = 0, 7
_FEATURES = ("container", "no_new_privileges", "no_capabilities", "read_only_root")
# Members of `Spec` that `execute` takes under the same names: always, and only where they are set.
_AS_THEY_ARE = (
    "stdin",
    "rows",
    "cols",
    "timeout_s",
    "grace_s",
    "output_limit",
    "on_limit",
    "after_exit",
)
_IF_SET = ("umask", "nice")

_N = TypeVar("_N", int, float)


class ContainerStarts:
    """Decides in which container a command runs, and what its runner is asked."""

    def __init__(
        self,
        options: Settings,
        *,
        cwd: str,
        is_strict: bool,
        remember: Callable[[ContainerPlan], Awaitable[str]] | None,
    ) -> None:
        """Take what was decided.

        Args:
            options: The operator's.
            cwd: The workspace, if none is named.
            is_strict: Whether lists are in force: then the operator alone chooses what "ls" is.
            remember: Notes a plan down, and returns the name of its container; None: there is no Docker mode.
        """
        self._options = options
        self._folder = options.docker_workspace or cwd  # of commands that name none
        self._limits = operator_limits(options)
        self._is_strict = is_strict
        self._remember = remember

    def backend_of(self, command: Command, owner: Owner) -> str:
        """Return where a command runs.

        Raises:
            CommandRefused: `profile_too_weak`: the operator has commands run in containers, and the caller,
                which is no administrator, wants this one outside.
        """
        wanted = command.backend or self._options.backend
        if wanted != DOCKER and self._options.backend == DOCKER and not owner.is_admin:
            raise CommandRefused(
                "profile_too_weak",
                "Commands run in containers here; only an administrator may start one outside.",
                details={"least": DOCKER},
            )
        if wanted == LOCAL and (command.image is not None or command.isolation is not None):
            name = "image" if command.image is not None else "isolation"
            raise InvalidRequest(
                "invalid_params", f"{name}: there is no container in the backend {wanted!r}."
            )
        return wanted

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
        if self._remember is None:
            raise InvalidRequest("invalid_params", "backend: this server has no Docker mode.")
        limits = command.limits.within(self._limits)
        cwd = os.path.join(self._folder, command.cwd) if command.cwd else self._folder
        plan = await asyncio.to_thread(self._plan, command, owner, process_id, limits)
        name = await self._remember(plan)
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


ASKED = "asked"  # the member of a spec's `meta`


def resolve_elsewhere(
    command: Command, profile: Profile, inside: ProcessRecord | None, *, kind: Kind, backend: str
) -> Resolved:
    """Return what the node is asked to run, and that nothing bounds it here.

    Args:
        command: What the caller wants.
        profile: The least that this server's rules want for the caller; the node may choose a stronger one.
        inside: The process in whose tree the caller lives.
        kind: What kind of place it is,
        backend: and its name.

    Raises:
        InvalidRequest: It makes no sense, or needs something of this machine.
        CommandRefused: `profile_too_weak`: the caller may write to its own folder only, and there is none of
        it there.
        StartFailed: `argument_too_long`.
    """
    check_command(command)
    if command.stdin == "lent":
        text = "stdin: a descriptor of this machine cannot be lent to a node."
        raise InvalidRequest("invalid_params", text, hint='Pass "pipe", and write to it.')
    if command.prelude is not None or command.start_file is not None:
        text = "A named workspace needs files of this machine: it cannot be on a node."
        raise InvalidRequest("invalid_params", text, hint="Leave out `backend`, or the workspace.")
    if inside is not None and inside.sandbox.profile.strength >= Profile.WORKSPACE.strength:
        text = (
            f"The caller runs in the profile {inside.sandbox.profile.value!r}: it may start on this "
            "machine only."
        )
        raise CommandRefused("profile_too_weak", text)
    return Resolved(
        program="",
        argv=command.argv if command.argv is not None else (command.line or "",),
        env={name: value for name, value in command.env.items() if value is not None},
        cwd=command.cwd or "",
        shell=None,
        script=b"" if command.script is None else as_bytes(command.script or "\n"),
        location=Location(kind=kind, backend=backend, image=command.image),
        meta={ASKED: _asked(command, profile)},
        sandbox=Sandbox(profile=profile),
    )


def _asked(command: Command, profile: Profile) -> Mapping[str, object]:
    """Return what of a command the spec has no other place for, by the names of `execute`."""
    limits = {
        name.removesuffix("_s").removesuffix("_bytes"): value
        for name, value in asdict(command.limits).items()
        if value is not None
    }
    asked: dict[str, object] = {
        "command": command.line,
        "argv": None if command.argv is None else list(command.argv),
        "cwd": command.cwd,
        "env": dict(command.env),
        "title": command.title,
        "profile": None if profile is Profile.OPEN and command.profile is None else profile.value,
        "limits": limits,
        "tags": dict(command.tags),
        "image": command.image,
        "isolation": command.isolation,
    }
    if not command.inherits_env:
        asked["inherit_env"] = False
    return {name: value for name, value in asked.items() if value not in (None, {})}


def execute_words(spec: Spec, script: bytes, secrets: Mapping[str, str]) -> dict[str, object]:
    """Return the parameters of `execute`, by the names of the client's `StartOptions`. Pure.

    What only the caller knows stands in the spec's `meta`. The process is detached there: whose it is, and
    what becomes of it when that client goes, is decided here.
    """
    asked = spec.meta.get(ASKED)
    words: dict[str, object] = dict(asked) if isinstance(asked, dict) else {"argv": list(spec.argv)}
    words |= {name: getattr(spec, name) for name in _AS_THEY_ARE}
    words |= {"detach": True, "pty": spec.stdio == "pty", "merge": spec.stdio == "merge"}
    words |= {name: value for name in _IF_SET if (value := getattr(spec, name)) is not None}
    if script:
        words["script"] = script.decode("utf-8", "surrogateescape")
    if secrets:
        words["env_secrets"] = dict(secrets)
    return words
