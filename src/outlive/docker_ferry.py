"""The ferry as a program, `python -m outlive.docker_ferry FOLDER`, and `RelayCheck`, which distinguishes relays from all others.

What the ferry carries is in `backends.docker.ferry`; here it is put together with what the keeper knows of processes.
`outlive-runner stand` starts it again when it dies, and it starts that one again when that dies.
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

from outlive.backends.docker.ferry import FERRY_FILE, Ferry, stand_argv
from outlive.core.layout import Layout
from outlive.keeper.common.callers import AcceptTurns, Ancestor, PeerProcess, ancestry
from outlive.keeper.common.kernel import BOOT_ID
from outlive.keeper.common.launch import ask_status

_PATIENCE_S = 10.0  # for a keeper that does not answer: the relay connects again afterwards
_PAUSE_S = 0.1
_STATUS_S = 2.0
_BOOT_LETTERS = 8  # of the boot's id in a relay's key (runner/relay.c)
_PR_SET_PDEATHSIG = 1  # prctl(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a keeper has reported of its trees."""

    sessions: Collection[int]  # POSIX sessions of its own and of its shims, those of minders among them
    commands: Collection[int]  # pids of commands of this machine, each the leader of a session
    keepers: Collection[int]  # supervisor and guardian

    def is_inside(self, one: Ancestor) -> bool:
        """Return whether one of a lineage belongs to a tree in which commands run.

        A minder leads a session of its own, and below one of this machine are a stand-in and its relay only. Shims lead none.
        """
        is_minder = one.pid == one.session and one.pid not in self.keepers
        return one.session in self.commands or (one.session in self.sessions and not is_minder)


class RelayCheck:
    """Knows the relays of one container's commands by the kernel's word (decision 151). For one event loop.

    A relay is forked below what stands for the container, and nothing else is: its descendants are let in. Where that one died,
    its relays live on elsewhere, and cannot be distinguished from other programs of our user: then any process is let in that lives in
    no tree of the keeper's, once the keeper answers.
    """

    def __init__(self, layout: Layout, *, stand: int) -> None:
        """Take the state folder, and the pid of what stands for the container, which is our parent while it lives."""
        self._layout = layout
        self._stand = stand
        self._turns = AcceptTurns()
        self._asking = asyncio.Lock()
        self._asked_at = 0.0
        self._told: _Told | None = None

    async def key_of(self, link: socket.socket) -> str:
        """Return the key of the relay that has just connected, "" for any other process; see `ferry.KeyOf`.

        Cancellation: safe.
        """
        try:
            caller = PeerProcess.behind(link, self._turns)
        except OSError:  # no descriptors are left: a relay comes again
            return ""
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while caller.uid == os.geteuid() and caller.is_there() and time.monotonic() < deadline:
                # procfs makes no caller wait, but a crowd of relays would keep the loop from carrying.
                lineage = await asyncio.to_thread(ancestry, caller.pid)
                is_relay = None if lineage is None else await self._is_relay(lineage)
                if is_relay is not None:
                    # Alive still: what was read about its pid was about this process.
                    return _key(lineage) if is_relay and caller.is_there() else ""
                await asyncio.sleep(_PAUSE_S)
            return ""
        finally:
            caller.close()

    async def _is_relay(self, lineage: list[Ancestor]) -> bool | None:
        """Judge a process by its lineage; None where that takes a keeper, and none answers."""
        # It is our parent still, so that pid is no other process's.
        if any(one.pid == self._stand for one in lineage) and os.getppid() == self._stand:
            return True
        told = await self._ask()
        return None if told is None else not any(map(told.is_inside, lineage))

    async def _ask(self) -> _Told | None:
        """Return what the keeper reports from now on: those that come together are judged by one answer."""
        wanted_at = time.monotonic()
        async with self._asking:
            if self._asked_at <= wanted_at:
                self._asked_at = time.monotonic()
                self._told = await asyncio.to_thread(_ask_keeper, self._layout)
            return self._told


def _key(lineage: list[Ancestor] | None) -> str:
    assert lineage
    return f"{BOOT_ID[:_BOOT_LETTERS]}.{lineage[0].pid}.{lineage[0].ticks}"


def _ask_keeper(layout: Layout) -> _Told | None:
    try:
        status = ask_status(layout, within_s=_STATUS_S, with_commands=True)
    except OSError:
        return None
    if status is None:
        return None
    keepers = [status.get(name) for name in ("supervisor", "guardian")]
    return _Told(
        sessions=_pids(status.get("sessions")) - {0},  # 0: one that a pid namespace hides
        commands=_pids(status.get("commands")) - {0},
        keepers=_pids([one.get("pid") for one in keepers if isinstance(one, dict)]),
    )


def _pids(told: object) -> set[int]:
    return {pid for pid in told if isinstance(pid, int)} if isinstance(told, list) else set()


def _start_runner_again(folder: str) -> None:
    """Start `outlive-runner stand` again, which has died; it starts another ferry."""
    with contextlib.suppress(OSError, ValueError):
        settings = json.loads(Path(folder, FERRY_FILE).read_bytes())
        argv = stand_argv(settings["runner"], folder, asks=settings.get("asks", False))
        os.posix_spawn(argv[0], argv, dict(os.environ), setsid=True)
    os._exit(1)


def _main(folder: str) -> None:
    """Be the ferry of a container's folder."""

    async def carry() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, _start_runner_again, folder)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGUSR1)  # the parent's death, from now on
        stand = int(os.environ["OUTLIVE_STAND"])
        if os.getppid() != stand:
            _start_runner_again(folder)
        # Containers' folders lie in `containers` of the state folder.
        layout = Layout(str(Path(folder).parent.parent))
        await Ferry(folder, RelayCheck(layout, stand=stand).key_of).run()

    asyncio.run(carry())


if __name__ == "__main__":
    _main(sys.argv[1])
