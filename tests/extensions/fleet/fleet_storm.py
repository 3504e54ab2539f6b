"""The storm over a fleet.

`python -m tests.extensions.fleet.fleet_storm --kills 300 --seed N [--ray] [--cut-s 300]`.

Clients have commands placed on two nodes and on the gateway's own machine, and follow them, while gateway,
nodes' servers and all keepers are killed, and links are cut, silenced and held up; with --ray also raylets,
Ray's control server and its driver beside the gateway (the placer). There are more commands than places all
the time. What each client has in the end must be, byte for byte, what its writer should have written, so must
the folders of gateway and node; each writer has begun once, by its own line in a file; the queue kept its
order (`turns`); audit logs are whole, no log has a traceback, and no lease, process or descriptor is left.
"""

import argparse
import contextlib
import functools
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio

from tests.extensions.fleet.fleet_verdict import begun_at, check_starts, check_turns
from tests.extensions.fleet.storm_fleet import NODES, StormFleet
from tests.extensions.ray.cluster import RayCluster, driver_of
from tests.faults.judging import Report, check_audit, check_logs, leaks
from tests.faults.killing import Hand
from tests.faults.plans import Planner
from tests.faults.turns import Look
from tests.faults.viewers import Viewer
from tests.keeper.client import new_id, until
from tests.keeper.house import House
from tests.support.processes import end, is_alive, with_cmdline

# What each command needs: a small part of a processor, so that a machine of two runs many. Raylets of two
# processors start no more of Ray's own workers than those of the other tests with Ray.
_NEED_MILLI = 50
_NEEDS = {"cpu": _NEED_MILLI / 1000}
# What a start is told while its node, its keeper or the gateway is away; it is asked for again under its own
# name.
_AWAY = frozenset(
    {
        "start_unanswered",
        "server_lost",
        "node_unavailable",
        "keeper_unavailable",
        "keeper_restarted",
        "timeout",
    }
)
_SHARE = 1 / 8  # of the output of the other storms: ten times as many commands write here
_STILL_S = 300.0  # without a byte or an answer: whoever is last in the queue waits for some hundred others
_LONGEST_CUT_S = 6.0
_WHOLE_S = 180.0
_SAID_S = 20.0
# A raylet is there after 15 s on a full machine. One in five never is that is started beside all that is
# struck here, and Ray waits for it as long as it may: it is started anew.
_JOIN_S, _TRIES = 35.0, 5
# How often each blow is dealt, in a deck that is mixed anew when all were. The first deck has one of each, so
# that a short storm misses none. The links' are no kills.
_BLOWS = {
    "gateway": 5,
    "node": 4,
    "both nodes": 1,
    "gateway and node": 2,
    "node's keeper": 6,
    "gateway's keeper": 3,
    "link cut": 2,
    "link silent": 2,
    "link held": 1,
}
_BLOWS_OF_RAY = {"placer": 4, "raylet": 1, "control server": 2}
LINKS = frozenset({"link cut", "link silent", "link held"})


