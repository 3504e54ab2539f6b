"""Entering a running container: `RunnerAccess` hands the runner its socket, and waits until it answers.

A command inside can disable its runner, for example by taking its descriptors away. The next command must start all the same: a
container whose runner does not answer is removed, or, while commands live in it, set aside under another name. Making and
starting containers belongs to `maker`; whether a runner answers is found by `handle`.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outlive.backends.docker import folders
from outlive.backends.docker.api import DockerApi
from outlive.backends.docker.recipe import aside_name, is_current, is_set_aside
from outlive.backends.docker.runner_socket import (
    Connect,
    LockPath,
    RunnerHandle,
    SocketHandover,
    offered_socket,
)
from outlive.backends.docker.stream_transport import StreamTransport
from outlive.core.errors import BackendUnavailable, OutliveError, StartFailed
from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan

_logger = logging.getLogger(__name__)

_LISTENS_S = 15.0  # the runner needs 2 ms; a machine that swaps needs seconds
_GREETS_S = 5.0  # of a runner that listens
_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.1
_KILLED = 137  # the exit code after SIGKILL: 128 + 9
# Each has a container's limits: a caller that breaks runners must not get more and more of them.
_MOST_ASIDE = 3


class Again(Exception):
    """The container went away, or had to be removed: begin anew."""


class Replaced(Again):
    """The container that did not answer is out of the way: begin anew, with a new deadline."""


class _Silent(BackendUnavailable):
    """The daemon answers, the container runs, and its runner does not answer."""


class RunnerAccess:
    """Enters containers of one state folder. Cancellation: safe; the next attempt finds what has been done."""

    def __init__(self, layout: Layout, streams: StreamTransport, *, connect: Connect, lock: LockPath) -> None:
        """The arguments are those of `Maker`."""
        self._lock = lock
        self._layout = layout
        self._streams = streams
        self._connect = connect

    async def go_in(
        self,
        api: DockerApi,
        plan: ContainerPlan,
        found: Sequence[Mapping[str, Any]],
        container_id: str,
        *,
        is_in_use: bool,
    ) -> RunnerHandle:
        """Enter a container that ran before; `found` are all containers of this name, including those set aside.

        Raises:
            Again: It does not answer; room was made for another one.
            OutliveError: As in `enter`; or too many were set aside.
        """
        about = await api.inspect(container_id)
        if is_current(about["Config"].get("Cmd") or []):
            try:
                return await self.enter(api, plan, container_id)
            except _Silent:
                pass
        pid = int(about["State"].get("Pid") or 0)
        if not is_in_use or not await asyncio.to_thread(has_commands, pid):
            _logger.info("a container does not answer, and is made anew", extra={"container": plan.name})
            await api.remove(container_id)
            raise Replaced
        if sum(map(is_set_aside, found)) >= _MOST_ASIDE:
            raise StartFailed(
                "container_failed",
                f"Nothing answers in the container {plan.name}, and {_MOST_ASIDE} like it were set aside already.",
                hint=f"End the commands in them: outlive containers rm --force {plan.name}.",
            )
        _logger.warning("a container does not answer, and is set aside", extra={"container": plan.name})
        await api.rename(container_id, aside_name(str(about["Name"]).lstrip("/"), container_id))
        raise Replaced

    def standing(self, name: str, about: Mapping[str, Any]) -> RunnerHandle | None:
        """Return the handle of a paused container's runner; None when it was never entered. Blocks."""
        try:
            handle = RunnerHandle(
                self._layout.runner_socket(name), int(about["State"].get("Pid") or 0), connect=self._connect
            )
        except (ProcessLookupError, OSError):
            return None
        if folders.read_init(self._layout, name) == handle.pid and handle.is_open():
            return handle
        handle.close()
        return None

    async def enter(
        self,
        api: DockerApi,
        plan: ContainerPlan,
        container_id: str,
        *,
        handover: SocketHandover | None = None,
    ) -> RunnerHandle:
        """Wait until the runner answers; `init` is written before. `handover` is given for a container that was started just now.

        Raises:
            Again: It has to be made anew, and reached by a stream.
            StartFailed: It has ended.
            BackendUnavailable: The runner does not answer; a container that was started just now is removed.
        """
        about = await api.inspect(container_id)
        pid = int(about["State"].get("Pid") or 0)
        if not about["State"].get("Running") or not pid:
            raise _died(about, plan)
        if _is_stream(about):
            return await self._enter_by_stream(
                api, plan, container_id, multiplexer=about["Config"]["Cmd"][-1]
            )
        await asyncio.to_thread(self._streams.forget, plan.name)
        is_new = handover is not None
        try:
            handle = RunnerHandle(self._layout.runner_socket(plan.name), pid, connect=self._connect)
        except ProcessLookupError:
            await self._try_stream(api, plan, container_id, is_new=is_new)
            raise await self._not_here(api, plan, container_id) from None
        try:
            await asyncio.to_thread(folders.write_init, self._layout, plan.name, pid)
            if await self._introduce(plan, handle, handover):
                return handle
            is_dead = not handle.is_alive
        except BaseException:
            handle.close()
            raise
        handle.close()
        if is_dead:
            raise _died(await _settled(api, container_id), plan)
        await self._try_stream(api, plan, container_id, is_new=is_new)
        if is_new:
            await remove_quietly(api, container_id)
        raise _Silent(
            "docker_unavailable",
            f"Nothing answers in the container {plan.name}: its runner does not listen.",
            hint="The daemon must run on this machine, and see its files and processes as the server does.",
        )

    async def _introduce(
        self, plan: ContainerPlan, handle: RunnerHandle, handover: SocketHandover | None
    ) -> bool:
        """Hand the runner its socket, if it has none yet, and wait for its greeting."""
        if handle.is_open():
            return await handle.answers(_GREETS_S)
        # The server that started it was killed before the handover, or has not handed over yet.
        if handover is None:
            await asyncio.to_thread(folders.prepare_hand, self._layout, plan.name)
            async with offered_socket(self._layout, plan.name, lock=self._lock) as own:
                return await self._introduce(plan, handle, own)
        deadline, pause_s = time.monotonic() + _LISTENS_S, _PAUSE_S
        while not handle.is_open():
            if not handle.is_alive or time.monotonic() > deadline:
                return False
            await asyncio.to_thread(handover.turn, handle.pid)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
        return await handle.answers(_GREETS_S)

    async def _enter_by_stream(
        self, api: DockerApi, plan: ContainerPlan, container_id: str, *, multiplexer: str
    ) -> RunnerHandle:
        try:
            return await self._streams.enter(plan.name, container_id, multiplexer=multiplexer)
        except BackendUnavailable:
            about = await api.inspect(container_id)
            if not about["State"].get("Running"):
                raise _died(about, plan) from None
            raise

    async def _try_stream(
        self, api: DockerApi, plan: ContainerPlan, container_id: str, *, is_new: bool
    ) -> None:
        """Begin anew with a stream, if the new container runs although no socket reaches it."""
        if not is_new:
            return
        about = await _settled(api, container_id)
        if about["State"].get("Running") and self._streams.fall_back(plan.runtime):
            _logger.info("no socket leads into containers: streams are used", extra={"container": plan.name})
            await api.remove(container_id)
            raise Again

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


async def _settled(api: DockerApi, container_id: str) -> Mapping[str, Any]:
    """Return the daemon's facts about a container, once it has noticed the end that this server has seen already.

    That memory ran out it may notice still later: a container that was killed is examined for a second.
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


async def remove_quietly(api: DockerApi, container_id: str, *, with_volumes: bool = True) -> None:
    """Remove a container that could not be entered; a failure is only logged."""
    try:
        await api.remove(container_id, with_volumes=with_volumes)
    except OutliveError as error:
        _logger.warning(
            "a container could not be removed", extra={"container": container_id, "reason": error.code}
        )


def has_commands(pid: int) -> bool:
    """Tell whether any process lives in a container beside the first one, whose children are the commands' shims. Blocks."""
    try:
        return bool(Path(f"/proc/{pid}/task/{pid}/children").read_bytes().strip())
    except OSError:
        return Path(f"/proc/{pid}").exists()


def _died(about: Mapping[str, Any], plan: ContainerPlan) -> OutliveError:
    """Return the error for a container that has ended at once, with the daemon's reason."""
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
