"""The containers of one state folder: `Containers` keeps plans and makes containers run, `Collector` removes
unused ones.

The daemon is called only when a container has to be made or removed. A running one is known by its first
process and by the socket on which its runner listens, so that starts go on while the daemon is away.

A container that commands share is removed when none has lived in it for a while; a process's own container
when that process is over. Only containers with this state folder's label are ever removed. How a container is
made belongs to `maker`.
"""

import asyncio
import contextlib
import errno
import functools
import logging
import os
import time
from collections.abc import Callable
from weakref import WeakValueDictionary

from outlive.core.errors import InvalidState, OutliveError, StartFailed, error_from_slug
from outlive.core.file_words import OtherRoot
from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan
from outlive.extensions.docker import folders
from outlive.extensions.docker.api import DockerApi, DockerSettings, NoSuchContainer
from outlive.extensions.docker.maker import Maker
from outlive.extensions.docker.recipe import Labels, check_plan, is_set_aside
from outlive.extensions.docker.runner import Connect, RunnerHandle, has_commands
from outlive.kernel.processes import status_number

_MOUNT = "Mount a folder into the container, and copy from or to that."


def open_root(layout: Layout, name: str, *, connect: Connect) -> OtherRoot:
    """Return the root folder of a running container; its first process's user gets what is made in it.

    Blocks.

    Raises:
        InvalidState: `file_missing`: it does not run any more; `file_failed`: this server's user may not look
            into it, or the server has no descriptor left.
    """
    try:
        pid = folders.read_init(layout, name)
        if not pid:
            raise _gone(name)
        runner = RunnerHandle(layout.runner_socket(name), pid, connect=connect)
    except OSError as error:
        raise _refusal(name, error) from None
    with contextlib.closing(runner):
        try:
            uid, gid = _owner(pid)
            root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _refusal(name, error) from None
        # Its number may be another process's by now, whose root would be this machine's: only the first
        # process of the container listens on its socket, and it lived all the while.
        if not runner.is_open():
            os.close(root)
            raise _gone(name)
        return OtherRoot(fd=root, uid=uid, gid=gid)


def _owner(pid: int) -> tuple[int, int]:
    """Return user and group of a process, as this machine numbers them (/proc/PID/status, proc(5))."""
    uid, gid = (status_number(pid, name) for name in (b"Uid", b"Gid"))
    if uid is None or gid is None:
        raise ProcessLookupError(errno.ESRCH, "the container's first process has ended")
    return uid, gid


def _refusal(name: str, error: OSError) -> InvalidState:
    """Return the error for what the operating system says of a container's first process."""
    if error.errno in {errno.ENOENT, errno.ESRCH}:
        return _gone(name)
    if isinstance(error, PermissionError):
        text = f"The files of the container {name} are closed to this server's user."
        return InvalidState("file_failed", text, hint=f"Run the server as the daemon's user. {_MOUNT}")
    # It is this server that lacks something, a descriptor for instance: the container may run on.
    return InvalidState(
        "file_failed", f"The files of the container {name} cannot be opened: {error.strerror}."
    )


def _gone(name: str) -> InvalidState:
    text = f"The container {name} does not run any more: its files went with it."
    return InvalidState("file_missing", text, hint=_MOUNT)


_logger = logging.getLogger(__name__)

_SWEEPS_PER_IDLE = 4
_LONGEST_PAUSE_S = 60.0
# A strict container is used once: after `ready`, its process has so long to start in it.
_STRICT_S = 60.0
# The runner needs 2 ms. A container that is silent for so long is examined through the daemon, and loses
# nothing by that.
_ANSWERS_S = 2.0


def is_strict(name: str) -> bool:
    """Tell whether the container of this name belongs to one process alone (`ContainerPlan.name`)."""
    return name.startswith("strict-")


class _Making:
    """The lock and the latest failure of one container's making and removing; `async with` admits one caller
    at a time.

    Callers hold this object, and a `WeakValueDictionary` finds it: it is gone when no caller uses it.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.failures = 0
        self.error: OutliveError | None = None

    async def __aenter__(self) -> None:
        await self._lock.acquire()

    async def __aexit__(self, *_exception: object) -> None:
        self._lock.release()


class _Table:
    """What is known of the containers in memory; the folders hold what a later server has to know."""

    def __init__(self, living: Callable[[], set[str]]) -> None:
        self.living = living
        self.handles: dict[str, RunnerHandle] = {}
        self.plans: dict[str, ContainerPlan] = {}
        self._makings: WeakValueDictionary[str, _Making] = WeakValueDictionary()

    def making(self, name: str) -> _Making:
        """Return the lock of one container, held while it is made or removed."""
        making = self._makings.get(name)
        if making is None:
            making = self._makings[name] = _Making()
        return making

    def shut(self, name: str) -> None:
        """Close the handle of a container's runner."""
        if (handle := self.handles.pop(name, None)) is not None:
            handle.close()

    def forget(self, name: str) -> None:
        """Drop everything that is known about a container: it is being removed, and its folder with it."""
        self.shut(name)
        self.plans.pop(name, None)


