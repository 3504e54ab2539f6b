"""How placement does with a thousand machines: `python -m scripts.simulate_fleet`, on a clock of its own.

The code that places is the server's (`outlive.placement`). Commands come at random moments with needs and durations drawn from
a few kinds, more than the fleet can run at once, so that a line forms. Nothing is started. Printed are decisions per second of
processor time, how long commands of each kind waited, how often the first of a line was passed, how full the fleet was, and memory.
"""

import argparse
import heapq
import random
import resource
import statistics
import sys
import time
from dataclasses import dataclass

from outlive.core.needs import Amounts
from outlive.placement.fleet import Demand, FleetNode, FleetRooms
from outlive.placement.waiting_line import WaitingLine

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


def simulate(nodes: int, commands: int, *, load: float, seed: int) -> dict[str, object]:
    """Run so many commands over so many nodes, and return what was seen.

    Args:
        nodes: How many machines.
        commands: How many commands come.
        load: Processor time that is asked for, as a share of what the fleet has.
        seed: Of what is drawn.
    """
    drawn = random.Random(seed)  # noqa: S311 - no secret
    fleet = _fleet(nodes)
    line = WaitingLine(fleet)
    pause_s = _processor_s(_KINDS) / (nodes * _CPUS * load)
    kinds = drawn.choices(_KINDS, [kind.percent for kind in _KINDS], k=commands)
    durations = [drawn.expovariate(1 / kind.mean_s) for kind in kinds]
    ends: list[tuple[float, int]] = []
    came = [0.0] * commands
    waited: dict[str, list[float]] = {kind.name: [] for kind in _KINDS}
    now, longest, decisions, busy_s = 0.0, 0, 0, 0.0
    running, used, used_until = (
        0,
        0.0,
        0.0,
    )  # thousandths of a processor; processor seconds until the last one came

    def begin(number: int) -> None:
        nonlocal running
        running += kinds[number].demand.amounts.cpu_milli
        waited[kinds[number].name].append(now - came[number])
        heapq.heappush(ends, (now + durations[number], number))

    next_at, number = drawn.expovariate(1 / pause_s), 0
    while number < commands or ends:
        is_new = number < commands and (not ends or next_at <= ends[0][0])
        following = next_at if is_new else ends[0][0]
        if number < commands:
            used, used_until = used + running / 1000 * (following - now), following
        now = following
        if is_new:
            came[number] = now
            begun = time.process_time()
            node = line.add(str(number), kinds[number].demand)
            busy_s += time.process_time() - begun
            decisions += 1
            if node is not None:
                begin(number)
            number += 1
            next_at += drawn.expovariate(1 / pause_s)
        else:
            _, ended = heapq.heappop(ends)
            running -= kinds[ended].demand.amounts.cpu_milli
            begun = time.process_time()
            freed = fleet.free(str(ended))
            grants = line.advance(freed) if len(line) else []
            busy_s += time.process_time() - begun
            decisions += len(grants)
            for grant in grants:
                begin(int(grant.process_id))
        longest = max(longest, len(line))
    return {
        "commands": commands,
        "nodes": nodes,
        "decisions per second of processor time": round(decisions / busy_s),
        "microseconds of processor time a command": round(busy_s / commands * 1e6),
        "longest line": longest,
        "virtual hours": round(now / 3600, 1),
        "processors busy until the last came, of 100": round(100 * used / (used_until * nodes * _CPUS)),
        "seconds waited (median, most)": {
            name: (round(statistics.median(times)), round(max(times))) for name, times in waited.items()
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
