"""What a command needs of the machine that runs it (`Needs`), and amounts of what machines have (`Amounts`).

Pure.

Amounts are whole numbers, so that what is taken and given back a million times adds up to nothing: processors
and GPUs are counted in thousandths, memory in bytes.
"""

from collections.abc import Mapping

from outlive.core.values import dataclass, field

THOUSANDTHS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """So much of each: thousandths of a processor, bytes of memory, thousandths of a GPU."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_milli: int = 0

    @classmethod
    def of(cls, *, cpu: float = 0, memory_bytes: int = 0, gpu: float = 0) -> "Amounts":
        """Return amounts of whole processors and GPUs, or parts of them."""
        return cls(
            cpu_milli=round(cpu * THOUSANDTHS), memory_bytes=memory_bytes, gpu_milli=round(gpu * THOUSANDTHS)
        )

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
        """Return whether there is as much of everything as the other asks for.

        What is not asked for does not count.
        """
        return (
            (not other.cpu_milli or self.cpu_milli >= other.cpu_milli)
            and (not other.memory_bytes or self.memory_bytes >= other.memory_bytes)
            and (not other.gpu_milli or self.gpu_milli >= other.gpu_milli)
        )

    def view(self) -> dict[str, float]:
        """Return what there is of it by the names that callers have: `cpu` and `gpu` as numbers, `memory` in
        bytes.
        """
        found = {
            "cpu": self.cpu_milli / THOUSANDTHS,
            "memory": self.memory_bytes,
            "gpu": self.gpu_milli / THOUSANDTHS,
        }
        return {name: value for name, value in found.items() if value}


ONE_PROCESSOR = Amounts(cpu_milli=THOUSANDTHS)  # what a command takes that does not say what it needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the machine that runs a command must have free, and how it must be labelled.

    `labels` are pairs that the machine must have. `node` is the name of the only one that counts, "" for any;
    `same_node_as` is the id of a process beside which the command is to run. `is_spread`: machines that run
    fewer commands of its group (of its principal, where it is in none) come first. Where no machine has
    enough free, a command that `is_patient` waits for its turn; any other is refused. `gpus` are those that
    it was given, by the names that drivers take.
    """

    amounts: Amounts = ONE_PROCESSOR
    labels: Mapping[str, str] = field(default_factory=dict)
    node: str = ""
    same_node_as: str | None = None
    is_spread: bool = False
    is_patient: bool = True
    gpus: tuple[str, ...] = ()

    def view(self) -> dict[str, object]:
        """Return it as callers say it: amounts by their names, and what is not the usual."""
        found: dict[str, object] = {**self.amounts.view()}
        if self.labels:
            found["labels"] = dict(self.labels)
        if self.node:
            found["node"] = self.node
        if self.same_node_as is not None:
            found["same_node_as"] = self.same_node_as
        if self.is_spread:
            found["spread"] = True
        if not self.is_patient:
            found["wait"] = False
        if self.gpus:
            found["gpus"] = list(self.gpus)
        return found

    @classmethod
    def decode(cls, members: object) -> "Needs | None":
        """Return what `view` made, from a file; None where there is none of it."""
        if not isinstance(members, dict):
            return None
        labels = members.get("labels")
        near, gpus = members.get("same_node_as"), members.get("gpus")
        return cls(
            amounts=Amounts.of(
                cpu=_number(members.get("cpu")),
                memory_bytes=int(_number(members.get("memory"))),
                gpu=_number(members.get("gpu")),
            ),
            labels={str(name): str(value) for name, value in labels.items()}
            if isinstance(labels, dict)
            else {},
            node=str(members.get("node") or ""),
            same_node_as=None if near is None else str(near),
            is_spread=bool(members.get("spread")),
            is_patient=bool(members.get("wait", True)),
            gpus=tuple(map(str, gpus)) if isinstance(gpus, list) else (),
        )


def _number(value: object) -> float:
    return value if isinstance(value, (int, float)) else 0
