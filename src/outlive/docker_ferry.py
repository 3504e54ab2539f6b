"""The tunnel into a container as a program, `python -m outlive.docker_ferry FOLDER`; `EndpointCheck` tells its endpoints from other processes.

What the tunnel carries is in `backends.docker.ferry`; here it is put together with what the keeper knows of processes. The container's
proxy (`outlive-runner stand`, native/tunnel/container_proxy.c) starts this program again when it dies, and is started again by it. Proxies
that are running now know the program by this name.
"""

import asyncio
import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from outlive.backends.docker.ferry import TUNNEL_FILE, Tunnel, proxy_argv
from outlive.core.layout import Layout
from outlive.keeper.common.callers import AcceptTurns, Ancestor, PeerProcess, ancestry
from outlive.keeper.common.kernel import BOOT_ID
from outlive.keeper.common.launch import ask_status

_PATIENCE_S = 10.0  # for a keeper that does not answer: the endpoint connects again afterwards
_PAUSE_S = 0.1
_STATUS_S = 2.0
_BOOT_LETTERS = 8  # of the boot's id in an endpoint's key (native/tunnel/endpoint_loop.c)
_PR_SET_PDEATHSIG = 1  # prctl(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trees:
    """What a keeper has reported of its trees."""

    # POSIX sessions of its own and of its shims, those in containers' proxies among them
    sessions: Collection[int]
    commands: Collection[int]  # pids of commands of this machine, each the leader of a session
    keepers: Collection[int]  # supervisor and guardian

    def is_inside(self, one: Ancestor) -> bool:
        """Return whether one of a lineage belongs to a tree in which commands run.

        A container's shim leads a session of its own, and below one of this machine are a proxy process and its endpoint only.
        Other shims lead none.
        """
        is_container_shim = one.pid == one.session and one.pid not in self.keepers
        return one.session in self.commands or (one.session in self.sessions and not is_container_shim)


class EndpointCheck:
    """Knows the endpoints of one container's commands by the kernel's facts (decision 151). For one event loop.

    An endpoint is forked below the container's proxy, and nothing else is: the proxy's descendants are let in. Where the proxy
    died, its endpoints live on elsewhere, and look like other programs of our user: then any process is let in that lives in no
    tree of the keeper's, once the keeper answers.
    """

    def __init__(self, layout: Layout, *, proxy_pid: int) -> None:
        """Take the state folder, and the pid of the container's proxy, which is our parent while it lives."""
        self._layout = layout
        self._proxy_pid = proxy_pid
        self._turns = AcceptTurns()
        self._asking = asyncio.Lock()
        self._asked_at = 0.0
        self._trees: _Trees | None = None

    async def key_of(self, link: socket.socket) -> str:
        """Return the key of the endpoint that has just connected, "" for any other process; see `ferry.KeyOf`.

        Cancellation: safe.
        """
        try:
            caller = PeerProcess.behind(link, self._turns)
        except OSError:  # no descriptors are left: an endpoint comes again
            return ""
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while caller.uid == os.geteuid() and caller.is_there() and time.monotonic() < deadline:
                # procfs never blocks for long, but a crowd of endpoints would keep the loop from carrying.
                lineage = await asyncio.to_thread(ancestry, caller.pid)
                is_endpoint = None if lineage is None else await self._is_endpoint(lineage)
                if is_endpoint is not None:
                    # Alive still: what was read about its pid was about this process.
                    return _key(lineage) if is_endpoint and caller.is_there() else ""
                await asyncio.sleep(_PAUSE_S)
            return ""
        finally:
            caller.close()

    async def _is_endpoint(self, lineage: list[Ancestor]) -> bool | None:
        """Judge a process by its lineage; None where that takes a keeper, and none answers."""
        # It is our parent still, so that pid is no other process's.
        if any(one.pid == self._proxy_pid for one in lineage) and os.getppid() == self._proxy_pid:
            return True
        trees = await self._ask()
        return None if trees is None else not any(map(trees.is_inside, lineage))

    async def _ask(self) -> _Trees | None:
        """Return what the keeper reports from now on: those that come together are judged by one answer."""
        wanted_at = time.monotonic()
        async with self._asking:
            if self._asked_at <= wanted_at:
                self._asked_at = time.monotonic()
                self._trees = await asyncio.to_thread(_ask_keeper, self._layout)
            return self._trees


def _key(lineage: list[Ancestor] | None) -> str:
    assert lineage
    return f"{BOOT_ID[:_BOOT_LETTERS]}.{lineage[0].pid}.{lineage[0].ticks}"


def _ask_keeper(layout: Layout) -> _Trees | None:
    try:
        status = ask_status(layout, within_s=_STATUS_S, with_commands=True)
    except OSError:
        return None
    if status is None:
        return None
    keepers = [status.get(name) for name in ("supervisor", "guardian")]
    return _Trees(
        sessions=_pids(status.get("sessions")) - {0},  # 0: one that a pid namespace hides
        commands=_pids(status.get("commands")) - {0},
        keepers=_pids([one.get("pid") for one in keepers if isinstance(one, dict)]),
    )


def _pids(reported: object) -> set[int]:
    return {pid for pid in reported if isinstance(pid, int)} if isinstance(reported, list) else set()


def _start_proxy_again(folder: str) -> None:
    """Start the container's proxy again, which has died; it starts another tunnel."""
    with contextlib.suppress(OSError, ValueError):
        settings = json.loads(Path(folder, TUNNEL_FILE).read_bytes())
        argv = proxy_argv(settings["runner"], folder, asks=settings.get("asks", False))
        os.posix_spawn(argv[0], argv, dict(os.environ), setsid=True)
    os._exit(1)


def _main(folder: str) -> None:
    """Be the tunnel of a container's folder."""

    async def carry() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, _start_proxy_again, folder)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)  # the parent's death, from now on
        proxy_pid = int(os.environ["OUTLIVE_STAND"])
        if os.getppid() != proxy_pid:
            _start_proxy_again(folder)
        # Containers' folders lie in `containers` of the state folder.
        layout = Layout(str(Path(folder).parent.parent))
        await Tunnel(folder, EndpointCheck(layout, proxy_pid=proxy_pid).key_of).run()

    asyncio.run(carry())


if __name__ == "__main__":
    _main(sys.argv[1])
