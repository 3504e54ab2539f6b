"""Whether the commands of a storm, which all need the same, got their places in the order in which they were
accepted. Pure.

A command was accepted before another one where its client had the answer before the other client asked:
between those that were asked for at the same time there is no order. What is found is judged from two sides:

* Whenever the gateway was asked for its queue (`Look`), that stood in this order.
* In the end no command was passed by more than there are places: those may be on their way to their machines
  at the same time. It was passed by each that was accepted later, was given its place earlier (the gateway
  has its folder since), and has begun earlier by its own line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One command; the first two times are of one clock, the last two of another, all in nanoseconds."""

    process_id: str
    asked_ns: int
    answered_ns: int
    placed_ns: int
    begun_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The ids of what waited after a blow, the next first."""

    after: str
    waiting: tuple[str, ...]


def look_faults(looks: Sequence[Look], turns: Mapping[str, Turn]) -> list[str]:
    """Return what stood in a queue before one that was accepted earlier."""
    found = []
    for number, look in enumerate(looks):
        first: Turn | None = None  # the earliest answer of those behind
        for process_id in reversed(look.waiting):
            turn = turns.get(process_id)
            if turn is None:  # its client never had an answer
                continue
            if first is not None and first.answered_ns < turn.asked_ns:
                found.append(
                    f"look {number}, after {look.after}: {process_id} waits before {first.process_id}, "
                    "which came earlier"
                )
            if first is None or turn.answered_ns < first.answered_ns:
                first = turn
    return found


def most_passed(turns: Sequence[Turn]) -> tuple[int, str]:
    """Return by how many the command was passed that most have passed, and its id."""
    by_place = sorted(turns, key=lambda one: one.placed_ns)
    most, which = 0, ""
    for place, turn in enumerate(by_place):
        passed = sum(
            other.asked_ns > turn.answered_ns and other.begun_ns < turn.begun_ns for other in by_place[:place]
        )
        if passed > most:
            most, which = passed, turn.process_id
    return most, which
