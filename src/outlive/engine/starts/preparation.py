"""What is decided about a command before it is started: whether it may be, what it resolves to, what bounds it."""

import asyncio

from outlive.backends.contract import Backend
from outlive.core.command import Command
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.process import Owner
from outlive.core.sandbox import Profile
from outlive.engine.caller_reach import record_inside
from outlive.engine.commands.containers import ContainerStarts
from outlive.engine.commands.remote_commands import resolve_elsewhere
from outlive.engine.commands.resolver import Resolved, Resolver, clean_environment, find_shell
from outlive.engine.commands.sandbox import Confined, Sandboxes
from outlive.engine.processes.output_redaction import check_secrets
from outlive.engine.queries import Queries
from outlive.engine.settings import EngineSettings


class Preparation:
    """Asks every part that has a say in a start."""

    def __init__(
        self,
        settings: EngineSettings,
        sandboxes: Sandboxes,
        *,
        queries: Queries,
        backend: Backend,
    ) -> None:
        """Take what decides; nothing is looked for before `open`."""
        self._backend = backend
        self._settings = settings
        self._layout = Layout(settings.state_dir)
        self._queries = queries
        self._environment = clean_environment(settings.environment)
        self._resolver: Resolver | None = None
        self._sandboxes = sandboxes
        self._containers = ContainerStarts(
            settings.containers,
            cwd=settings.cwd,
            limits=settings.sandbox.limits,
            is_strict=settings.is_strict,
        )

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
        return self._opened.shell

    @property
    def _opened(self) -> Resolver:
        if self._resolver is None:
            raise AssertionError("the engine is used inside `async with` only")
        return self._resolver

    async def prepare(
        self, command: Command, owner: Owner, process_id: ProcessId
    ) -> tuple[Resolved, Confined]:
        """Return what will run, and within which bounds.

        Raises:
            OutliveError: As `Starts.start`.
        """
        backend = self._containers.backend_of(command, owner)
        kind = self._backend.kind_of(backend)
        self._settings.allowed_commands.check(command, self._environment)
        check_secrets(command.env_secrets, is_granted=command.granted is not None)
        inside = None if owner.inside is None else await record_inside(self._queries, owner.inside)
        if kind == "container":
            resolved, confined = await self._containers.prepare(command, owner, process_id)
            await self._sandboxes.check_folder(resolved.cwd, inside)
            return resolved, confined
        profile = self._sandboxes.choose(command, owner, inside)
        if kind != "local":
            return resolve_elsewhere(command, profile, inside, kind=kind, backend=backend)
        resolved = await self._opened.resolve(command, process_id, is_listed=profile is not Profile.OPEN)
        if inside is not None:
            await self._sandboxes.check_folder(resolved.cwd, inside)
        confined = await self._sandboxes.confine(
            command,
            profile,
            name=process_id,
            cwd=resolved.cwd,
            script=f"{self._layout.process(process_id)}/script" if resolved.script else command.start_file,
        )
        return resolved, confined

    async def check_unbounded(self, owner: Owner) -> None:
        """Let a caller pass who may start what no profile bounds.

        Raises:
            CommandRefused: `profile_too_weak`.
        """
        inside = None if owner.inside is None else await record_inside(self._queries, owner.inside)
        self._sandboxes.choose(Command(profile=Profile.OPEN.value), owner, inside)
