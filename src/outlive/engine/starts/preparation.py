"""`Preparation`: what has a say in a start, asked in one place: may it be started, what does it resolve to,
what bounds it.
"""

import asyncio

from outlive.backends.contract import Backend
from outlive.core.command import Command, Profile
from outlive.core.errors import InvalidRequest
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.location import ANY, DOCKER, LOCAL, Location
from outlive.core.needs import Needs
from outlive.core.process import Owner
from outlive.core.values import replace
from outlive.engine.commands.elsewhere import backend_of, resolve_elsewhere
from outlive.engine.commands.resolver import Resolved, Resolver, clean_environment, find_shell
from outlive.engine.commands.sandbox import Sandboxes
from outlive.engine.commands.unfiltered import keeping_unfiltered
from outlive.engine.lookup import Asker, Lookup
from outlive.engine.processes.output_redaction import check_secrets
from outlive.engine.processes.places import Places
from outlive.engine.queries import Queries, record_inside
from outlive.engine.settings import EngineSettings
from outlive.policy.starters import with_own_deciding
from outlive.protocols.trace_context import TRACE_VARIABLE, TraceSpan, span_of


class Preparation:
    """Asks every part that has a say in a start."""

    def __init__(
        self,
        settings: EngineSettings,
        sandboxes: Sandboxes,
        *,
        queries: Queries,
        backend: Backend,
        places: Places,
    ) -> None:
        """Take what decides; nothing is looked for before `open`."""
        self._backend = backend
        self._places = places
        self._settings = settings
        self._layout = Layout(settings.state_dir)
        self._queries = queries
        self._environment = clean_environment(settings.environment)
        self._resolver: Resolver | None = None
        self._sandboxes = sandboxes

    async def open(self) -> None:
        """Look for the shell that runs command lines, in a thread."""
        shell = await asyncio.to_thread(find_shell, self._environment)
        self._resolver = Resolver(
            self._layout,
            environment=self._environment,
            cwd=self._settings.cwd,
            shell=shell,
            is_strict=self._settings.is_strict,
        )

    @property
    def shell(self) -> str:
        """The program that runs command lines; known once the engine is open."""
        return "" if self._resolver is None else self._resolver.shell

    async def prepare(self, command: Command, owner: Owner, process_id: ProcessId) -> Resolved:
        """Return what will run, and within which bounds.

        Raises:
            OutliveError: As `Starts.start`.
        """
        resolved = await self._resolved(command, owner, process_id)
        # A node decides for itself what its commands know of their span.
        if self._settings.passes_trace and not resolved.location.is_elsewhere:
            return _within(resolved, span_of(process_id, owner.traceparent), command)
        return resolved

    async def _needs(self, command: Command, owner: Owner, backend: str) -> Needs | None:
        """Return what the machine must have, with the only one that counts; None where nothing is counted.

        Raises:
            InvalidRequest: It is to run in a container, or beside a process that has no place yet.
            ProcessNotFound: The process beside which it is to run is not known to the caller.
        """
        needs = command.needs
        if needs is None and backend != ANY:
            return None
        needs = needs or Needs()
        if backend == DOCKER:
            hint = "Leave out `needs`, or name the backend local, any or a node."
            raise InvalidRequest("invalid_params", "needs: places in containers are not counted.", hint=hint)
        if needs.same_node_as is not None:
            beside = await Lookup(self._queries).find(
                needs.same_node_as,
                Asker(principal=owner.principal, project=command.project, connection_id=owner.connection_id),
            )
            if beside.base.location.is_open:
                text = f"same_node_as: {needs.same_node_as} waits for a place itself."
                raise InvalidRequest("invalid_params", text)
            return replace(needs, node=beside.base.location.backend)
        if command.backend not in {None, ANY}:
            return replace(needs, node=backend)
        # What this machine could never run waits for a node that comes.
        is_here = not self._backend.nodes() and self._places.is_possible_here(needs)
        return replace(needs, node=LOCAL) if is_here else needs

    async def _resolved(self, command: Command, owner: Owner, process_id: ProcessId) -> Resolved:
        backend = backend_of(command, owner, self._settings.options)
        needs = await self._needs(command, owner, backend)
        if needs is None:
            return await self._resolved_at(command, owner, process_id, backend=backend)
        resolved = await self._resolved_at(command, owner, process_id, backend=needs.node or ANY)
        return replace(resolved, needs=needs)

    async def _resolved_at(
        self, command: Command, owner: Owner, process_id: ProcessId, *, backend: str
    ) -> Resolved:
        kind = "node" if backend == ANY else "local" if backend == LOCAL else self._backend.kind_of(backend)
        if self._settings.allowed_commands.names:
            self._settings.allowed_commands.check(command, self._environment)
        if command.env_secrets or command.caller_env:
            check_secrets(
                command.env_secrets, command.caller_env or {}, is_granted=command.granted is not None
            )
        inside = None if owner.inside is None else await record_inside(self._queries, owner.inside)
        if kind == "container":
            if self._settings.containers is None:
                raise InvalidRequest("invalid_params", "backend: this server has no containers.")
            resolved = await self._settings.containers.prepare(command, owner, process_id)
            await self._sandboxes.check_folder(resolved.cwd, inside)
            return resolved
        profile = self._sandboxes.choose(command, owner, inside)
        if kind != "local":
            return resolve_elsewhere(command, profile, inside, kind=kind, backend=backend)
        if self._resolver is None:
            raise AssertionError("the engine is used inside `async with` only")
        limit = (
            self._settings.options.output_limit_bytes
            if command.output_limit is None
            else command.output_limit
        )
        command = keeping_unfiltered(
            command,
            profile,
            shell=self._resolver.shell,
            runner=self._settings.runner,
            limit=limit,
            may_fork=command.limits.processes is None and self._settings.options.limit_processes is None,
        )
        resolved = await self._resolver.resolve(command, process_id, is_listed=profile is not Profile.OPEN)
        if backend != LOCAL:
            resolved = replace(resolved, location=Location(kind="local", backend=backend))
        if inside is not None:
            await self._sandboxes.check_folder(resolved.cwd, inside)
        return await self._sandboxes.confine(
            resolved,
            command,
            profile,
            name=process_id,
            script=f"{self._layout.process(process_id)}/script" if resolved.script else command.start_file,
        )

    def adapted(self, command: Command) -> Command:
        """Return a command whose caller's environment decides nothing that the operator's rules are about."""
        if command.caller_env is None or not self._settings.is_strict:
            return command
        return replace(command, caller_env=with_own_deciding(command.caller_env, self._environment))

    async def check_outside(self, owner: Owner, backend: str) -> None:
        """Let a caller pass that may start at that place, in no container, what no profile bounds.

        Raises:
            CommandRefused: `profile_too_weak`.
        """
        backend_of(Command(backend=backend), owner, self._settings.options)
        await self.check_unbounded(owner)

    async def check_unbounded(self, owner: Owner) -> None:
        """Let a caller pass that may start what no profile bounds.

        Raises:
            CommandRefused: `profile_too_weak`.
        """
        inside = None if owner.inside is None else await record_inside(self._queries, owner.inside)
        self._sandboxes.choose(Command(profile=Profile.OPEN.value), owner, inside)


def _within(resolved: Resolved, span: TraceSpan, command: Command) -> Resolved:
    """Return it with `span` in its environment, where the command does not name one itself."""
    if TRACE_VARIABLE in command.env:
        return resolved
    env = {**resolved.env, TRACE_VARIABLE: span.traceparent}
    callers = {name: value for name, value in resolved.caller_env.items() if name != TRACE_VARIABLE}
    return replace(resolved, env=env, caller_env=callers)