class Collector:
    """Removes containers that were not used for a while; for one event loop.

    One with a living process is never removed.
    """

    def __init__(
        self,
        layout: Layout,
        settings: DockerSettings,
        *,
        table: _Table,
        state: Callable[[], str],
    ) -> None:
        """Take what is known of the containers.

        Args:
            layout: The state folder.
            settings: Where the daemon listens, and how long an unused container stays.
            table: The containers that are known, and their locks.
            state: Returns the state folder's label; may block.
        """
        self._layout = layout
        self._settings = settings
        self._table = table
        self._state = state
        self._used_at: dict[str, float] = {}

    def touch(self, name: str) -> None:
        """Record that a container is being used."""
        self._used_at[name] = time.monotonic()

    async def run(self) -> None:
        """Look for unused containers from time to time, for ever."""
        pause_s = min(self._settings.idle_s / _SWEEPS_PER_IDLE, _LONGEST_PAUSE_S)
        while True:
            try:
                await self.sweep()
            except (OutliveError, OSError) as error:  # the daemon is away: the next round tries again
                _logger.debug("unused containers could not be looked for", extra={"reason": str(error)})
            await asyncio.sleep(pause_s)

    async def sweep(self) -> None:
        """Remove the containers whose time is over. One that is seen for the first time counts as used now.

        Raises:
            OutliveError: The daemon does not answer, or refuses.
        """
        if not await asyncio.to_thread(folders.was_used, self._layout):
            return  # Docker was never used with this state folder: its client is not even imported
        async with DockerApi(self._settings) as api:
            found = await self._found(api)
            await self._remove_aside(api)
        names = {*found, *await asyncio.to_thread(folders.list_names, self._layout)}
        living, now = self._table.living(), time.monotonic()
        for name in names:
            if name in living:
                self._used_at[name] = now
            self._used_at.setdefault(name, now)
        self._used_at = {
            name: at for name, at in self._used_at.items() if name in names or now - at < _STRICT_S
        }
        for name in sorted(names):
            if self._is_due(name):
                await self.remove(name, is_due=lambda name=name: self._is_due(name))  # type: ignore[misc] # a default binds it

    async def remove(self, name: str, *, is_due: Callable[[], bool]) -> None:
        """Remove a container and its folder, unless a process lives in it, or `is_due` returns False under
        its lock.

        Raises:
            OutliveError: The daemon does not answer, or refuses; a later round tries again.
        """
        async with self._table.making(name):
            if name in self._table.living() or not is_due():
                return
            # First: from now on `ready` waits for the lock, and does not trust the container that still runs.
            self._table.forget(name)
            async with DockerApi(self._settings) as api:
                for container_id in (await self._found(api)).get(name, []):
                    await api.remove(container_id)
            await asyncio.to_thread(folders.remove_folder, self._layout, name)
            self._used_at.pop(name, None)
        _logger.info("container removed", extra={"container": name})

    async def _remove_aside(self, api: DockerApi) -> None:
        """Remove the containers that were set aside, once no command lives in them."""
        for one in await api.find({Labels.STATE: await asyncio.to_thread(self._state)}):
            if not is_set_aside(one):
                continue
            with contextlib.suppress(NoSuchContainer):
                pid = int((await api.inspect(str(one["Id"])))["State"].get("Pid") or 0)
                if not await asyncio.to_thread(has_commands, pid):
                    await api.remove(str(one["Id"]))

    def _is_due(self, name: str) -> bool:
        stays_s = min(_STRICT_S, self._settings.idle_s) if is_strict(name) else self._settings.idle_s
        return time.monotonic() - self._used_at.get(name, time.monotonic()) >= stays_s

    async def _found(self, api: DockerApi) -> dict[str, list[str]]:
        """Return the ids of this state folder's containers by their names."""
        state = await asyncio.to_thread(self._state)
        found: dict[str, list[str]] = {}
        for one in await api.find({Labels.STATE: state}):
            found.setdefault(str(one["Labels"].get(Labels.CONTAINER, "")), []).append(str(one["Id"]))
        found.pop("", None)
        return found


