"""Entering a running container: `RunnerAccess` hands the runner its socket, and waits until it answers.

A command inside can disable its runner, for example by taking its descriptors away. The next command must
start all the same: a container whose runner does not answer is removed, or, while commands live in it, set
aside under another name. Making and starting containers belongs to `maker`; whether a runner answers is found
by `handle`.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from outlive.core.errors import BackendUnavailable, OutliveError, StartFailed
from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan
from outlive.extensions.docker import folders
from outlive.extensions.docker.api import NODE_HINT, NODE_WORDS, DockerApi, daemon_elsewhere
from outlive.extensions.docker.recipe import aside_name, is_set_aside
from outlive.extensions.docker.runner_socket import (
    Connect,
    RunnerHandle,
    SocketHandover,
    offered_socket,
)
from outlive.kernel.processes import children

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
    """Enters containers of one state folder.

    Cancellation: safe; the next attempt finds what has been done.
    """

    def __init__(self, layout: Layout, *, connect: Connect) -> None:
        """The arguments are those of `Maker`."""
        self._layout = layout
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
        """Enter a container that ran before; `found` are all containers of this name, including those set
        aside.

        Raises:
            Again: It does not answer; room was made for another one.
            OutliveError: As in `enter`; or too many were set aside.
        """
        about = await api.inspect(container_id)
        with contextlib.suppress(_Silent):
            return await self.enter(api, plan, container_id)
        pid = int(about["State"].get("Pid") or 0)
        if not is_in_use or not await asyncio.to_thread(has_commands, pid):
            _logger.info("a container does not answer, and is made anew", extra={"container": plan.name})
            await api.remove(container_id)
            raise Replaced
        if sum(map(is_set_aside, found)) >= _MOST_ASIDE:
            raise StartFailed(
                "container_failed",
                (
                    f"Nothing answers in the container {plan.name}, and {_MOST_ASIDE} like it were set aside "
                    "already."
                ),
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
        """Wait until the runner answers; `init` is written before.

        `handover` is given for a container that was started just now.

        Raises:
            StartFailed: It has ended, or runs where this server sees no processes.
            BackendUnavailable: The runner does not answer; a container that was started just now is removed.
        """
        about = await api.inspect(container_id)
        pid = int(about["State"].get("Pid") or 0)
        if not about["State"].get("Running") or not pid:
            raise _died(about, plan)
        try:
            handle = RunnerHandle(self._layout.runner_socket(plan.name), pid, connect=self._connect)
        except ProcessLookupError:
            about = await _settled(api, container_id)
            raise (daemon_elsewhere() if about["State"].get("Running") else _died(about, plan)) from None
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
        if handover is not None:
            await remove_quietly(api, container_id)
        raise _Silent(
            "docker_unavailable",
            f"The container {plan.name} runs, but no socket of this machine reaches it, as is usual in "
            "gVisor, Kata and Docker Desktop, and under a rootless daemon.",
            hint=f"Take another --docker-runtime, here or on a node: {NODE_WORDS}"
            if plan.runtime
            else NODE_HINT,
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
            async with offered_socket(self._layout, plan.name) as own:
                return await self._introduce(plan, handle, own)
        deadline, pause_s = time.monotonic() + _LISTENS_S, _PAUSE_S
        while not handle.is_open():
            if not handle.is_alive or time.monotonic() > deadline:
                return False
            await asyncio.to_thread(handover.turn, handle.pid)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
        return await handle.answers(_GREETS_S)


async def _settled(api: DockerApi, container_id: str) -> Mapping[str, Any]:
    """Return the daemon's facts about a container, once it has noticed the end that this server has seen
    already.

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


async def remove_quietly(api: DockerApi, container_id: str) -> None:
    """Remove a container that could not be entered; a failure is only logged."""
    try:
        await api.remove(container_id)
    except OutliveError as error:
        _logger.warning(
            "a container could not be removed", extra={"container": container_id, "reason": error.code}
        )


def has_commands(pid: int) -> bool:
    """Tell whether any process lives in a container beside the first one, whose children are the commands'
    shims. Blocks.
    """
    return bool(children(pid))


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
        (
            f"The container {plan.name} ended at once with exit code "
            f"{exit_code}{killed}{': ' + said if said else ''}."
        ),
        details=details,
    )