class _Killer(threading.Thread):
    """Strikes until it has dealt its kills, and looks at the queue after each blow.

    A thread, because fleet and keepers block.
    """

    def __init__(
        self,
        fleet: StormFleet,
        *,
        kills: int,
        seed: int,
        cut_s: float | None,
        living: Callable[[], list[str]],
    ) -> None:
        super().__init__(name="killer")
        self._fleet = fleet
        self._kills = kills
        self._cut_s = cut_s
        self._random = random.Random(f"fleet kills/{seed}")
        self._hands = {
            name: Hand(
                house,
                seed * 3 + number,
                living=functools.partial(_of_house, living, Path(house.layout.processes)),
            )
            for number, (name, house) in enumerate(fleet.houses.items())
        }
        self._blows = {**_BLOWS, **(_BLOWS_OF_RAY if fleet.cluster is not None else {})}
        self._deck = sorted(self._blows)
        self._random.shuffle(self._deck)
        # When each link that is not whole becomes so (monotonic), and whether it is silent until then.
        self._heals: dict[str, tuple[float, bool]] = {}
        self.dealt: Counter[str] = Counter()
        self.looks: list[Look] = []
        self.error: BaseException | None = None

    @property
    def kills(self) -> int:
        """How many of the blows were kills."""
        return sum(count for name, count in self.dealt.items() if name not in LINKS)

    def run(self) -> None:
        try:
            while self.kills < self._kills or self._heals:
                if self.kills < self._kills:
                    name = self._strike(self._next())
                    self.looks.append(Look(after=name, waiting=self._fleet.waiting()))
                self._heal()
                time.sleep(self._random.expovariate(3.0))
        except BaseException as error:  # noqa: BLE001 - told by the storm's own task
            self.error = error

    def _next(self) -> str:
        if not self._deck:
            self._deck = [name for name, count in self._blows.items() for _ in range(count)]
            self._random.shuffle(self._deck)
        return self._deck.pop()

    def _strike(self, name: str) -> str:
        """Deal one blow; return what it is called once whoever was struck stands again (a link may not)."""
        node = self._random.choice(NODES)
        match name:
            case "node's keeper":
                name = f"node's {self._hands[node].strike()}"
            case "gateway's keeper":
                name = f"gateway's {self._hands['local'].strike()}"
            case "raylet":
                self._strike_raylet(node)
            case "control server":
                self._strike_control_server()
            case "placer":
                self._kill(driver_of(self._fleet.near))
            case "link cut" | "link silent" | "link held":
                if not self._strike_link(name):  # none is whole: later, and before the next deck
                    self._deck.insert(0, name)
                    return name
            case _:
                victims = {"gateway": ["local"], "node": [node], "both nodes": [*NODES]}.get(
                    name, ["local", node]
                )
                self._kill_servers(victims)
        self.dealt[name] += 1
        return name

    def _kill(self, *pids: int) -> None:
        for pid in pids:
            end(pid)
        until(lambda: not any(map(is_alive, pids)), "their ends")

    def _kill_servers(self, names: list[str]) -> None:
        """Kill servers at the same moment; they stand up again one after the other, in any order."""
        self._random.shuffle(names)
        self._kill(*(self._fleet.servers[name].pid for name in names))
        self._random.shuffle(names)
        for name in names:
            self._fleet.servers[name].restart()

    def _strike_raylet(self, node: str) -> None:
        cluster = self._fleet.cluster
        assert cluster is not None
        cluster.kill_raylet(node)
        if self._random.random() < 0.5:
            self._kill_servers(["local"])
            self.dealt["gateway"] += 1
        for tries_left in reversed(range(_TRIES)):
            try:
                cluster.join(node, patience_s=_JOIN_S)
            except (AssertionError, subprocess.TimeoutExpired):
                if not tries_left:
                    raise
            else:
                return

    def _strike_control_server(self) -> None:
        cluster = self._fleet.cluster
        assert cluster is not None
        start_again = cluster.kill_control_server()
        time.sleep(self._random.uniform(0.0, 2.0))
        if self._random.random() < 0.5:
            self._kill_servers(["local"])
            self.dealt["gateway"] += 1
        start_again()

    def _strike_link(self, name: str) -> bool:
        """Disturb a link that is whole, if there is one; it becomes whole again while others are struck."""
        whole = [one for one in NODES if one not in self._heals]
        if not whole or (self._cut_s is not None and self._heals):
            return False  # of two links that are away for minutes, all that remains would be this machine
        chosen = self._random.choice(whole)
        link = self._fleet.links[chosen]
        {"link cut": link.cut, "link silent": link.mute, "link held": link.hold}[name]()
        lasts_s = self._random.uniform(0.0, _LONGEST_CUT_S)
        if self._cut_s is not None and name != "link held":
            lasts_s = self._cut_s
        self._heals[chosen] = (time.monotonic() + lasts_s, name == "link silent")
        return True

    def _heal(self) -> None:
        for name, (at, is_silent) in list(self._heals.items()):
            if at > time.monotonic():
                continue
            del self._heals[name]
            if is_silent:  # what it has swallowed is lost: no connection may go on behind it
                self._fleet.links[name].cut()
            self._fleet.links[name].heal()


def _of_house(living: Callable[[], list[str]], processes: Path) -> list[str]:
    """Return those of the living that a keeper runs."""
    return [process_id for process_id in living() if (processes / process_id).exists()]


async def _view(
    fleet: StormFleet,
    planner: Planner,
    killer: _Killer,
    report: Report,
    viewers: list[Viewer],
    still_s: float,
) -> None:
    while killer.is_alive() and killer.error is None:
        options = {"needs": _NEEDS}
        viewer = Viewer(planner.deal(), "/", _AWAY, own_id=new_id(), options=options, still_s=still_s)
        viewers.append(viewer)
        await viewer.run(lambda: fleet.near.url)
        report.faults += viewer.check()
        report.processes += 1
        report.bytes += sum(viewer.ends.values())


