"""Making one container run: `Maker` finds it by its labels or makes it, starts it, and waits until its runner
answers.

Another server of this folder may do the same at the same time: both end with the same container, because the
daemon gives a name only once and every step may be repeated. The body of a container belongs to `recipe`,
entering it to `runner`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outlive.core.errors import BackendUnavailable, CommandRefused, OutliveError, StartFailed
from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan
from outlive.extensions.docker import folders
from outlive.extensions.docker.api import (
    DockerApi,
    DockerSettings,
    NoSuchContainer,
    daemon_elsewhere,
    image_missing,
)
from outlive.extensions.docker.mounts import Mount, check_mounts, still_there
from outlive.extensions.docker.recipe import (
    Labels,
    check_plan,
    container_name,
    is_set_aside,
    machine_of,
    owner_of,
    recipe,
)
from outlive.extensions.docker.runner import (
    Again,
    Connect,
    Replaced,
    RunnerAccess,
    RunnerHandle,
    mark_of,
    offered_socket,
    remove_quietly,
)

_logger = logging.getLogger(__name__)

# A container may vanish in the middle, when a person or another server removes it; and a new one's name is
# taken a while before it is listed. Then `make` begins anew, for so long.
_SETTLES_S = 20.0
_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.1


class Maker:
    """Makes containers of one state folder run.

    Cancellation: safe; the next attempt finds what has been made.
    """

    def __init__(
        self,
        layout: Layout,
        settings: DockerSettings,
        *,
        state: Callable[[], str],
        connect: Connect,
        runner: Callable[[str], str],
    ) -> None:
        """Take the owner's functions: `state` returns the folder's label, `runner` a machine's runner file.

        Both block.
        """
        self._layout = layout
        self._settings = settings
        self._state_label = state
        self._state = ""
        self._runner = runner
        self._access = RunnerAccess(layout, connect=connect)

    async def make(self, name: str, *, is_in_use: bool) -> RunnerHandle:
        """Return the handle of the runner of a container, which runs then.

        Args:
            name: Its name; its plan lies in the folder.
            is_in_use: Whether a command may live in it; then it is never removed, in whatever state it is.

        Raises:
            StartFailed, CommandRefused, InvalidRequest: It cannot be made, for the reason in the message.
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
                except Replaced:
                    deadline = time.monotonic() + _SETTLES_S
                except (Again, NoSuchContainer):
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        raise BackendUnavailable(
            "docker_unavailable",
            f"The container {name} goes away as often as it is made: another program removes it.",
        )

    async def _bring_up(self, api: DockerApi, plan: ContainerPlan, *, is_in_use: bool) -> RunnerHandle:
        """Make one attempt, from whatever state the daemon shows the container in."""
        found = await api.find({Labels.STATE: self._state, Labels.CONTAINER: plan.name})
        current = [one for one in found if not is_set_aside(one)]
        if not current:
            return await self._begin(api, plan)
        container_id = str(current[0]["Id"])
        about = await api.inspect(container_id)
        match about["State"]["Status"]:
            case "running":
                return await self._access.go_in(api, plan, found, container_id, is_in_use=is_in_use)
            case "paused":
                if handle := await asyncio.to_thread(self._access.standing, plan.name, about):
                    return handle  # paused on purpose: starts in it wait until it is resumed
                await api.unpause(container_id)
                raise Again
            case "created" | "exited":
                return await self._revive(api, plan, about)
            case _:  # dead, being removed, restarting: of no use any more
                await api.remove(container_id)
                raise Again

    async def _begin(self, api: DockerApi, plan: ContainerPlan) -> RunnerHandle:
        """Make the container, and start it."""
        body, mounts = await self._recipe(api, plan)
        name = container_name(self._state, plan.name)
        try:
            container_id = await api.create(name, body)
        except StartFailed as error:
            if _lacks(error, folders.hand_folder(self._layout, plan.name)):
                raise daemon_elsewhere() from error
            raise _in_words(error, plan) from error
        if container_id is None:
            await self._explain_conflict(api, plan, name)
            raise Again
        _logger.info("container made", extra={"container": name, "image": plan.image})
        try:
            return await self._start(api, plan, container_id, mounts)
        except OutliveError:
            await remove_quietly(api, container_id)
            raise

    async def _revive(self, api: DockerApi, plan: ContainerPlan, about: Mapping[str, Any]) -> RunnerHandle:
        """Start a stopped container if it equals the one that would be made now, else remove it.

        No command lives in it.
        """
        container_id = str(about["Id"])
        body, mounts = await self._recipe(api, plan)
        if about["Config"]["Labels"].get(Labels.RECIPE) == body["Labels"][Labels.RECIPE]:
            try:
                return await self._start(api, plan, container_id, mounts)
            except StartFailed as error:
                _logger.info(
                    "a container does not start any more",
                    extra={"container": plan.name, "reason": error.code},
                )
        await api.remove(container_id)
        raise Again

    async def _recipe(self, api: DockerApi, plan: ContainerPlan) -> tuple[dict[str, Any], Sequence[Mount]]:
        """Check and prepare everything for a container; return the body of its `create`, and its mounts."""
        mounts = await asyncio.to_thread(
            check_mounts,
            plan,
            state_dir=self._layout.root,
            daemon_socket=self._settings.socket_path,
            own=self._settings.own,
        )
        image = await api.image(plan.image)
        if image is None and self._settings.pull:
            await api.pull(plan.image)
            image = await api.image(plan.image)
        if image is None:
            raise image_missing(plan.image)
        owner = owner_of(plan, image)
        runner = await asyncio.to_thread(self._runner, machine_of(image))
        mark = await asyncio.to_thread(mark_of, self._layout.supervisor_lock)
        folders.check_owner(owner)
        await asyncio.to_thread(folders.prepare_hand, self._layout, plan.name)
        body = recipe(
            plan,
            state=self._state,
            owner=owner,
            image_id=str(image.get("Id", "")),
            mounts=mounts,
            runner=runner,
            hand_folder=folders.hand_folder(self._layout, plan.name),
            lock=mark,
        )
        return body, mounts

    async def _explain_conflict(self, api: DockerApi, plan: ContainerPlan, name: str) -> None:
        """Return when the container with the name is the wanted one (another server was quicker).

        Else raise.
        """
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
    ) -> RunnerHandle:
        async with offered_socket(self._layout, plan.name) as handover:
            try:
                await api.start(container_id)
            except StartFailed as error:
                raise _in_words(error, plan) from error
            # The daemon resolved the paths after the check: a folder may have been replaced by a link
            # meanwhile.
            if not await asyncio.to_thread(still_there, mounts):
                await remove_quietly(api, container_id)
                raise CommandRefused(
                    "mount_refused",
                    "A folder was replaced while it was being mounted; the container was removed.",
                )
            return await self._access.enter(api, plan, container_id, handover=handover)


def _lacks(error: StartFailed, path: str) -> bool:
    """Tell whether the daemon does not see a path that is there on this machine."""
    return f"bind source path does not exist: {path}" in error.message


def _in_words(error: StartFailed, plan: ContainerPlan) -> OutliveError:
    """Return our own error for a known refusal of the daemon to start a container; any other one as it is."""
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
