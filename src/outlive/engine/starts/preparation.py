"""`Preparation`: what has a say in a start, asked in one place: may it be started, what does it resolve to,
what bounds it.

Of that are made what is recorded of a command before it runs, `new_record`, and what the keeper is asked to
run, `new_spec`.
"""

import asyncio

from outlive.backends.contract import Backend
from outlive.config import Settings
from outlive.core.command import ApprovalState, Command, Profile
from outlive.core.errors import CommandRefused, InvalidRequest
from outlive.core.identity import TRACE_VARIABLE, ProcessId
from outlive.core.layout import Layout
from outlive.core.lifecycle import State
from outlive.core.location import ANY, DOCKER, LOCAL, Location
from outlive.core.needs import Needs
from outlive.core.process import Owner, ProcessRecord, StartOrigin
from outlive.core.spec import CALLER_ENVIRONMENT, REPEATED, Spec
from outlive.core.values import replace
from outlive.engine.commands.elsewhere import resolve_elsewhere
from outlive.engine.commands.resolver import Resolved, Resolver, clean_environment, find_shell
from outlive.engine.commands.sandbox import Sandboxes
from outlive.engine.commands.unfiltered import keeping_unfiltered
from outlive.engine.lookup import Asker, Lookup
from outlive.engine.processes.output_redaction import TextMask, check_secrets
from outlive.engine.processes.places import Places
from outlive.engine.queries import Queries, record_inside
from outlive.engine.settings import EngineSettings
from outlive.policy.starters import with_own_deciding
from outlive.protocols.trace_context import TraceSpan, span_of
from outlive.store.folder import encode_meta
from outlive.store.rows import at_time


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
        backend = _backend_of(command, owner, self._settings.options)
        if command.needs is None and backend != ANY:  # as nearly always
            resolved = await self._resolved(command, owner, process_id, backend=backend)
        else:
            needs = await self._needs(command, owner, backend)
            resolved = await self._resolved(command, owner, process_id, backend=needs.node or ANY)
            resolved = replace(resolved, needs=needs)
        # A node decides for itself what its commands know of their span.
        if self._settings.passes_trace and not resolved.location.is_elsewhere:
            return _within(resolved, span_of(process_id, owner.traceparent), command)
        return resolved

    async def _needs(self, command: Command, owner: Owner, backend: str) -> Needs:
        """Return what the machine must have, with the only one that counts.

        Raises:
            InvalidRequest: It is to run in a container, or beside a process that has no place yet.
            ProcessNotFound: The process beside which it is to run is not known to the caller.
        """
        needs = command.needs or Needs()
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

    async def _resolved(
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
        if command.keeps_unfiltered:
            limit = command.output_limit
            command = keeping_unfiltered(
                command,
                profile,
                shell=self._resolver.shell,
                runner=self._settings.runner,
                limit=self._settings.options.output_limit_bytes if limit is None else limit,
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
        callers = with_own_deciding(command.caller_env or {}, self._environment)
        return replace(command, caller_env=callers)

    async def check_outside(self, owner: Owner, backend: str) -> None:
        """Let a caller pass that may start at that place, in no container, what no profile bounds.

        Raises:
            CommandRefused: `profile_too_weak`.
        """
        _backend_of(Command(backend=backend), owner, self._settings.options)
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


def _backend_of(command: Command, owner: Owner, options: Settings) -> str:
    """Return where a command runs.

    Raises:
        CommandRefused: `profile_too_weak`: the operator has commands run in containers, and the caller, which
            is no administrator, wants this one outside.
    """
    wanted = command.backend or options.backend
    if wanted != DOCKER and options.backend == DOCKER and not owner.is_admin:
        raise CommandRefused(
            "profile_too_weak",
            "Commands run in containers here; only an administrator may start one outside.",
            details={"least": DOCKER},
        )
    if wanted == LOCAL and (command.image is not None or command.isolation is not None):
        name = "image" if command.image is not None else "isolation"
        raise InvalidRequest("invalid_params", f"{name}: there is no container in the backend {wanted!r}.")
    return wanted


MAX_TEXT = 100 * 1024  # characters of a command that records keep; the whole line is in the folder


def recorded_text(text: str, folder: str) -> str:
    """Return a command's text as its record has it: the beginning of a very long one, and where the rest
    is.
    """
    if len(text) > MAX_TEXT:
        text = f"{text[:1000]} … ({len(text)} characters, whole in {folder}/script)"
    return shown_text(text)


def shown_text(text: str) -> str:
    """Return a text for people: bytes that are no UTF-8 (PEP 383) become U+FFFD. What runs keeps them."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def new_record(
    command: Command,
    resolved: Resolved,
    owner: Owner,
    *,
    process_id: ProcessId,
    command_id: str,
    number: int,
    created_ns: int,
    settings: EngineSettings,
    folder: str,
    state: State,
    hide: TextMask,
    approval: ApprovalState | None = None,
) -> ProcessRecord:
    """Return what is known of a process that begins in `state`.

    `folder` is where its script would lie; `hide` takes secrets out of a text.
    """
    text = command.text
    if command.script is not None and command.title is None:
        text = " ".join(resolved.argv)
    return ProcessRecord(
        process_id=process_id,
        command=recorded_text(hide(text), folder),
        shell=resolved.shell,
        cwd=shown_text(resolved.cwd),
        state=state,
        owner=owner,
        origin=StartOrigin.of(owner),
        stdio=command.stdio,
        stdin=command.stdin,
        created_at=at_time(created_ns),
        is_detached=command.detached,
        timeout_s=command.timeout_s,
        grace_s=settings.options.grace_s if command.grace_s is None else command.grace_s,
        tags=dict(command.tags),
        group=command.group,
        command_id=command_id,
        project=command.project,
        number=number,
        key=command.key,
        name=command.name,
        sandbox=resolved.sandbox,
        secret_names=tuple(command.env_secrets),
        approval=approval,
        grant=command.granted,
        terminal=command.terminal,
        location=resolved.location,
        needs=resolved.needs,
        redacted=hide.count,
    )


def new_spec(
    command: Command,
    resolved: Resolved,
    record: ProcessRecord,
    *,
    output_limit: int | None,
    settings: EngineSettings,
) -> Spec:
    """Return what the keeper is asked to run."""
    # A node has defaults of its own.
    umask, nice = (None, None) if record.location.is_elsewhere else (settings.umask, settings.nice)
    return Spec(
        program=resolved.program,
        argv=resolved.argv,
        env=resolved.env,
        shared_env=resolved.shared_env,
        cwd=resolved.cwd,
        stdio=command.stdio,
        stdin=command.stdin,
        rows=command.rows,
        cols=command.cols,
        timeout_s=record.timeout_s,
        grace_s=record.grace_s,
        output_limit=output_limit,
        on_limit=command.on_limit,
        after_exit=command.after_exit,
        secrets=(*record.secret_names, *((CALLER_ENVIRONMENT,) if resolved.caller_env else ())),
        confinement=resolved.steps,
        groups=resolved.groups,
        container=record.location.container or "",
        umask=umask if command.umask is None else command.umask,
        nice=nice if command.nice is None else _allowed(command.nice, record.owner, settings),
        meta={
            **encode_meta(record),
            **({"limits": command.limits.view()} if command.limits else {}),
            **({REPEATED: asked} if (asked := command.asked_again) else {}),
            **resolved.meta,
        },
    )


def _allowed(nice: int, owner: Owner, settings: EngineSettings) -> int:
    """Return the niceness that a caller may have: none below the server's own, but for an administrator
    outside of our trees.

    Where the keeper is root's, the kernel would give it to every caller with the scope run.
    """
    if owner.is_admin and owner.inside is None:
        return nice
    return max(nice, settings.nice or 0)
