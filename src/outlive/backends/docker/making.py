"""How one container comes to run: found by its labels, else made; started, and waited for until its runner answers.

Whoever else does the same at the same time (another server of this folder) ends at the same container: the daemon
gives a name once, and every step may be repeated.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outlive.backends.docker import folders
from outlive.backends.docker.api import DockerApi, NoSuchContainer, image_missing
from outlive.backends.docker.door import Connect, Door
from outlive.backends.docker.mounts import Mount, check_mounts, remote_mounts, still_there
from outlive.backends.docker.recipe import (
    Labels,
    check_plan,
    container_name,
    machine_of,
    owner_of,
    recipe,
)
from outlive.backends.docker.settings import DockerSettings
from outlive.backends.docker.streaming import Streaming
from outlive.core.errors import BackendUnavailable, CommandRefused, OutliveError, StartFailed
from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan

__all__ = ["Maker"]

_logger = logging.getLogger(__name__)

# A container may go away under us: somebody removes it, or another server makes it anew; and its name is taken a while
# before it can be seen.
_SETTLES_S = 20.0
_LISTENS_S = 15.0  # the runner needs 2 ms; a machine that swaps needs seconds
_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.1
_KILLED = 137


class _Again(Exception):
    """The container went away, or had to be removed: begin anew."""


class Maker:
    """Makes containers of one state folder run. Cancellation: safe; the next attempt finds what has been made."""

    def __init__(
        self,
        layout: Layout,
        settings: DockerSettings,
        *,
        state: Callable[[], str],
        connect: Connect,
        runner: Callable[[str], str],
    ) -> None:
        """`state` returns the folder's label, `runner` the runner's file for a machine (may raise StartFailed); both block."""
        self._layout = layout
        self._settings = settings
        self._state_label = state
        self._state = ""
        self._connect = connect
        self._runner = runner
        self._streaming = Streaming(layout, settings, connect=connect, runner=runner)

    async def make(self, name: str, *, is_in_use: bool) -> Door:
        """Return the way into a container that runs.

        Args:
            name: Whose plan lies in the folder.
            is_in_use: Something may live in it: then it is not removed, however strange it looks.

        Raises:
            StartFailed, CommandRefused, InvalidRequest: It cannot be made; the reason is said.
            BackendUnavailable: The daemon does not answer in time.
        """
        plan = await asyncio.to_thread(folders.read_plan, self._layout, name)
        check_plan(plan)
        self._state = await asyncio.to_thread(self._state_label)
        async with DockerApi(self._settings) as api:
            pause_s = _PAUSE_S
            deadline = time.monotonic() + _SETTLES_S
            while time.monotonic() < deadline:
                try:
                    return await self._bring_up(api, plan, is_in_use=is_in_use)
                except (_Again, NoSuchContainer):
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        raise BackendUnavailable(
            "docker_unavailable",
            f"The container {name} goes away as often as it is made: somebody removes it.",
        )

    async def _bring_up(self, api: DockerApi, plan: ContainerPlan, *, is_in_use: bool) -> Door:
        found = await api.find({Labels.STATE: self._state, Labels.CONTAINER: plan.name})
        if not found:
            return await self._begin(api, plan)
        container_id = str(found[0]["Id"])
        about = await api.inspect(container_id)
        match about["State"]["Status"]:
            case "running":
                return await self._enter(api, plan, container_id, may_remove=not is_in_use)
            case "paused":
                await api.unpause(container_id)
                raise _Again
            case "created" | "exited":
                return await self._revive(api, plan, about)
            case _:  # dead, being removed, restarting: nothing that could be gone on with
                await api.remove(container_id)
                raise _Again

    async def _begin(self, api: DockerApi, plan: ContainerPlan) -> Door:
        body, mounts, runner = await self._recipe(api, plan)
        name = container_name(self._state, plan.name)
        try:
            container_id = await api.create(name, body)
        except StartFailed as error:
            raise _in_words(error, plan) from error
        if container_id is None:
            await self._explain_conflict(api, plan, name)
            raise _Again
        _logger.info("container made", extra={"container": name, "image": plan.image})
        try:
            if self._streaming.is_used_for(plan.runtime):
                await self._streaming.put_runner(api, container_id, runner)
            return await self._start(api, plan, container_id, mounts)
        except OutliveError:
            await _remove_quietly(api, container_id)
            raise

    async def _revive(self, api: DockerApi, plan: ContainerPlan, about: Mapping[str, Any]) -> Door:
        """Start one that stands still, if it is what would be made now; else make it anew. Nothing lives in it."""
        container_id = str(about["Id"])
        body, mounts, _ = await self._recipe(api, plan)
        if about["Config"]["Labels"].get(Labels.RECIPE) == body["Labels"][Labels.RECIPE]:
            try:
                return await self._start(api, plan, container_id, mounts)
            except StartFailed as error:
                _logger.info(
                    "a container does not start any more",
                    extra={"container": plan.name, "reason": error.code},
                )
        await api.remove(container_id)
        raise _Again

    async def _recipe(
        self, api: DockerApi, plan: ContainerPlan
    ) -> tuple[dict[str, Any], Sequence[Mount], str]:
        """Check and prepare everything that a container needs; return the body of its `create`, mounts, and the runner's file."""
        if self._settings.is_remote:
            mounts = remote_mounts(plan)
        else:
            mounts = await asyncio.to_thread(
                check_mounts,
                plan,
                state_dir=self._layout.root,
                daemon_socket=self._settings.endpoint.socket_path,
            )
        image = await api.image(plan.image)
        if image is None and self._settings.pull:
            await api.pull(plan.image)
            image = await api.image(plan.image)
        if image is None:
            raise image_missing(plan.image)
        owner = owner_of(plan, image)
        runner = await asyncio.to_thread(self._runner, machine_of(image))
        is_stream = self._streaming.is_used_for(plan.runtime)
        if not is_stream:
            await asyncio.to_thread(folders.prepare_run, self._layout, plan.name, owner)
        body = recipe(
            plan,
            state=self._state,
            owner=owner,
            image_id=str(image.get("Id", "")),
            mounts=mounts,
            runner=runner,
            run_folder=folders.run_folder(self._layout, plan.name),
            is_stream=is_stream,
        )
        return body, mounts, runner

    async def _explain_conflict(self, api: DockerApi, plan: ContainerPlan, name: str) -> None:
        """Return when the container that has the name is the one we want (another server was quicker)."""
        about = await api.inspect(name)
        labels = about["Config"]["Labels"] or {}
        if labels.get(Labels.STATE) != self._state or labels.get(Labels.CONTAINER) != plan.name:
            raise StartFailed(
                "container_failed",
                f"A container named {name} exists that is not outlive's own.",
                hint=f"Look at it, and rename or remove it: docker rename {name} other.",
            )

    async def _start(
        self, api: DockerApi, plan: ContainerPlan, container_id: str, mounts: Sequence[Mount]
    ) -> Door:
        try:
            await api.start(container_id)
        except StartFailed as error:
            raise _in_words(error, plan) from error
        if not await asyncio.to_thread(still_there, mounts):
            await _remove_quietly(api, container_id)
            raise CommandRefused(
                "mount_refused",
                "A folder was replaced while it was being mounted; the container was removed.",
            )
        return await self._enter(api, plan, container_id, may_remove=True, is_new=True)

    async def _enter(
        self,
        api: DockerApi,
        plan: ContainerPlan,
        container_id: str,
        *,
        may_remove: bool,
        is_new: bool = False,
    ) -> Door:
        """Wait until the runner answers; `init` is written before."""
        about = await api.inspect(container_id)
        pid = int(about["State"].get("Pid") or 0)
        if not about["State"].get("Running") or not pid:
            raise _died(about, plan)
        if _is_stream(about):
            return await self._enter_by_stream(api, plan, container_id)
        await asyncio.to_thread(self._streaming.forget, plan.name)
        try:
            door = Door(self._layout.runner_socket(plan.name), pid, connect=self._connect)
        except ProcessLookupError:
            await self._try_stream(api, plan, container_id, is_new=is_new)
            raise await self._not_here(api, plan, container_id) from None
        try:
            await asyncio.to_thread(folders.write_init, self._layout, plan.name, pid)
            if await _answers(door):
                return door
            is_dead = not door.is_alive
        except BaseException:
            door.close()
            raise
        door.close()
        if is_dead:
            raise _died(await _settled(api, container_id), plan)
        await self._try_stream(api, plan, container_id, is_new=is_new)
        if may_remove:
            await _remove_quietly(api, container_id)
        raise BackendUnavailable(
            "docker_unavailable",
            f"Nothing answers in the container {plan.name}: its runner does not listen.",
            hint="The daemon must run on this machine, and see its files and processes as the server does.",
        )

    async def _enter_by_stream(self, api: DockerApi, plan: ContainerPlan, container_id: str) -> Door:
        try:
            return await self._streaming.enter(plan.name, container_id)
        except BackendUnavailable:
            about = await api.inspect(container_id)
            if not about["State"].get("Running"):
                raise _died(about, plan) from None
            raise

    async def _try_stream(
        self, api: DockerApi, plan: ContainerPlan, container_id: str, *, is_new: bool
    ) -> None:
        """Begin anew with a stream, if the container runs all the same; not where a command may have removed the socket."""
        if not is_new:
            return
        about = await _settled(api, container_id)
        if about["State"].get("Running") and self._streaming.fall_back(plan.runtime):
            _logger.info("no socket leads into containers: streams are used", extra={"container": plan.name})
            await api.remove(container_id)
            raise _Again

    async def _not_here(self, api: DockerApi, plan: ContainerPlan, container_id: str) -> OutliveError:
        about = await _settled(api, container_id)
        if not about["State"].get("Running"):
            return _died(about, plan)
        return StartFailed(
            "docker_unavailable",
            "The Docker daemon runs its containers where this server cannot see them.",
            hint="The daemon must run on this machine, in the server's own pid namespace.",
        )


