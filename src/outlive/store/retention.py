"""Which ended processes are removed (`Retention`, `select_removable`), and the clock by which they age
(`RetentionClock`). Pure.

A wall clock that was set wrong must not make a month pass in a moment. So within a boot the time since boot
counts. After a reboot only the wall clock knows how long the machine was off. It is believed for one day at
most, until it has run beside the clock since boot for an hour, neither set nor corrected.

Removing is done elsewhere (`engine`), and clocks are read there, too.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, Self

from outlive.core.command import BootTime
from outlive.core.values import dataclass, replace

_DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long and how much is kept of ended processes; None means no limit.

    Running processes are never removed.
    """

    max_age_s: float | None = 30 * _DAY_S
    max_count: int | None = 10_000
    max_bytes: int | None = 16 * 1024**3


RuleName = Literal["age", "count", "size"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """An ended, closed process: its id, its end (nanoseconds of a `RetentionClock`) and the size of its
    output in bytes.
    """

    process_id: str
    ended_ns: int
    size: int


def select_removable(candidates: Iterable[Candidate], rule: Retention, *, now_ns: int) -> list[str]:
    """Return the ids to remove, sorted."""
    return sorted(judge(candidates, rule, now_ns=now_ns))


def judge(candidates: Iterable[Candidate], rule: Retention, *, now_ns: int) -> dict[str, RuleName]:
    """Return what is to be removed, with the part of the rule that takes it, so that what stays satisfies the
    whole rule, taken newest first.

    The newest is the one that ended last; an id only reflects the wall clock at the start.
    """
    removable: dict[str, RuleName] = {}
    count = total = 0
    for candidate in sorted(candidates, key=lambda one: (one.ended_ns, one.process_id), reverse=True):
        is_old = rule.max_age_s is not None and candidate.ended_ns < now_ns - round(rule.max_age_s * 1e9)
        # Only what stays counts: one removed for its size makes room for an older, smaller one.
        is_too_many = rule.max_count is not None and count >= rule.max_count
        is_too_much = rule.max_bytes is not None and total + candidate.size > rule.max_bytes
        if is_old or is_too_many or is_too_much:
            removable[candidate.process_id] = "age" if is_old else "count" if is_too_many else "size"
        else:
            count += 1
            total += candidate.size
    return removable


_MAX_LEAP_NS = 86_400 * 10**9  # the longest time off that an unproven wall clock may claim
_PROOF_NS = 3_600 * 10**9  # that a wall clock has to run steadily until it is believed
# NTP slews by 1.8 s an hour at most (adjtimex(2), 500 ppm); a larger difference is a step.
_SAME_NS = 60 * 10**9
_MAX_BOOTS = 1000  # some 60 bytes each; records of older boots are dated by their wall clock


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """Both clocks at one moment; `wall_ns` is Unix time."""

    boot: BootTime
    wall_ns: int

    @property
    def difference_ns(self) -> int:
        """The wall clock at the beginning of the boot; it stays the same as long as no clock is set."""
        return self.wall_ns - self.boot.boottime_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionClock:
    """What is known about time after a reading of the clocks; `step` takes the next reading.

    Its own time is `now_ns`: about Unix nanoseconds, unless the wall clock was wrong.

    Attributes:
        boot: The newest reading.
        begin_ns: This clock's time at the beginning of the boot.
        floor_ns: This clock's time when the previous boot was last seen: the present boot began no earlier.
        is_settled: Whether `begin_ns` is final for this boot.
        difference_ns: The wall clock's difference when it was last found to be set.
        since_ns: The time since boot of that reading.
        earlier: `begin_ns` of earlier boots by their ids, oldest first.
    """

    boot: BootTime
    begin_ns: int
    floor_ns: int | None
    is_settled: bool
    difference_ns: int
    since_ns: int
    earlier: Mapping[str, int]

    @classmethod
    def first(cls, reading: ClockReading, *, floor_ns: int | None = None) -> Self:
        """Begin in a folder without a clock; `floor_ns` is the end of the newest record of an earlier
        boot.
        """
        return cls(
            boot=reading.boot,
            begin_ns=_begin(reading, floor_ns),
            floor_ns=floor_ns,
            is_settled=False,
            difference_ns=reading.difference_ns,
            since_ns=reading.boot.boottime_ns,
            earlier={},
        )

    @classmethod
    def of_boot(cls, reading: ClockReading, *, begin_ns: int) -> Self:
        """Begin in a folder without a clock that has a record of this very boot, which shows when the boot
        began.
        """
        return replace(cls.first(reading), begin_ns=begin_ns, is_settled=True)

    @property
    def now_ns(self) -> int:
        """This clock's time at the newest look."""
        return self.begin_ns + self.boot.boottime_ns

    def at(self, moment: BootTime | None, *, wall_ns: int) -> int:
        """Return this clock's time of a recorded moment.

        For an unknown boot, the wall clock of the record.
        """
        if moment is not None and moment.boot_id == self.boot.boot_id:
            return self.begin_ns + moment.boottime_ns
        if moment is not None and moment.boot_id in self.earlier:
            return self.earlier[moment.boot_id] + moment.boottime_ns
        return wall_ns

    def step(self, reading: ClockReading) -> "RetentionClock":
        """Return what is known after one more reading."""
        if reading.boot.boot_id != self.boot.boot_id:
            boots = [*self.earlier.items(), (self.boot.boot_id, self.begin_ns)]
            return replace(
                RetentionClock.first(reading, floor_ns=self.now_ns), earlier=dict(boots[-_MAX_BOOTS:])
            )
        # Within a boot whose beginning is known, the wall clock does not matter any more.
        if self.is_settled:
            return replace(self, boot=reading.boot)
        # The wall clock was set: its proof begins anew.
        if abs(reading.difference_ns - self.difference_ns) > _SAME_NS:
            return replace(
                self,
                boot=reading.boot,
                begin_ns=_begin(reading, self.floor_ns),
                difference_ns=reading.difference_ns,
                since_ns=reading.boot.boottime_ns,
            )
        if reading.boot.boottime_ns - self.since_ns < _PROOF_NS:
            return replace(self, boot=reading.boot)
        # It has proved itself: from now on the time off is what it says, but never less than nothing.
        begin_ns = max(
            reading.difference_ns, reading.difference_ns if self.floor_ns is None else self.floor_ns
        )
        return replace(self, boot=reading.boot, begin_ns=begin_ns, is_settled=True)

    def view(self) -> dict[str, object]:
        """Return the clock as JSON, for `read`."""
        return {
            "boot_id": self.boot.boot_id,
            "boottime_ns": self.boot.boottime_ns,
            "begin_ns": self.begin_ns,
            "floor_ns": self.floor_ns,
            "settled": self.is_settled,
            "difference_ns": self.difference_ns,
            "since_ns": self.since_ns,
            "earlier": dict(self.earlier),
        }

    @classmethod
    def read(cls, view: object) -> Self | None:
        """Return the clock that `view` described; None for anything else."""
        if not isinstance(view, dict):
            return None
        earlier, floor_ns = view.get("earlier"), view.get("floor_ns")
        try:
            return cls(
                boot=BootTime(str(view["boot_id"]), int(view["boottime_ns"])),
                begin_ns=int(view["begin_ns"]),
                floor_ns=None if floor_ns is None else int(floor_ns),
                is_settled=view["settled"] is True,
                difference_ns=int(view["difference_ns"]),
                since_ns=int(view["since_ns"]),
                earlier={str(boot): int(begin) for boot, begin in earlier.items()}
                if isinstance(earlier, dict)
                else {},
            )
        except (LookupError, TypeError, ValueError):
            return None


def _begin(reading: ClockReading, floor_ns: int | None) -> int:
    """Return when the boot began, as far as a wall clock is believed that has not proved itself."""
    if floor_ns is None:
        return reading.difference_ns
    return min(max(reading.difference_ns, floor_ns), floor_ns + _MAX_LEAP_NS)


_PRIVATE = 0o600
