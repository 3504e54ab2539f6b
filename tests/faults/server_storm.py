"""The storm with a server in it: `python -m tests.faults.server_storm --kills 1000 --seed N`.

Clients follow their processes over WebSocket while server, supervisor, guardian and shims are killed, also
server, supervisor and guardian at once. A client that lost its connection attaches again at its cursor: what
it has in the end must be, byte for byte, what the writer should have written, with one completion. Afterwards
the audit log is whole.
"""

import argparse
import functools
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from tests.extensions.docker.tools import containers_left, remove_containers, serve_words
from tests.faults.judging import Report, check_audit, check_folder, check_logs, leaks
from tests.faults.killing import Hand
from tests.faults.plans import Planner
from tests.faults.viewers import Viewer
from tests.faults.walls import READABLE, Walls
from tests.keeper.client import until
from tests.keeper.house import House
from tests.support.dockerd import Dockerd
from tests.support.processes import descendants, end, is_alive
from tests.support.server import OutliveServer

_VIEWERS = 20
_IDLE_S = 10  # of a container that nobody uses: long enough to look at what its runner holds
_GONE_S = 60.0
_RUNNER_FILES = 12  # standard ones, listener, signals, its poll


class _Killer(threading.Thread):
    """Strikes until it has dealt its blows; a thread, because the house and the server block."""

    def __init__(
        self,
        house: House,
        server: OutliveServer,
        *,
        kills: int,
        seed: int,
        living: Callable[[], list[str]],
        dockerd: Dockerd | None = None,
    ) -> None:
        super().__init__(name="killer")
        self._dockerd = dockerd
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
                if self._dockerd is not None and self._random.random() < 0.15:
                    self._strike_dockerd(self._dockerd)
                else:
                    self._strike()
                time.sleep(self._random.expovariate(6.0))
        except BaseException as error:  # noqa: BLE001 - told by the storm's own task
            self.error = error

    def _strike_dockerd(self, dockerd: Dockerd) -> None:
        """Kill the daemon, somebody else while it is away, and start it again."""
        pid = dockerd.pid
        end(pid)
        until(lambda: not is_alive(pid), "the end of the daemon")
        self.dealt["dockerd"] += 1
        self._strike()
        dockerd.start()

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
    viewers: list[Viewer],
    *,
    folder: str,
) -> None:
    while killer.is_alive() and killer.error is None:
        viewer = Viewer(planner.deal(), folder)
        viewers.append(viewer)
        await viewer.run(lambda: server.url)
        report.faults += viewer.check()
        report.processes += 1
        report.profiles[viewer.plan.walls] += 1
        report.bytes += sum(viewer.ends.values())


async def _storm(
    server: OutliveServer,
    house: House,
    *,
    kills: int,
    seed: int,
    at_once: int = _VIEWERS,
    dockerd: Dockerd | None = None,
) -> tuple[Report, list[Viewer]]:
    viewers: list[Viewer] = []
    killer = _Killer(
        house,
        server,
        kills=kills,
        seed=seed,
        living=lambda: [
            viewer.process_id for viewer in list(viewers) if viewer.process_id and not viewer.completed
        ],
        dockerd=dockerd,
    )
    report = Report(blows=killer.dealt)
    walls = await anyio.to_thread.run_sync(Walls, house.state_dir)  # tries out what this machine offers
    planner = Planner(seed, profiles=walls.profiles, has_containers=dockerd is not None)
    view = functools.partial(_view, folder=str(walls.folder))
    began = time.monotonic()
    killer.start()
    async with anyio.create_task_group() as group:
        for _ in range(at_once):
            group.start_soon(view, server, planner, killer, report, viewers)
    killer.join()
    if killer.error is not None:
        raise killer.error
    report.seconds = time.monotonic() - began
    return report, viewers


# Random bytes by the hundred megabytes hold what looks like a password in an address now and then.
_WORDS = ("--redact", "off", "--sandbox-read", ",".join(READABLE))


def server_storm(state_dir: Path, *, kills: int, seed: int) -> Report:
    """Run one storm with a server on a fresh state folder; nothing is left behind."""
    with OutliveServer(state_dir, args=_WORDS) as server:
        house = House(state_dir)
        house.client.connect()
        report, viewers = anyio.run(lambda: _storm(server, house, kills=kills, seed=seed))
        _check_folders(house, viewers, report)
        report.faults += check_audit(state_dir)
        report.faults += check_logs(server)
        house.client.close()
    return report


def container_storm(state_dir: Path, dockerd: Dockerd, *, kills: int, seed: int, at_once: int = 40) -> Report:
    """Run one with half of the writers in containers of `dockerd`, which is killed, too.

    Nothing is left behind.
    """
    work = state_dir.with_name(state_dir.name + ".work")
    work.mkdir()
    # The default stays this machine: each start names its place.
    words = (*serve_words(work, backend="local"), "--docker-idle", f"{_IDLE_S}s")
    with OutliveServer(state_dir, args=(*_WORDS, *words), env={"DOCKER_HOST": dockerd.host}) as server:
        house = House(state_dir)
        house.client.connect()
        try:
            report, viewers = anyio.run(
                lambda: _storm(server, house, kills=kills, seed=seed, at_once=at_once, dockerd=dockerd)
            )
            _check_folders(house, viewers, report)
            report.faults += leaks(house)
            report.faults += _left_in_containers(house, dockerd)
        finally:
            remove_containers(dockerd.host, state_dir)
        house.client.close()
    return report


def _check_folders(house: House, viewers: list[Viewer], report: Report) -> None:
    until(lambda: house.status()["processes"] == 0, "an empty keeper")
    for viewer in viewers:
        if viewer.process_id:
            report.faults += check_folder(house, viewer.process_id, viewer.plan)


def _left_in_containers(house: House, dockerd: Dockerd) -> list[str]:
    """Return what a runner with nothing to do must not have, and containers that stay although nobody uses
    them.
    """
    wrong = []
    for path in Path(house.layout.containers).glob("session-*"):
        init = int((path / "init").read_text())
        until(lambda init=init: not descendants(init), "the end of all minders")  # type: ignore[misc] # a bound pid
        files = os.listdir(f"/proc/{init}/fd")
        if len(files) > _RUNNER_FILES:
            wrong.append(f"the runner of {path.name} holds {len(files)} files")
    try:
        until(lambda: not containers_left(dockerd.host, house.state_dir), "their removal", patience_s=_GONE_S)
    except AssertionError:
        wrong.append(f"containers left: {containers_left(dockerd.host, house.state_dir)}")
    return wrong


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.server_storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="storm") as folder:
        report = server_storm(Path(folder) / "state", kills=options.kills, seed=options.seed)
    return report.tell()


if __name__ == "__main__":
    sys.exit(_main())