def _is_stream(about: Mapping[str, Any]) -> bool:
    """Tell whether a container was made to be reached by a stream."""
    return "hold" in (about["Config"].get("Cmd") or [])


async def _answers(door: Door) -> bool:
    deadline = time.monotonic() + _LISTENS_S
    pause_s = _PAUSE_S
    while not door.is_open():
        if not door.is_alive or time.monotonic() > deadline:
            return False
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
    return True


async def _settled(api: DockerApi, container_id: str) -> Mapping[str, Any]:
    """Return what the daemon knows, once it has noticed an end: it hears of it a moment later than we.

    That it was for want of memory it may hear still later: who was killed is looked at for a second.
    """
    about: Mapping[str, Any] = {}
    for _ in range(50):
        about = await api.inspect(container_id)
        state = about["State"]
        is_explained = state.get("OOMKilled") or state.get("ExitCode") != _KILLED
        if is_explained and not state.get("Running"):
            break
        await asyncio.sleep(0.02)
    return about


async def _remove_quietly(api: DockerApi, container_id: str) -> None:
    try:
        await api.remove(container_id)
    except OutliveError as error:
        _logger.warning(
            "a container could not be removed", extra={"container": container_id, "reason": error.code}
        )


def _died(about: Mapping[str, Any], plan: ContainerPlan) -> OutliveError:
    state = about["State"]
    exit_code = int(state.get("ExitCode") or 0)
    details = {"exit_code": exit_code, "oom": bool(state.get("OOMKilled"))}
    if state.get("OOMKilled"):
        return StartFailed(
            "container_failed",
            f"The container {plan.name} was killed at once: out of memory.",
            hint="Raise --docker-memory.",
            details=details,
        )
    said = str(state.get("Error") or "").strip()
    killed = " (killed)" if exit_code == _KILLED else ""
    return StartFailed(
        "container_failed",
        f"The container {plan.name} ended at once with exit code {exit_code}{killed}{': ' + said if said else ''}.",
        details=details,
    )


def _in_words(error: StartFailed, plan: ContainerPlan) -> OutliveError:
    """Return a refusal of the daemon's to start, in words where it is one of the known ones."""
    said = error.message
    if error.code != "container_failed":
        return error
    if "untime" in said and plan.runtime and plan.runtime in said:
        return StartFailed(
            "container_failed",
            f"The Docker daemon knows no runtime {plan.runtime!r}.",
            hint="`docker info` lists its runtimes (--docker-runtime).",
            details=error.details,
        )
    if "exec format error" in said:
        return StartFailed(
            "container_failed",
            f"The image {plan.image!r} is made for another machine.",
            hint="Use an image for this machine.",
            details=error.details,
        )
    if "bind source path does not exist" in said or "mount" in said:
        return StartFailed("mount_failed", said, details=error.details)
    return error
