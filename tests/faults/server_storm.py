"""The storm with a server in it: `python -m tests.faults.server_storm --kills 100 --seed N`.

Clients follow their processes over WebSocket while server, supervisor, guardian and shims are killed, also server,
supervisor and guardian at once. A client that lost its connection attaches again at its cursor: what it has in the
end must be, byte for byte, what the writer should have written, with one completion.
"""

import argparse
import functools
import hashlib
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from websockets.exceptions import WebSocketException

from tests.faults.killing import Hand
from tests.faults.plans import Plan, Planner
from tests.faults.storm import Report, check_folder
from tests.faults.walls import READABLE, Walls
from tests.keeper.client import until
from tests.keeper.house import House
from tests.support.processes import end, is_alive
from tests.support.rpc import Message, RpcClient, connect
from tests.support.server import OutliveServer

__all__ = ["server_storm"]

_VIEWERS = 20
_AGAIN_S = 0.02
_PATIENCE_S = 60.0


@dataclass(slots=True)
class _Viewer:
    """One client and its process: starts it once, follows it through every death, keeps what it got."""

    plan: Plan
    folder: str
    process_id: str = ""
    ends: Counter[str] = field(default_factory=Counter)
    digests: dict[str, "hashlib._Hash"] = field(default_factory=dict)
    completed: Message | None = None
    faults: list[str] = field(default_factory=list)

    async def run(self, url: Callable[[], str]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while self.completed is None:
            before = (self.process_id, sum(self.ends.values()))
            try:
                async with connect(url(), patience_s=_PATIENCE_S) as client:
                    await self._follow(client)
            except (
                OSError,
                EOFError,
                WebSocketException,
                AssertionError,
                TimeoutError,
                ExceptionGroup,
            ) as error:
                if time.monotonic() > deadline:
                    self.faults.append(f"{self.process_id} {self.plan.kind}: no end in sight: {error!r}")
                    return
                await anyio.sleep(_AGAIN_S)
            if before != (self.process_id, sum(self.ends.values())):
                deadline = time.monotonic() + _PATIENCE_S

    async def _follow(self, client: RpcClient) -> None:
        if not self.process_id:
            self.process_id = await self._find(client) or await self._start(client)
        if not client.messages or self.ends or not self._is_started_here(client):
            cursor = f"{self.ends['stdout']}.{self.ends['stderr']}"
            await client.request("attach", process_id=self.process_id, cursor=cursor, output=self._mode)
        for message in list(client.messages):
            self._take(message)
        while self.completed is None:
            self._take(await client.receive())
            client.messages.clear()

    def _is_started_here(self, client: RpcClient) -> bool:
        return any((message.get("result") or {}).get("status") == "started" for message in client.messages)

    @property
    def _mode(self) -> str:
        return "lines" if self.plan.is_text else "binary"

    async def _find(self, client: RpcClient) -> str | None:
        """Find the process if an earlier attempt started it and the answer was lost."""
        listed = await client.request("list", tags={"storm": self.plan.seed})
        return next((str(entry["process_id"]) for entry in listed["processes"]), None)

    async def _start(self, client: RpcClient) -> str:
        result = await client.request(
            "execute",
            argv=list(self.plan.argv),
            detach=True,
            output=self._mode,
            pty=self.plan.stdio == "pty",
            tags={"storm": self.plan.seed},
            profile=self.plan.profile.value,
            cwd=self.folder,
        )
        assert result["sandbox"]["profile"] == self.plan.profile
        return str(result["process_id"])

    def _take(self, message: Message) -> None:
        params = message.get("params", {})
        if params.get("process_id") != self.process_id:
            return
        match message.get("method"):
            case "process.output":
                data = params["data"]
                data = data if isinstance(data, bytes) else data.encode()
                stream = params["type"]
                begin = params["end"] - len(data)
                if begin != self.ends[stream]:
                    self.faults.append(f"{self.process_id} {stream}: got {begin}.. after {self.ends[stream]}")
                self.ends[stream] = params["end"]
                self.digests.setdefault(stream, hashlib.sha256()).update(data)
            case "process.gap":
                self.faults.append(f"{self.process_id}: a gap: {params}")
            case "process.completed":
                self.completed = params

    def check(self) -> list[str]:
        """Compare what was delivered with what should have been written."""
        if self.completed is not None and self.completed["exit_code"] != self.plan.end:
            self.faults.append(f"{self.process_id}: told {self.completed}, not {self.plan.end}")
        for stream, name in (("stdout", "out"), ("stderr", "err")):
            size, digest = self.plan.digest(name)
            found = self.digests.get(stream, hashlib.sha256()).hexdigest()
            if (self.ends[stream], found) != (size, digest):
                self.faults.append(
                    f"{self.process_id} {self.plan.kind} {stream}: {self.ends[stream]} bytes delivered of {size},"
                    " or damaged"
                )
        return self.faults


class _Killer(threading.Thread):
    """Strikes until it has dealt its blows; a thread, because the house and the server block."""

    def __init__(
        self, house: House, server: OutliveServer, *, kills: int, seed: int, living: Callable[[], list[str]]
    ) -> None:
        super().__init__(name="killer")
        self._house = house
        self._server = server
        self._kills = kills
        self._random = random.Random(f"server kills/{seed}")
        self._hand = Hand(house, seed, living=living)
        self.dealt = self._hand.dealt
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while sum(self.dealt.values()) < self._kills:
                self._strike()
                time.sleep(self._random.expovariate(6.0))
        except BaseException as error:  # noqa: BLE001 - told by the storm's own task
            self.error = error

    def _strike(self) -> None:
        chance = self._random.random()
        if chance > 0.4:
            self._hand.strike()
            return
        self._house.wait_redundant()
        if chance < 0.2:
            self._server.restart()
            self.dealt["server"] += 1
            return
        pids = [self._house.supervisor(), self._house.guardian(), self._server.pid]
        self._random.shuffle(pids)
        for pid in pids:
            end(pid)
        keeper = [pid for pid in pids if pid != self._server.pid]
        until(lambda: not any(map(is_alive, keeper)), "the end of the keeper")
        self._server.restart()
        self.dealt["server and keeper"] += 1


async def _view(
    server: OutliveServer,
    planner: Planner,
    killer: _Killer,
    report: Report,
    viewers: list[_Viewer],
    *,
    folder: str,
) -> None:
    while killer.is_alive() and killer.error is None:
        viewer = _Viewer(planner.deal(), folder)
        viewers.append(viewer)
        await viewer.run(lambda: server.url)
        report.faults += viewer.check()
        report.processes += 1
        report.profiles[viewer.plan.profile.value] += 1
        report.bytes += sum(viewer.ends.values())


async def _storm(
    server: OutliveServer, house: House, *, kills: int, seed: int
) -> tuple[Report, list[_Viewer]]:
    viewers: list[_Viewer] = []
    killer = _Killer(
        house,
        server,
        kills=kills,
        seed=seed,
        living=lambda: [
            viewer.process_id for viewer in list(viewers) if viewer.process_id and not viewer.completed
        ],
    )
    report = Report(blows=killer.dealt)
    walls = await anyio.to_thread.run_sync(Walls, house.state_dir)  # tries out what this machine offers
    planner = Planner(seed, profiles=walls.profiles)
    view = functools.partial(_view, folder=str(walls.folder))
    began = time.monotonic()
    killer.start()
    async with anyio.create_task_group() as group:
        for _ in range(_VIEWERS):
            group.start_soon(view, server, planner, killer, report, viewers)
    killer.join()
    if killer.error is not None:
        raise killer.error
    report.seconds = time.monotonic() - began
    return report, viewers


def server_storm(state_dir: Path, *, kills: int, seed: int) -> Report:
    """Run one storm with a server on a fresh state folder; nothing is left behind."""
    # Random bytes by the hundred megabytes hold what looks like a password in an address now and then.
    with OutliveServer(state_dir, args=["--redact", "off", "--sandbox-read", ",".join(READABLE)]) as server:
        house = House(state_dir)
        house.client.connect()
        report, viewers = anyio.run(lambda: _storm(server, house, kills=kills, seed=seed))
        until(lambda: house.status()["processes"] == 0, "an empty keeper")
        for viewer in viewers:
            if viewer.process_id:
                report.faults += check_folder(house, viewer.process_id, viewer.plan)
        house.client.close()
    return report


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.server_storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="storm") as folder:
        report = server_storm(Path(folder) / "state", kills=options.kills, seed=options.seed)
    print(report)
    for fault in report.faults:
        print("FAULT", fault)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(_main())
