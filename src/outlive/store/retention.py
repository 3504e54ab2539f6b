"""Which ended processes may go: the rule (`Retention`) and its decision, pure."""

from collections.abc import Iterable
from dataclasses import dataclass

_DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long and how much is kept of ended processes; None is no limit. What runs is never touched."""

    max_age_s: float | None = 30 * _DAY_S
    max_count: int | None = 10_000
    max_bytes: int | None = 16 * 1024**3


@dataclass(frozen=True, slots=True)
class Candidate:
    """An ended, closed process: its id, its end (nanoseconds of a `RetentionClock`) and the bytes of output it holds."""

    process_id: str
    ended_ns: int
    size: int


def select_removable(candidates: Iterable[Candidate], rule: Retention, *, now_ns: int) -> list[str]:
    """Return the ids to remove so that what stays, taken newest first, satisfies the whole rule.

    The newest is the one that ended last; ids tell no more than what the wall clock said at a start. They are sorted.
    """
    removable: list[str] = []
    count = total = 0
    for candidate in sorted(candidates, key=lambda one: (one.ended_ns, one.process_id), reverse=True):
        is_old = rule.max_age_s is not None and candidate.ended_ns < now_ns - int(rule.max_age_s * 1e9)
        is_too_many = rule.max_count is not None and count >= rule.max_count
        is_too_much = rule.max_bytes is not None and total + candidate.size > rule.max_bytes
        if is_old or is_too_many or is_too_much:
            removable.append(candidate.process_id)
        else:
            count += 1
            total += candidate.size
    return sorted(removable)