async def _storm(
    fleet: StormFleet,
    begun: Path,
    *,
    kills: int,
    seed: int,
    cut_s: float | None,
    at_once: int,
    say: Callable[[str], None],
) -> tuple[Report, list[Viewer], _Killer]:
    viewers: list[Viewer] = []
    killer = _Killer(
        fleet,
        kills=kills,
        seed=seed,
        cut_s=cut_s,
        living=lambda: [one.process_id for one in list(viewers) if one.process_id and not one.completed],
    )
    report = Report(blows=killer.dealt)
    planner = Planner(seed, share=_SHARE, begun=str(begun))
    still_s = _STILL_S + (cut_s or 0.0)
    began = time.monotonic()
    killer.start()
    async with anyio.create_task_group() as group:
        for _ in range(at_once):
            group.start_soon(_view, fleet, planner, killer, report, viewers, still_s)
        said, told = began, 0
        while killer.is_alive():
            await anyio.sleep(0.5)
            for fault in report.faults[told:]:
                say(f"FAULT {fault}")
            told = len(report.faults)
            if time.monotonic() > said + _SAID_S:
                said = time.monotonic()
                say(f"{said - began:.0f} s: {report}")
        if killer.error is not None:  # what was struck does not stand up again: nobody need wait for it
            raise killer.error
    report.seconds = time.monotonic() - began
    return report, viewers, killer


def _is_empty(house: House) -> bool:
    return house.status()["processes"] == 0


def fleet_storm(
    folder: Path,
    *,
    kills: int,
    seed: int,
    cluster: RayCluster | None = None,
    cut_s: float | None = None,
    at_once: int = 200,
    cpus: float = 2.0,
    say: Callable[[str], None] = lambda _text: None,
) -> Report:
    """Run one storm in a fresh folder; nothing is left behind.

    Args:
        folder: Where state folders are made.
        kills: How many blows are dealt that kill something; those at links come on top.
        seed: What all follows from.
        cluster: With the nodes of `fleet.NODES`; None: the gateway counts the places.
        cut_s: How long links are cut and silent; None: a few seconds.
        at_once: How many commands there are at a time.
        cpus: Of each node; each command takes a twentieth of one.
        say: Hears how far it is.
    """
    begun = folder / "begun"
    begun.touch()
    own_cpus = cpus / 10
    places = round((len(NODES) * cpus + (own_cpus if cluster is None else 0)) / _NEEDS["cpu"])
    with StormFleet(folder, cluster=cluster, cpus=cpus, own_cpus=own_cpus) as fleet:
        report, viewers, killer = anyio.run(
            functools.partial(
                _storm, fleet, begun, kills=kills, seed=seed, cut_s=cut_s, at_once=at_once, say=say
            )
        )
        for house in fleet.houses.values():
            until(functools.partial(_is_empty, house), "an empty keeper", patience_s=_WHOLE_S)
        with contextlib.suppress(AssertionError):
            until(lambda: not fleet.held(), "all places given back", patience_s=_WHOLE_S)
        report.faults += [f"left: {one}" for one in fleet.held()]
        report.faults += [f"left: process {pid}" for pid in with_cmdline(str(begun))]
        starts = begun_at(begun)
        check_starts(fleet, viewers, starts, report)
        (folder / "looks").write_text(
            "".join(f"{look.after}: {' '.join(look.waiting)}\n" for look in killer.looks)
        )
        text, faults = check_turns(fleet, viewers, starts, killer.looks, places=places)
        say(text)
        report.faults += faults
        for name, server in fleet.servers.items():
            report.faults += [
                f"{name}: {fault}"
                for fault in (*check_audit(server.state_dir), *check_logs(server), *leaks(fleet.houses[name]))
            ]
        if report.faults:  # in case that leaving finds more
            report.tell()
    return report


@contextlib.contextmanager
def storm_cluster(folder: Path | None = None, *, cpus: int = 2) -> Iterator[RayCluster]:
    """A cluster of Ray with the storm's nodes."""
    with RayCluster(folder) as cluster:
        for name in NODES:  # not at once: two that start on one machine take each other's sockets
            cluster.join(name, cpus=cpus)
        yield cluster


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.extensions.fleet.fleet_storm", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ray", action="store_true", help="places are leased by Ray, which is struck, too")
    parser.add_argument(
        "--cut-s", type=float, help="how long links are cut and silent; a few seconds otherwise"
    )
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--folder", type=Path, help="a new folder, where all that was written stays")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        rays = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ray")))
        if options.folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="storm")))
        else:
            folder = options.folder
            folder.mkdir()
        report = fleet_storm(
            folder,
            kills=options.kills,
            seed=options.seed,
            cluster=stack.enter_context(storm_cluster(rays)) if options.ray else None,
            cut_s=options.cut_s,
            at_once=options.at_once,
            say=lambda text: print(text, flush=True),
        )
    return report.tell()


if __name__ == "__main__":
    sys.exit(_main())
