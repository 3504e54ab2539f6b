"""How placement does with a thousand machines: `python -m scripts.simulate_fleet`, on a clock of its own.

The code that places is the server's (`outlive.placement`). Commands come at random moments with needs and
durations drawn from a few kinds, more than the fleet can run at once, so that a line forms. Nothing is
started. Printed are decisions per second of processor time, how long commands of each kind waited, how often
the first of a line was passed, how full the fleet was, and memory.
"""

import argparse
import heapq
import itertools
import random
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from outlive.core.needs import Amounts
from outlive.placement.fleet import Demand, FleetNode, FleetRooms
from outlive.placement.waiting_line import PATIENCE, WaitingLine

_GB = 2**30
_CPUS = 16
_MEMORY_GB = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandKind:
    """A kind of command: how many of a hundred are of it, what it needs, and how long it runs on average."""

    name: str
    percent: int
    demand: Demand
    mean_s: float


def _kind(
    name: str, percent: int, *, cpu: float, memory: float, gpu: float = 0, mean_s: float, zone: str = ""
) -> CommandKind:
    amounts = Amounts(cpu_milli=int(cpu * 1000), memory_bytes=int(memory * _GB), gpu_milli=int(gpu * 1000))
    labels = {"zone": zone} if zone else {}
    return CommandKind(
        name=name,
        percent=percent,
        demand=Demand(amounts=amounts, labels=tuple(sorted(labels.items()))),
        mean_s=mean_s,
    )


_KINDS = (
    _kind("small", 66, cpu=1, memory=1, mean_s=60),
    _kind("build", 20, cpu=4, memory=8, mean_s=300),
    _kind("zone", 10, cpu=1, memory=2, mean_s=120, zone="eu"),
    _kind("train", 2, cpu=4, memory=16, gpu=1, mean_s=900),
    _kind("whole", 2, cpu=_CPUS, memory=_MEMORY_GB, mean_s=600),
)


def _fleet(nodes: int) -> FleetRooms:
    fleet = FleetRooms()
    for number in range(nodes):
        gpus = 4 if number % 5 == 0 else 0
        capacity = Amounts(cpu_milli=_CPUS * 1000, memory_bytes=_MEMORY_GB * _GB, gpu_milli=gpus * 1000)
        labels = frozenset({("zone", ("eu", "us")[number % 2])})
        fleet.put(FleetNode(name=f"node-{number:04}", capacity=capacity, labels=labels))
    return fleet


def _processor_s(kinds: tuple[CommandKind, ...]) -> float:
    """Return the seconds of a processor that a command takes on average."""
    return sum(kind.percent / 100 * kind.mean_s * kind.demand.amounts.cpu_milli / 1000 for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One moment: a command has come, or another one has ended, and these were placed because of that.

    Attributes:
        at_s: When, on the fleet's own clock.
        came: The command that came; None: one has ended.
        ended: The command that has ended; None: one came.
        placed: Commands with their nodes, in the order in which they were placed.
        waiting: How many wait afterwards.
    """

    at_s: float
    came: int | None = None
    ended: int | None = None
    placed: tuple[tuple[int, str], ...] = ()
    waiting: int


class Simulation:
    """Commands that come to a fleet and end there.

    They are known by their numbers, in the order in which they come.

    Attributes:
        kinds: The kind of each command.
        fleet: The nodes.
        line: What waits.
        busy_s: Processor time that placement has taken until now.
    """

    def __init__(
        self, nodes: int, commands: int, *, load: float, seed: int, patience: int = PATIENCE
    ) -> None:
        """Draw what comes, and how long each runs.

        Args:
            nodes: How many machines.
            commands: How many commands come.
            load: Processor time that is asked for, as a share of what the fleet has.
            seed: Of what is drawn.
            patience: How many may pass the first of its kind.
        """
        drawn = random.Random(seed)  # noqa: S311 - no secret
        pause_s = _processor_s(_KINDS) / (nodes * _CPUS * load)
        self.kinds = drawn.choices(_KINDS, [kind.percent for kind in _KINDS], k=commands)
        self._durations = [drawn.expovariate(1 / kind.mean_s) for kind in self.kinds]
        self._pauses = [drawn.expovariate(1 / pause_s) for _ in self.kinds]
        self.fleet = _fleet(nodes)
        self.line = WaitingLine(self.fleet, patience=patience)
        self.busy_s = 0.0

    def steps(self) -> Iterator[Step]:
        """Run it, once: yield what happens, until no command runs any more."""
        ends: list[tuple[float, int]] = []
        arrivals = zip(itertools.accumulate(self._pauses), range(len(self.kinds)), strict=True)
        arrival = next(arrivals, None)
        while arrival is not None or ends:
            placed: tuple[tuple[int, str], ...]
            begun = time.process_time()
            if arrival is not None and (not ends or arrival <= ends[0]):
                at_s, came = arrival
                node = self.line.add(str(came), self.kinds[came].demand)
                placed = () if node is None else ((came, node),)
                arrival = next(arrivals, None)
                step = Step(at_s=at_s, came=came, placed=placed, waiting=len(self.line))
            else:
                at_s, ended = heapq.heappop(ends)
                freed = self.fleet.free(str(ended))
                grants = self.line.advance(freed) if len(self.line) else ()
                placed = tuple((int(one.process_id), one.node) for one in grants)
                step = Step(at_s=at_s, ended=ended, placed=placed, waiting=len(self.line))
            self.busy_s += time.process_time() - begun
            for number, _ in step.placed:
                heapq.heappush(ends, (at_s + self._durations[number], number))
            yield step


def simulate(nodes: int, commands: int, *, load: float, seed: int) -> dict[str, object]:
    """Run so many commands over so many nodes, and return what was seen (see `Simulation`)."""
    simulation = Simulation(nodes, commands, load=load, seed=seed)
    kinds = simulation.kinds
    came = [0.0] * commands
    waited: dict[str, list[float]] = {kind.name: [] for kind in _KINDS}
    now, longest, decisions, arrived = 0.0, 0, 0, 0
    running = 0  # thousandths of a processor
    used, used_until = 0.0, 0.0  # processor seconds, until the last one came
    for step in simulation.steps():
        if arrived < commands:
            used, used_until = used + running / 1000 * (step.at_s - now), step.at_s
        now = step.at_s
        longest = max(longest, step.waiting)
        decisions += (step.came is not None) + (step.ended is not None) * len(step.placed)
        if step.came is not None:
            came[step.came] = now
            arrived += 1
        if step.ended is not None:
            running -= kinds[step.ended].demand.amounts.cpu_milli
        for number, _ in step.placed:
            running += kinds[number].demand.amounts.cpu_milli
            waited[kinds[number].name].append(now - came[number])
    return {
        "commands": commands,
        "nodes": nodes,
        "decisions per second of processor time": round(decisions / simulation.busy_s),
        "microseconds of processor time a command": round(simulation.busy_s / commands * 1e6),
        "longest line": longest,
        "virtual hours": round(now / 3600, 1),
        "processors busy until the last came, of 100": round(100 * used / (used_until * nodes * _CPUS)),
        "seconds waited (median, most)": {
            name: (round(statistics.median(times)), round(max(times)))
            for name, times in waited.items()
            if times
        },
        "MB of memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    """Read the command line, simulate, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--load", type=float, default=1.1)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for name, value in simulate(asked.nodes, asked.commands, load=asked.load, seed=asked.seed).items():
        sys.stdout.write(f"{name}: {value}\n")


if __name__ == "__main__":
    main()
