"""The storm on a disk that takes nothing: `python -m tests.faults.disk_storm --kills 1000 --seed N` (root).

Clients follow their processes while server, supervisor, guardian and shims are killed on a disk that is full,
has no inodes or is read-only just then, or becomes so in between. Each blow falls into such a spell, or into
none: the first four into one of each kind, so that a short storm misses none. What a client has in the end
must be, byte for byte, what the writer should have written, with one completion and the right code; then it
removes its process, as somebody has to on a small disk. Afterwards the server is whole again, so is the audit
log, no log has a traceback, and nothing is left.
"""

import argparse
import contextlib
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
from websockets.exceptions import WebSocketException

from outlive.kernel.files import is_written
from tests.faults.judging import Report, check_audit, check_folder, check_logs, leaks
from tests.faults.killing import Hand
from tests.faults.plans import Planner
from tests.faults.viewers import Viewer
from tests.faults.walls import READABLE, Walls
from tests.keeper.client import until
from tests.keeper.disks import fill_up, read_only, small_disk, take_inodes
from tests.keeper.house import House
from tests.rest.rest_caller import RestCaller
from tests.support.processes import end
from tests.support.rpc import RpcFailure, connect
from tests.support.server import OutliveServer

_DISK_BYTES = 256 << 20
_INODES = 6000
_VIEWERS = 12
_LONGEST_SPELL_S = 1.5
WEATHERS = {"calm": 10, "full": 35, "inodes": 25, "read-only": 30}
# What a start or a removal is told in a spell, or while the keeper is away because of one.
_AWAY = frozenset(
    {"disk_full", "read_only", "keeper_unavailable", "keeper_restarted", "timeout", "store_corrupt"}
)
_AGAIN_S = 0.05
_WHOLE_S = 60.0


class _Killer(threading.Thread):
    """Deals blows in spells; a thread, because house, server and mounts block."""

    def __init__(
        self,
        house: House,
        server: OutliveServer,
        disk: Path,
        *,
        kills: int,
        seed: int,
        living: Callable[[], list[str]],
    ) -> None:
        super().__init__(name="killer")
        self._house = house
        self._server = server
        self._disk = disk
        self._kills = kills
        self._random = random.Random(f"disk kills/{seed}")
        self._first = self._random.sample(
            sorted(WEATHERS), k=len(WEATHERS)
        )  # one of each before chance decides
        self._living = living
        self._hand = Hand(house, seed, living=living)
        self._is_over = threading.Event()
        self.report = Report()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while sum(self.report.blows.values()) < self._kills and not self._is_over.is_set():
                self._strike()
                self._is_over.wait(self._random.expovariate(4.0))
        except BaseException as error:  # noqa: BLE001 - told by the storm's own task
            self.error = error

    def finish(self) -> None:
        """Return once the blow that falls just now has fallen, and no other will: what is struck later starts
        again unseen.
        """
        self._is_over.set()
        self.join()

    def _strike(self) -> None:
        weather = self._next_weather()
        self._house.wait_redundant()  # one blow at a time: see `killing`
        if weather == "read-only":
            name = self._strike_read_only()
        else:
            with self._spell(weather):
                name = self._deal()
                time.sleep(self._random.uniform(0.0, _LONGEST_SPELL_S))
        self.report.blows[f"{name} {weather}"] += 1

    def _next_weather(self) -> str:
        if self._first:
            return self._first.pop()
        return self._random.choices(list(WEATHERS), weights=list(WEATHERS.values()))[0]

    def _deal(self) -> str:
        """Deal a blow and wait until whoever was struck stands again, on the disk as it is."""
        chance = self._random.random()
        if chance > 0.35:
            return self._hand.strike()
        if chance > 0.15:
            self._server.restart()
            return "server"
        self._kill(self._house.supervisor(), self._house.guardian(), self._server.pid)
        self._server.restart()
        return "all"

    def _strike_read_only(self) -> str:
        """Kill in a spell in which nobody can stand up again; they do afterwards."""
        victims = self._random.choice(
            [("supervisor",), ("guardian",), ("server",), ("shim",), ("supervisor", "guardian", "server")]
        )
        pids = {"supervisor": self._house.supervisor(), "guardian": self._house.guardian()}
        pids |= {"server": self._server.pid, "shim": self._some_shim()}
        before = self._random.random() < 0.5
        with read_only(self._disk):
            if not before:
                time.sleep(self._random.uniform(0.0, _LONGEST_SPELL_S))
            self._kill(*(pids[victim] for victim in victims))
            if before:
                time.sleep(self._random.uniform(0.0, _LONGEST_SPELL_S))
        if "server" in victims:
            self._server.restart()
        return "all" if len(victims) > 1 else victims[0]

    def _some_shim(self) -> int:
        """Return a shim that owns a command, or the guardian where nothing runs."""
        shims = set(self._house.shims())
        records = [self._house.pid_record(one) for one in self._living()]
        owners = [record.shim_pid for record in records if record is not None and record.shim_pid in shims]
        return self._random.choice(sorted(owners)) if owners else self._house.guardian()

    def _kill(self, *pids: int) -> None:
        mixed = list(pids)
        self._random.shuffle(mixed)
        for pid in mixed:
            end(pid)

    @contextlib.contextmanager
    def _spell(self, weather: str) -> Iterator[None]:
        # In a folder of others. A command in the profile `workspace` may read what stands beside the state
        # folder, each file by a rule of its own; and the kernel keeps a file that a rule names, also a
        # removed one, until the command ends.
        others = self._disk / "others"
        others.mkdir(exist_ok=True)
        taken: list[Path] = []
        if weather == "full":
            taken = [fill_up(others)]
        elif weather == "inodes":
            taken = take_inodes(others)
        try:
            yield
        finally:
            for path in taken:
                path.unlink()


