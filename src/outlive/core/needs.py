"""What a command needs of the machine that runs it (`Needs`), and amounts of what machines have (`Amounts`). Pure.

Amounts are whole numbers, so that what is taken and given back a million times adds up to nothing: processors and GPUs are
counted in thousandths, memory in bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

THOUSANDTHS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """So much of each: thousandths of a processor, bytes of memory, thousandths of a GPU."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0

    def __add__(self, other: "Amounts") -> "Amounts":
        """Return both together."""
        return Amounts(
            cpu_milli=self.cpu_milli + other.cpu_milli,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            gpu_milli=self.gpu_milli + other.gpu_milli,
        )

    def __sub__(self, other: "Amounts") -> "Amounts":
        """Return what is left without the other; less than nothing where too much was taken."""
        return Amounts(
            cpu_milli=self.cpu_milli - other.cpu_milli,
            memory_bytes=self.memory_bytes - other.memory_bytes,
            gpu_milli=self.gpu_milli - other.gpu_milli,
        )

    def holds(self, other: "Amounts") -> bool:
        """Return whether there is as much of everything as the other asks for. What is not asked for does not count."""
        return (
            (not other.cpu_milli or self.cpu_milli >= other.cpu_milli)
            and (not other.memory_bytes or self.memory_bytes >= other.memory_bytes)
            and (not other.gpu_milli or self.gpu_milli >= other.gpu_milli)
        )

    def view(self) -> dict[str, float]:
        """Return what there is of it by the names that callers have: `cpu` and `gpu` as numbers, `memory` in bytes."""
        found = {
            "cpu": self.cpu_milli / THOUSANDTHS,
            "memory": self.memory_bytes,
            "gpu": self.gpu_milli / THOUSANDTHS,
        }
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a machine must have free, and how it must be labelled, so that a command may run there.

    `labels` are sorted pairs that the machine must have. `beside` is the name of the one node that may be chosen, "" for any:
    the node of the process that the caller wants to be near. `spread` names the commands that are to be kept apart where that
    can be had, "" for none: the node that runs the fewest of that name comes first.
    """

    amounts: Amounts = Amounts(cpu_milli=THOUSANDTHS)
    labels: tuple[tuple[str, str], ...] = ()
    beside: str = ""
    spread: str = ""

    @classmethod
    def of(cls, amounts: Amounts, labels: Mapping[str, str]) -> "Needs":
        """Return needs of amounts and labels alone."""
        return cls(amounts=amounts, labels=tuple(sorted(labels.items())))
