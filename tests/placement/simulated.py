"""A simulated fleet that is watched: every step is counted a second time, apart from the code that places."""

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from outlive.core.needs import Amounts
from outlive.placement.fleet import FleetNode
from outlive.placement.waiting_line import PATIENCE
from scripts.simulate_fleet import CommandKind, Simulation, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a simulation came to.

    Attributes:
        longest: The most that waited at once.
        most_passes: The most later commands that were placed on a node which the first of a kind could have
            had.
        fullest_milli: The most processors, in thousandths, that were taken at once.
        memory_mb: The most memory that this process has had (VmHWM: what its parent had does not count).
    """

    longest: int
    most_passes: int
    fullest_milli: int
    memory_mb: int


@dataclass(slots=True)
class _Queue:
    """The commands of one kind that wait, the oldest first, how often that was passed, and which nodes could
    run it.
    """

    able: frozenset[str]
    waiting: deque[int] = field(default_factory=deque)
    passed: int = 0


class _Watch:
    """What runs where, by its own count.

    Raises AssertionError where something was placed that must not be.
    """

    def __init__(self, kinds: list[CommandKind], nodes: list[FleetNode]) -> None:
        self._kinds = kinds
        self._left = {node.name: node.capacity for node in nodes}
        self._node_of: dict[int, str] = {}
        self._queues = {kind.name: _Queue(_able(kind, nodes)) for kind in kinds}
        self.placed: set[int] = set()
        self.most_passes = 0
        self.taken_milli = 0

    def take(self, step: Step) -> None:
        """Count what has happened."""
        if step.ended is not None:
            self._change(self._node_of.pop(step.ended), step.ended, 1)
        if step.came is not None:
            self._queues[self._kinds[step.came].name].waiting.append(step.came)
        for number, node in step.placed:
            self._place(number, node)

    def is_empty(self) -> bool:
        """Return whether nothing runs and nothing waits."""
        return not self._node_of and not any(queue.waiting for queue in self._queues.values())

    def _place(self, number: int, node: str) -> None:
        assert number not in self.placed, f"command {number} was placed twice"
        self.placed.add(number)
        own = self._queues[self._kinds[number].name]
        assert own.waiting.popleft() == number, f"command {number} has passed one of its own kind"
        own.passed = 0
        assert node in own.able, f"command {number} is on {node}, which can not run it"
        self._node_of[number] = node
        self._change(node, number, -1)
        left = self._left[node]
        assert min(left.cpu_milli, left.memory_bytes, left.gpu_milli) >= 0, f"{node} is overbooked: {left}"
        for queue in self._queues.values():
            if queue.waiting and queue.waiting[0] < number and node in queue.able:
                queue.passed += 1
                self.most_passes = max(self.most_passes, queue.passed)

    def _change(self, node: str, number: int, sign: int) -> None:
        amounts, left = self._kinds[number].demand.amounts, self._left[node]
        self.taken_milli -= sign * amounts.cpu_milli
        self._left[node] = Amounts(
            cpu_milli=left.cpu_milli + sign * amounts.cpu_milli,
            memory_bytes=left.memory_bytes + sign * amounts.memory_bytes,
            gpu_milli=left.gpu_milli + sign * amounts.gpu_milli,
        )


def _able(kind: CommandKind, nodes: list[FleetNode]) -> frozenset[str]:
    amounts, labels = kind.demand.amounts, set(kind.demand.labels)
    return frozenset(
        node.name
        for node in nodes
        if labels <= node.labels
        and node.capacity.cpu_milli >= amounts.cpu_milli
        and node.capacity.memory_bytes >= amounts.memory_bytes
        and node.capacity.gpu_milli >= amounts.gpu_milli
    )


def watched(nodes: int, commands: int, *, seed: int, patience: int = PATIENCE) -> Seen:
    """Run a simulation in which a tenth more is asked for than there is, and count it.

    Raises:
        AssertionError: A node was overbooked or can not run what it was given, or a command was placed twice,
            never, or before one of its kind that had come earlier.
    """
    simulation = Simulation(nodes, commands, load=1.1, seed=seed, patience=patience)
    watch = _Watch(simulation.kinds, list(simulation.fleet.nodes))
    longest = fullest = 0
    for step in simulation.steps():
        watch.take(step)
        longest, fullest = max(longest, step.waiting), max(fullest, watch.taken_milli)
    assert len(watch.placed) == commands
    assert watch.is_empty()
    assert not simulation.line.waiting
    assert all(simulation.fleet.free_of(node.name) == node.capacity for node in simulation.fleet.nodes)
    return Seen(
        longest=longest, most_passes=watch.most_passes, fullest_milli=fullest, memory_mb=_memory_kb() // 1024
    )


def _memory_kb() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