async def _remove(server: OutliveServer, process_id: str) -> None:
    """Remove a process as a client does that finds the disk full, the server dead, or its streams still open.

    Raises:
        AssertionError: It is still there after a minute; says which answers there were, and the last one.
    """
    answers: Counter[str] = Counter()
    last = "none"
    try:
        with anyio.fail_after(_WHOLE_S):
            while True:
                try:
                    async with connect(server.url) as client:
                        await client.request("remove", process_id=process_id, force=True)
                        return
                except RpcFailure as error:
                    if error.reason == "process_not_found":
                        return
                    if error.reason not in _AWAY:
                        raise
                    last = str(error)
                    answers[error.reason] += 1
                except (OSError, EOFError, WebSocketException, AssertionError, TimeoutError) as error:
                    last = repr(error)
                    answers[type(error).__name__] += 1
                await anyio.sleep(_AGAIN_S)
    except TimeoutError:
        raise AssertionError(f"{process_id} cannot be removed: {dict(answers)}, at last {last}") from None


def _check(house: House, viewer: Viewer) -> list[str]:
    """Judge a process by its folder, once its end is recorded: on a read-only disk that is later than it is
    told.
    """
    mark = str(house.folder(viewer.process_id) / "done")
    until(lambda: is_written(mark), "its record", patience_s=_WHOLE_S)
    return check_folder(house, viewer.process_id, viewer.plan)


async def _view(
    server: OutliveServer, house: House, planner: Planner, killer: _Killer, viewers: list[Viewer], folder: str
) -> None:
    report = killer.report
    while killer.is_alive() and killer.error is None:
        viewer = Viewer(planner.deal(), folder, _AWAY)
        viewers.append(viewer)
        await viewer.run(lambda: server.url)
        report.faults += viewer.check()
        report.processes += 1
        report.profiles[viewer.plan.walls] += 1
        report.bytes += sum(viewer.ends.values())
        viewers.remove(viewer)
        if viewer.faults:
            continue
        report.faults += await anyio.to_thread.run_sync(_check, house, viewer)
        await _remove(server, viewer.process_id)


async def _storm(
    server: OutliveServer, house: House, disk: Path, *, kills: int, seed: int, at_once: int
) -> Report:
    viewers: list[Viewer] = []
    killer = _Killer(
        house,
        server,
        disk,
        kills=kills,
        seed=seed,
        living=lambda: [one.process_id for one in list(viewers) if one.process_id and not one.completed],
    )
    walls = await anyio.to_thread.run_sync(Walls, house.state_dir)
    planner = Planner(seed, profiles=walls.profiles)
    began = time.monotonic()
    killer.start()
    try:
        async with anyio.create_task_group() as group:
            for _ in range(at_once):
                group.start_soon(_view, server, house, planner, killer, viewers, str(walls.folder))
    finally:
        killer.finish()
    if killer.error is not None:
        raise killer.error
    killer.report.seconds = time.monotonic() - began
    return killer.report


def _left(rest: RestCaller, folder: Path) -> list[str]:
    """Return what was not removed, but for starts that the disk refused: they are remembered, and removed
    here.
    """
    for path in list(folder.iterdir()):
        shown = rest.send("GET", f"/v1/processes/{path.name}")
        if shown.status == 200 and shown.json["state"] == "failed_to_start":
            rest.call("DELETE", f"/v1/processes/{path.name}")
    return [
        (
            f"left: {path.name}: {sorted(os.listdir(path))} "
            f"{rest.send('GET', f'/v1/processes/{path.name}').body!r}"
        )
        for path in folder.iterdir()
    ]


def _told_outside(server: OutliveServer, folder: Path) -> OutliveServer:
    """Have what a server says on stderr written where the disk has room."""
    server.stderr_file = folder / "server.stderr"
    return server


def disk_storm(folder: Path, *, kills: int, seed: int, at_once: int = _VIEWERS) -> Report:
    """Run one storm on a small file system of its own; nothing is left behind.

    Raises:
        AssertionError: Somebody did not stand up again, or what stayed behind.
    """
    # Random bytes by the hundred megabytes hold what looks like a password in an address now and then.
    words = ("--redact", "off", "--sandbox-read", ",".join(READABLE))
    with (
        small_disk(folder / "disk", _DISK_BYTES, inodes=_INODES) as disk,
        _told_outside(OutliveServer(disk / "state", args=words), folder) as server,
    ):
        house = House(disk / "state")
        house.client.connect()
        report = anyio.run(lambda: _storm(server, house, disk, kills=kills, seed=seed, at_once=at_once))
        rest = RestCaller(server.rest_url)
        until(
            lambda: rest.send("GET", "/readyz").status == 200, "a server that is ready", patience_s=_WHOLE_S
        )
        until(lambda: house.status()["processes"] == 0, "an empty keeper", patience_s=_WHOLE_S)
        report.faults += leaks(house)
        report.faults += _left(rest, disk / "state" / "processes")
        report.faults += check_audit(server.state_dir)
        report.faults += check_logs(server)
        house.client.close()
    return report


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.disk_storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("only root may mount a small file system", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="storm") as folder:
        report = disk_storm(Path(folder), kills=options.kills, seed=options.seed)
    return report.tell()


if __name__ == "__main__":
    sys.exit(_main())
