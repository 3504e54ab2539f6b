"""The containers of one state folder: `Containers` remembers plans, has them running, and removes what nobody uses.

The daemon is asked only when a container has to be made or removed: one that runs is known by its first process and by
the socket on which its runner listens, so that starts go on while the daemon is away.
"""

import asyncio
import contextlib
import functools
from collections.abc import Callable
from weakref import WeakValueDictionary

from outlive.backends.docker import folders
from outlive.backends.docker.collector import Collector, is_strict
from outlive.backends.docker.door import Connect, Door
from outlive.backends.docker.maker import Maker
from outlive.backends.docker.recipe import check_plan
from outlive.backends.docker.settings import DockerSettings
from outlive.backends.docker.socket_handover import LockToHand
from outlive.core.errors import OutliveError, StartFailed, error_from_slug
from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan

# The runner needs 2 ms. Who does not answer for so long is looked at through the daemon, and loses nothing by that.
_ANSWERS_S = 2.0


class _Making:
    """What everybody shares who makes or removes one container: `async with` has it for one of them at a time.

    Whoever uses it holds it, not a part of it: it goes when nobody does.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.failures = 0
        self.error: OutliveError | None = None

    async def __aenter__(self) -> None:
        await self._lock.acquire()

    async def __aexit__(self, *_exception: object) -> None:
        self._lock.release()


class Containers:
    """`open` begins to look after unused containers, `close` ends that and removes nothing. For one event loop."""

    def __init__(
        self,
        layout: Layout,
        settings: DockerSettings,
        *,
        connect: Connect,
        runner: Callable[[str], str],
        lock: LockToHand,
        living: Callable[[], set[str]],
    ) -> None:
        """Take the folder and how to do things.

        Args:
            layout: The state folder.
            settings: How the daemon is reached, and how long an unused container stays.
            connect: Returns a connected non-blocking SEQPACKET socket for a path (`keeper.sockets.connect_unix`).
            runner: Returns the runner's file for a machine, "x86_64" or "aarch64"; may block.
            lock: Returns the supervisor's lock, by which runners know it.
            living: Returns the names of the containers in which a process lives or is about to; quick.
        """
        self._layout = layout
        self._connect = connect
        self._living = living
        self._doors: dict[str, Door] = {}
        self._plans: dict[str, ContainerPlan] = {}
        self._makings: WeakValueDictionary[str, _Making] = WeakValueDictionary()
        self._stack = contextlib.AsyncExitStack()
        state = functools.cache(functools.partial(folders.label_of, layout))
        self._maker = Maker(layout, settings, state=state, connect=connect, runner=runner, lock=lock)
        self._collector = Collector(
            layout,
            settings,
            state=state,
            living=living,
            alone=self._making,
            forget=self._forget,
        )
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to look after what nobody uses."""
        if self._task is None:
            group = await self._stack.enter_async_context(asyncio.TaskGroup())
            self._task = group.create_task(self._collector.run(), name="unused containers")

    async def close(self) -> None:
        """Stop looking after them; containers and what runs in them go on."""
        if self._task is not None:
            self._task.cancel()
        self._task = None
        await self._stack.aclose()
        for name in list(self._doors):
            self._shut(name)

    async def remember(self, plan: ContainerPlan) -> str:
        """Write down what a container is made of, and return its name; `ready` makes it.

        Raises:
            InvalidRequest: Image, network or user of the plan cannot be used.
            StartFailed: The folder cannot be written.
        """
        name = plan.name
        self._collector.touch(name)
        if name not in self._plans:
            check_plan(plan)
            async with self._making(name):  # not while its folder is being removed
                try:
                    await asyncio.to_thread(folders.write_plan, self._layout, plan)
                except OSError as error:
                    raise _not_written(name, error) from error
                self._plans[name] = plan
        return name

    async def ready(self, name: str) -> None:
        """Return when the container runs and its runner answers.

        Callers for one name wait for one making, and all hear of its failure. One that runs costs no call to the daemon.

        Raises:
            StartFailed, CommandRefused, InvalidRequest: It cannot be made; the reason is said.
            BackendUnavailable: The daemon does not answer, or the runner does not.
            StoreCorrupt: The plan is damaged.

        Cancellation: safe; another caller that waits goes on with the making.
        """
        self._collector.touch(name)
        door = self._doors.get(name)
        if door is not None and (door.is_trusted or await door.answers(_ANSWERS_S)):
            return
        making = self._making(name)
        failures = making.failures
        async with making:
            if (
                making.failures != failures and making.error is not None
            ):  # of an attempt that began after we asked
                raise error_from_slug(
                    making.error.code,
                    making.error.message,
                    hint=making.error.hint,
                    details=making.error.details,
                )
            try:
                await self._open_door(name)
            except OutliveError as error:
                making.failures += 1
                making.error = error
                raise
            except OSError as error:
                raise _not_written(name, error) from error
            self._collector.touch(name)

    async def let_go(self, name: str) -> None:
        """Hear that a process in this container is over and let go of: one that was its own goes at once.

        Raises:
            OutliveError: The daemon could not be asked; the container is removed later.
        """
        self._collector.touch(name)
        if is_strict(name):
            await self._collector.remove(name, is_due=lambda: True)

    # -- making

    def _making(self, name: str) -> _Making:
        making = self._makings.get(name)
        if making is None:
            making = self._makings[name] = _Making()
        return making

    async def _open_door(self, name: str) -> None:
        door = self._doors.get(name)
        if door is not None and door.is_trusted:
            return
        self._shut(name)
        known, path = await asyncio.to_thread(folders.known_way, self._layout, name)
        if known and door is None:  # one that was asked in vain is looked at through the daemon
            with contextlib.suppress(ProcessLookupError):
                door = Door(path, known, connect=self._connect)
                if await _has_answered(door):
                    self._doors[name] = door
                    return
        if (plan := self._plans.get(name)) is not None:  # somebody may have removed the folder
            await asyncio.to_thread(folders.write_plan, self._layout, plan)
        self._doors[name] = await self._maker.make(name, is_in_use=name in self._living())

    def _forget(self, name: str) -> None:
        """Believe nothing of what is known about a container: it is being removed, and its folder with it."""
        self._shut(name)
        self._plans.pop(name, None)

    def _shut(self, name: str) -> None:
        door = self._doors.pop(name, None)
        if door is not None:
            door.close()


async def _has_answered(door: Door) -> bool:
    """Tell whether it answers; else it is closed."""
    is_open = False
    try:
        is_open = await door.answers(_ANSWERS_S)
    finally:
        if not is_open:
            door.close()
    return is_open


def _not_written(name: str, error: OSError) -> OutliveError:
    return StartFailed(
        "container_failed",
        f"The folder of the container {name} cannot be written ({error.strerror}).",
        hint="The state folder must be writable, and have space.",
    )
