"""Options about places: where commands run, and what this machine offers to those that say what they need.

And the words for needs and capacity. Pure.

`cpu=4,mem=16G,gpu=1,zone=eu`: amounts by their names, every other name is a label.
"""

import re

from outlive.config.options import option, parse_size, parse_switch
from outlive.core.location import DOCKER, LOCAL
from outlive.core.needs import Amounts
from outlive.core.values import dataclass

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_AMOUNTS = {"cpu": "cpu", "cpus": "cpu", "mem": "memory", "memory": "memory", "gpu": "gpu", "gpus": "gpu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceWords:
    """Amounts and labels as they were written; an amount that was not named is None. Memory is bytes."""

    cpu: float | None = None
    memory: int | None = None
    gpu: float | None = None
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def amounts(self) -> Amounts:
        """Return what was named; nothing of what was not."""
        return Amounts.of(cpu=self.cpu or 0, memory_bytes=self.memory or 0, gpu=self.gpu or 0)


def parse_resources(text: str) -> ResourceWords:
    """Return amounts and labels from NAME=VALUE between commas.

    Raises:
        ValueError: A word is none of them, an amount is no number, or a name comes twice.
    """
    found: dict[str, float] = {}
    labels: dict[str, str] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        name, separator, value = (part.strip() for part in word.partition("="))
        if not separator or not name or not value:
            raise ValueError(f"{word[:60]!r} is not NAME=VALUE, like cpu=4, mem=16G, gpu=1 or zone=eu")
        amount = _AMOUNTS.get(name)
        if (amount or name) in found or name in labels:
            raise ValueError(f"{name!r} is named twice")
        if amount is None:
            labels[name] = value
        else:
            found[amount] = parse_size(value) if amount == "memory" else _number(name, value)
    memory = found.get("memory")
    return ResourceWords(
        cpu=found.get("cpu"),
        memory=None if memory is None else int(memory),
        gpu=found.get("gpu"),
        labels=tuple(sorted(labels.items())),
    )


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1
    if not 0 <= number < 2**20:
        raise ValueError(f"{name}: a number is needed, like 2 or 0.5")
    return number


def parse_capacity(text: str) -> tuple[str, ...]:
    """Return the words of a capacity, each NAME=VALUE, once `parse_resources` has understood them."""
    parse_resources(text)
    return tuple(word for piece in text.split(",") if (word := piece.strip()))


def parse_placement(text: str) -> str:
    """Return the name of what leases places."""
    return text.strip().lower()


def parse_backend(text: str) -> str:
    """Return the name of a backend.

    A switch that is on means docker, one that is off local (promise S4.9.docker).
    """
    word = text.strip()
    try:
        return DOCKER if parse_switch(word) else LOCAL
    except ValueError:
        pass
    if word.lower() in {LOCAL, DOCKER}:
        return word.lower()
    if not _NAME.fullmatch(word):
        raise ValueError("local, docker or the name of a node is needed")
    return word


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PlacementSettings:
    """The part of `Settings` that says where commands run."""

    # Also a switch: USE_DOCKER is on or off (promise S4.9.docker).
    backend: str = option(
        "name",
        parse_backend,
        "local",
        "Where commands run that name no backend: local, docker, or a node. USE_DOCKER=True means docker.",
        flag="--backend",
        env=("USE_DOCKER",),
        example="docker",
    )
    placement: str = option(
        "placement",
        parse_placement,
        "static",
        "What counts the places of commands with needs (`run --need`): static, this server for the nodes "
        "of its own list, or ray, "
        "a Ray cluster for several servers together (needs outlive[ray]; `docs/fleet.md`).",
        flag="--placement",
        example="ray",
    )
    # What is not named is what the machine has: the operator takes some of it away, or adds what cannot be
    # seen.
    capacity: tuple[str, ...] = option(
        "words",
        parse_capacity,
        "",
        "What commands with needs (`run --need`) may take of this machine together, and its labels: "
        "NAME=VALUE between commas, of cpu, mem, gpu and any label. What is not named is all that the "
        "machine has.",
        flag="--capacity",
        example="cpu=8,mem=24G,gpu=1,zone=eu",
    )
