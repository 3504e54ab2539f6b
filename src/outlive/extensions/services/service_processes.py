"""The processes of a project's services: `ServiceProcesses` starts, finds and ends them; it decides nothing.

A start is asked for until the keeper has answered, under an id that was chosen and kept before: however often
that is, it starts once.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Coroutine
from typing import Any

from outlive.core.command import NO_LIMITS, Command
from outlive.core.controls import SignalProcess
from outlive.core.documents import decode_text
from outlive.core.errors import BackendUnavailable, InvalidState, ProcessNotFound, StartFailed
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import State, signal_number
from outlive.core.process import SERVICE_TAG, SERVICES_DOOR, Owner
from outlive.core.values import dataclass, field
from outlive.engine import Engine
from outlive.engine.processes.process import Process
from outlive.extensions.services.declaration import ServiceRequest
from outlive.extensions.services.machine import AskToEnd
from outlive.extensions.services.service_files import KeptStack, ServiceFiles
from outlive.extensions.services.services_file import parse_env_file

_logger = logging.getLogger(__name__)

_RETRY_S = 1.0  # between two attempts at what only the keeper's silence keeps from being done
_LOCAL_USER = "uid:"  # how principals of this machine's users begin (`policy.access`)
_STOPPED = "The service was stopped."
_MAX_ENV_FILE = 256 * 1024  # bytes that are read: the kernel gives a program not much more


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParts:
    """What all runners use: the engine, the files, and the tasks in which they wait."""

    engine: Engine
    files: ServiceFiles
    tasks: asyncio.TaskGroup
    running: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Do something beside everything else; it ends when services are closed, at the latest."""
        _ = self.task(work, name)

    def task(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Do the same, and return what can be waited for."""
        task = self.tasks.create_task(_guarded(work), name=name)
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        task.add_done_callback(lambda _: work.close())  # one that is cancelled before it began awaits nothing
        return task


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:  # a fault here must not take all services along
        _logger.exception("a service's task failed")


class ServiceProcesses:
    """What is done to the processes of one project. On the engine's loop only."""

    def __init__(self, kept: KeptStack, parts: ServiceParts) -> None:
        self._kept = kept
        self._parts = parts
        # The starts that are on their way, by process id: a stop waits until it is known whether there is a
        # process.
        self._starting: dict[str, asyncio.Event] = {}

    def announce(self, process_id: str) -> None:
        """Note that a process is about to be started."""
        self._starting[process_id] = asyncio.Event()

    def settle(self, process_id: str) -> None:
        """Note that it is known whether it was."""
        if (is_known := self._starting.pop(process_id, None)) is not None:
            is_known.set()

    async def start(self, declared: ServiceRequest, name: str, process_id: str) -> Process:
        """Return the process of a start, which is asked for until the keeper has answered.

        Raises:
            OutliveError: It is refused, or cannot run.
        """
        kept = self._kept
        owner = Owner(
            principal=kept.principal, inside=kept.inside, is_admin=kept.is_admin, door=SERVICES_DOOR
        )
        command = await self._command(declared, name)
        while True:
            try:
                process = await self._parts.engine.starts.start(
                    command, owner=owner, process_id=ProcessId(process_id)
                )
            except BackendUnavailable:
                await asyncio.sleep(_RETRY_S)
                # Under its id it is started once, however often it is asked for; one that has ended meanwhile
                # is found.
                if (known := await self.known(process_id)) is not None:
                    return known
            else:
                self.settle(process_id)
                return process

    async def _command(self, declared: ServiceRequest, name: str) -> Command:
        folder = declared.folder or self._kept.folder
        # A local user's program reads what it likes; for any other caller the server reads nothing that the
        # service could not.
        is_own = self._kept.principal.startswith(_LOCAL_USER) and self._kept.inside is None
        variables = dict(self._kept.environment)
        for path in declared.env_file:
            variables |= await asyncio.to_thread(_read_variables, path, None if is_own else folder)
        is_line = isinstance(declared.command, str)
        return Command(
            line=declared.command if is_line else None,  # type: ignore[arg-type] # one of the two
            argv=None if is_line else tuple(declared.command),
            cwd=folder,
            # In memory only, all the way to the process: what a file of variables says is written nowhere.
            caller_env=variables,
            env=dict(declared.environment),
            stdio="pty" if declared.terminal else "pipes",
            # Watchers (tailwindcss --watch) leave at the end of their input; a job may wait for it.
            stdin="none" if declared.is_job else "pipe",
            grace_s=declared.grace,
            # What it leaves running would be in the way of its next process.
            after_exit="kill",
            detached=True,
            tags={SERVICE_TAG: name},
            name=name,
            project=self._kept.project,
            profile=declared.profile,
            limits=NO_LIMITS if declared.limits is None else declared.limits.to_limits(),
            umask=self._kept.umask,
            nice=self._kept.nice,
        )

    async def known(self, process_id: str) -> Process | None:
        """Return a process, None where there is none; waits as long as nothing knows."""
        while True:
            try:
                return await self._parts.engine.queries.find(process_id)
            except ProcessNotFound:
                return None
            except BackendUnavailable:
                await asyncio.sleep(_RETRY_S)

    async def ask_to_end(self, asked: AskToEnd) -> None:
        """Ask a process to end until it is known that it heard that; its end is reported by its own task."""
        if (is_known := self._starting.get(asked.process_id)) is not None:
            await is_known.wait()
        while (process := await self.known(asked.process_id)) is not None and not process.status.is_complete:
            try:
                await self._send_end(process, asked)
            except InvalidState:  # it has ended meanwhile
                return
            except BackendUnavailable:
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def _send_end(self, process: Process, asked: AskToEnd) -> None:
        number = signal_number(asked.signal)
        if number == signal_number("TERM") or process.status.state is not State.RUNNING:
            await self._parts.engine.controls.cancel(process, grace_s=asked.grace_s, note=_STOPPED)
        else:
            # The machine asks for KILL once the grace is over.
            await self._parts.engine.controls.control(process, SignalProcess(signal=number, whole_tree=True))


def _read_variables(path: str, within: str | None) -> dict[str, str]:
    """Return the variables of a file.

    Args:
        path: Where it lies.
        within: The folder in which it has to lie; None: anywhere.

    Raises:
        StartFailed: `start_failed`: it cannot be read, or lies elsewhere.
    """
    try:
        # Without waiting: a pipe in its place must not keep a thread for ever.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise StartFailed("start_failed", f"env_file {path}: it is no file.")
            # Asked of what is open: a link that is changed meanwhile leads nowhere else.
            if within is not None and not _lies_in(os.readlink(f"/proc/self/fd/{fd}"), within):
                raise StartFailed(
                    "start_failed", f"env_file {path}: it lies outside of the service's folder."
                )
            text = decode_text(file.read(_MAX_ENV_FILE), errors="surrogateescape")
        return parse_env_file(text)
    except OSError as error:
        raise StartFailed("start_failed", f"env_file {path}: {error.strerror}.") from error
    except ValueError as error:
        raise StartFailed("start_failed", f"env_file {path}: {error}.") from None


def _lies_in(path: str, folder: str) -> bool:
    return path.startswith(f"{os.path.realpath(folder).rstrip('/')}/")