class Containers:
    """The containers of one state folder, for one event loop.

    `open` begins to remove unused ones, `close` ends that.
    """

    def __init__(
        self,
        layout: Layout,
        settings: DockerSettings,
        *,
        connect: Connect,
        runner: Callable[[str], str],
        living: Callable[[], set[str]],
    ) -> None:
        """Take the state folder and the functions of its owner.

        Args:
            layout: The state folder.
            settings: Where the daemon listens, and how long an unused container stays.
            connect: Returns a connected non-blocking SEQPACKET socket for a path
                (`kernel.sockets.connect_unix`).
            runner: Returns the runner's file for a machine, "x86_64" or "aarch64"; may block.
            living: Returns the names of the containers in which a process lives or is about to; quick.
        """
        self._layout = layout
        self._connect = connect
        self._table = _Table(living)
        self._stack = contextlib.AsyncExitStack()
        state = functools.cache(functools.partial(folders.label_of, layout))
        self._maker = Maker(layout, settings, state=state, connect=connect, runner=runner)
        self._collector = Collector(layout, settings, table=self._table, state=state)
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to look for unused containers."""
        if self._task is None:
            group = await self._stack.enter_async_context(asyncio.TaskGroup())
            self._task = group.create_task(self._collector.run(), name="unused containers")

    async def close(self) -> None:
        """Stop looking for them; containers and their commands go on."""
        if self._task is not None:
            self._task.cancel()
        self._task = None
        await self._stack.aclose()
        for name in list(self._table.handles):
            self._table.shut(name)

    async def remember(self, plan: ContainerPlan) -> str:
        """Write the plan of a container, and return its name; `ready` makes it.

        Raises:
            InvalidRequest: Image, network or user of the plan cannot be used.
            StartFailed: The folder cannot be written.
        """
        name = plan.name
        self._collector.touch(name)
        if name not in self._table.plans:
            check_plan(plan)
            async with self._table.making(name):  # not while its folder is being removed
                try:
                    await asyncio.to_thread(folders.write_plan, self._layout, plan)
                except OSError as error:
                    raise _not_written(name, error) from error
                self._table.plans[name] = plan
        return name

    async def ready(self, name: str) -> None:
        """Return when the container runs and its runner answers.

        Callers for one name wait for one attempt, and share its failure. A running container costs no call to
        the daemon.

        Raises:
            StartFailed, CommandRefused, InvalidRequest: It cannot be made, for the reason in the message.
            BackendUnavailable: The daemon does not answer, or the runner does not.
            StoreCorrupt: The plan is damaged.

        Cancellation: safe; another waiting caller goes on with the attempt.
        """
        self._collector.touch(name)
        handle = self._table.handles.get(name)
        if handle is not None and (handle.is_trusted or await handle.answers(_ANSWERS_S)):
            return
        making = self._table.making(name)
        failures = making.failures
        async with making:
            # The attempt began after this call, so its failure is this call's, too. A new object: one error
            # raised in several places mixes up tracebacks.
            if making.failures != failures and making.error is not None:
                raise error_from_slug(
                    making.error.code,
                    making.error.message,
                    hint=making.error.hint,
                    details=making.error.details,
                )
            try:
                await self._find_runner(name)
            except OutliveError as error:
                making.failures += 1
                making.error = error
                raise
            except OSError as error:
                raise _not_written(name, error) from error
            self._collector.touch(name)

    def open_root(self, name: str) -> OtherRoot:
        """Return the root folder of a running container (see `container_root`). Blocks; from any thread."""
        self._collector.touch(name)
        return open_root(self._layout, name, connect=self._connect)

    async def let_go(self, name: str) -> None:
        """Record that a process in this container is over; a container of its own is removed at once.

        Raises:
            OutliveError: The daemon did not answer; the container is removed later.
        """
        self._collector.touch(name)
        if is_strict(name):
            await self._collector.remove(name, is_due=lambda: True)

    # -- making

    async def _find_runner(self, name: str) -> None:
        """Find the runner of a container: the known one if its runner answers, else by `Maker`."""
        handle = self._table.handles.get(name)
        if handle is not None and handle.is_trusted:
            return
        self._table.shut(name)
        known = await asyncio.to_thread(folders.read_init, self._layout, name)
        # A runner that has not answered just now is left to `Maker`, which asks the daemon.
        if known and handle is None:
            with contextlib.suppress(ProcessLookupError):
                handle = RunnerHandle(self._layout.runner_socket(name), known, connect=self._connect)
                if await _has_answered(handle):
                    self._table.handles[name] = handle
                    return
        if (plan := self._table.plans.get(name)) is not None:  # the folder may have been removed meanwhile
            await asyncio.to_thread(folders.write_plan, self._layout, plan)
        self._table.handles[name] = await self._maker.make(name, is_in_use=name in self._table.living())


async def _has_answered(handle: RunnerHandle) -> bool:
    """Tell whether the runner answers; if not, the handle is closed."""
    is_open = False
    try:
        is_open = await handle.answers(_ANSWERS_S)
    finally:
        if not is_open:
            handle.close()
    return is_open


def _not_written(name: str, error: OSError) -> OutliveError:
    return StartFailed(
        "container_failed",
        f"The folder of the container {name} cannot be written ({error.strerror}).",
        hint="The state folder must be writable, and have space.",
    )
