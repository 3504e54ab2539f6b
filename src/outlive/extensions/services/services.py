"""`Services`: every project's services; what is asked of them, and that a later server goes on with them.

What a project's services do belongs to `stack_runner`, and what follows from what to
`machine`.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Self

from outlive.core.command import parse_umask
from outlive.core.errors import CommandRefused, LimitExceeded, OutliveError, ProcessNotFound
from outlive.core.events import AuditEvent
from outlive.core.layout import Layout
from outlive.core.process import Owner
from outlive.engine import Engine
from outlive.engine.queries import check_reach
from outlive.extensions.services.declaration import did_you_mean
from outlive.extensions.services.machine import LIVING, Effect, Stack
from outlive.extensions.services.operations import (
    DownRequest,
    RestartRequest,
    ServicesRequest,
    StackList,
    StackMembers,
    UpRequest,
)
from outlive.extensions.services.service_files import KeptStack, ServiceFiles
from outlive.extensions.services.service_processes import ServiceParts
from outlive.extensions.services.stack_runner import StackRunner
from outlive.kernel.disk import Reserve

# Projects with services that a principal may have: more than anybody works on, and a bound for what is kept
# in memory.
_MAX_STACKS = 64
_Change = Callable[[Stack, float], list[Effect]]


class Services:
    """The services of all projects. On the engine's loop only, while the engine is open.

    `async with` goes on with what an earlier server has kept, once it is known what lives; nothing is changed
    before that, and a request waits that long.
    """

    def __init__(self, layout: Layout, engine: Engine) -> None:
        """Take the engine, and the state folder; nothing is read yet."""
        self._engine = engine
        self._tasks = asyncio.TaskGroup()
        self._parts = ServiceParts(
            engine=engine, files=ServiceFiles(layout, fit=Reserve(layout.root).fit), tasks=self._tasks
        )
        self._runners: dict[tuple[str, str], StackRunner] = {}
        self._begun = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Read what an earlier server has kept."""
        for kept in await asyncio.to_thread(self._parts.files.read):
            self._runners[kept.place] = StackRunner(kept, self._parts)
        await self._tasks.__aenter__()
        self._parts.begin(self._begin(), "services")
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Do nothing any more; processes go on."""
        self._begun.clear()  # a request that still comes waits, and ends with its connection
        for runner in self._runners.values():
            runner.close()
        for task in [*self._parts.running]:
            task.cancel()
        await self._tasks.__aexit__(None, None, None)

    async def _begin(self) -> None:
        await self._engine.reconciliation.over()
        for runner in self._runners.values():
            runner.recover()
        self._begun.set()

    async def up(self, request: UpRequest, owner: Owner) -> StackList:
        """Make what runs what is declared; answered when that is kept and has begun.

        Raises:
            CommandRefused: `profile_too_weak`: a caller inside of a process of ours may not do this to what
                runs, or have the server ask an address.
            LimitExceeded: `process_limit`: the principal has services in too many projects.
        """
        if owner.inside is not None and any(
            one.ready and one.ready.http for one in request.services.values()
        ):
            text = "ready: for what was started here the server asks no address."
            raise CommandRefused("profile_too_weak", text, hint="Use port or text instead of http.")
        runner = await self._runner(request.folder, owner) or await self._new_runner(request, owner)
        kept = runner.kept

        def change(stack: Stack, now: float) -> list[Effect]:
            kept.project, kept.environment = request.project or request.folder, dict(request.environment)
            kept.start_as(owner)
            kept.umask, kept.nice = parse_umask(request.umask), request.nice
            return stack.up(request.services, request.names, now)

        return await self._change(runner, change, "services_up", owner)

    async def down(self, request: DownRequest, owner: Owner) -> StackList:
        """Stop services; answered when that is kept and has begun.

        Raises:
            ProcessNotFound: There are no such services.
            CommandRefused: As `up`.
        """
        runner = await self._known_runner(request, owner)
        return await self._change(
            runner,
            lambda stack, now: stack.down(request.names, now, grace_s=request.grace),
            "services_down",
            owner,
        )

    async def restart(self, request: RestartRequest, owner: Owner) -> StackList:
        """End services and start them again; answered when that is kept and has begun.

        Raises:
            ProcessNotFound, CommandRefused: As `down`.
        """
        runner = await self._known_runner(request, owner)
        names = request.names or tuple(runner.stack.services)
        kept = runner.kept

        def change(stack: Stack, now: float) -> list[Effect]:
            # What a process has started is bounded as it is itself, also where another caller has declared
            # it.
            if owner.inside is not None:
                kept.start_as(owner)
            return stack.restart(names, now)

        return await self._change(runner, change, "services_restart", owner)

    async def list(self, request: ServicesRequest, owner: Owner) -> StackList:
        """Return the services of the caller's principal.

        Those of one project after news of them, if that is asked for.

        Cancellation: safe.
        """
        if request.folder is None:
            await self._begun.wait()
            own = [one for (principal, _), one in self._runners.items() if principal == owner.principal]
            return StackList(stacks=[one.view() for one in sorted(own, key=lambda one: one.kept.folder)])
        runner = await self._runner(request.folder, owner)
        if runner is None:
            return StackList(stacks=[])
        if request.revision is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(request.wait_s):
                    await runner.until_news(request.revision)
        return StackList(stacks=[runner.view()])

    async def _runner(self, folder: str, owner: Owner) -> StackRunner | None:
        await self._begun.wait()
        return self._runners.get((owner.principal, folder))

    async def _known_runner(self, request: StackMembers, owner: Owner) -> StackRunner:
        runner = await self._runner(request.folder, owner)
        if runner is None:
            text = f"No services of {request.folder} are known."
            raise ProcessNotFound("process_not_found", text, hint="`outlive up` starts a project's services.")
        for name in request.names:
            if name not in (services := runner.stack.services):
                text = f"There is no service {name!r}.{did_you_mean(name, services)}"
                raise ProcessNotFound("process_not_found", text, hint=f"There are {', '.join(services)}.")
        return runner

    async def _new_runner(self, request: UpRequest, owner: Owner) -> StackRunner:
        own = [one for (principal, _), one in self._runners.items() if principal == owner.principal]
        if len(own) >= _MAX_STACKS:
            idle = next((one for one in own if not one.stack.needs_server), None)
            if idle is None:
                text = (
                    f"{len(own)} projects of this principal have services, and no more than "
                    f"{_MAX_STACKS} may."
                )
                raise LimitExceeded("process_limit", text, hint="`outlive down` in one of them makes room.")
            del self._runners[idle.kept.place]
            await asyncio.to_thread(self._parts.files.remove, idle.kept)
            if (known := self._runners.get((owner.principal, request.folder))) is not None:
                return known  # another request of the same project was here meanwhile
        folder = request.folder
        kept = KeptStack(principal=owner.principal, folder=folder, project=folder, services={})
        runner = self._runners[kept.place] = StackRunner(kept, self._parts)
        return runner

    async def _change(self, runner: StackRunner, change: _Change, what: str, owner: Owner) -> StackList:
        """Carry out a request, and publish that it was made and whether it was heeded."""
        details: dict[str, str | int | bool] = {"folder": runner.kept.folder}
        try:
            await self._check_reach(runner, owner)
        except OutliveError as error:
            self._engine.events.publish(
                AuditEvent(what=what, by=owner, decision="denied", reason=error.code, details=details)
            )
            raise
        # A caller that goes away takes nothing back: what is kept has to be done.
        await asyncio.shield(self._parts.task(runner.take(change), what))
        self._engine.events.publish(AuditEvent(what=what, by=owner, details=details))
        return StackList(stacks=[runner.view()])

    async def _check_reach(self, runner: StackRunner, owner: Owner) -> None:
        """Let a caller pass that may act on all that runs of a project's services."""
        if owner.inside is None:
            return
        queries = self._engine.queries
        for one in runner.stack.services.values():
            if one.phase in LIVING and one.process_id is not None:
                with contextlib.suppress(ProcessNotFound):
                    await check_reach(queries, await queries.find(one.process_id), owner)
