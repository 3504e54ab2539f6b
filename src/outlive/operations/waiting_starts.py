"""`WaitingStarts`: which commands wait for an approval, for their group's turn or for a place on a machine,
in which order, and what runs of each group. Pure.

Whatever happens (a request, an approval, an end, another limit or order) goes in; what has to be done comes
out as effects, which the engine carries out (`engine.starts.start_queue`). A start passes three steps, and
may skip each: a person approves it, its group's turn comes, a machine has room for it.

A group with a limit has room for so many as its limit is above what runs of it: as many have their turn, from
the front of its line, and a place on a machine is all that they still wait for. Without a limit, and outside
of groups, all that wait have their turn. What has none wants no place: a machine would be kept for what may
not run. To start one that has its turn takes no other one's.
"""

from collections import deque
from collections.abc import Iterable
from enum import Enum, auto
from itertools import islice

from outlive.core.values import dataclass, field
from outlive.operations.reports import GroupView

GroupKey = tuple[str, str]  # principal, name: groups of the same name belong to each principal separately


class Effect(Enum):
    """What has to be done about a command."""

    START = auto()
    ASK_FOR_PLACE = auto()  # if it still waits; asking again changes nothing; `place_given` follows
    GIVE_PLACE_BACK = auto()  # or ask for none any more; it may have done neither


Effects = list[tuple[Effect, str]]


@dataclass(slots=True)
class _GroupLine:
    """How many of a group run, and what waits for its turn, the next first.

    Of that, `asking` may have asked for a place.
    """

    running: int = 0
    line: deque[str] = field(default_factory=deque)
    asking: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _WaitingStart:
    group: GroupKey | None
    needs_place: bool


class WaitingStarts:
    """The commands of all principals that wait, by their process ids.

    Whenever nothing happens, this is so: each command that has its turn has asked for a place and has none,
    and no command without a turn has one or waits for one.

    Attributes:
        asked: What waits for an approval.
        limits: How many of a group run at once, where that is limited.
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.limits: dict[GroupKey, int] = {}
        self._waiting: dict[str, _WaitingStart] = {}  # for turn or place, in the order in which they came
        self._groups: dict[GroupKey, _GroupLine] = {}
        self._counted: dict[str, GroupKey] = {}  # what starts or runs in a group
        self._is_open = False

    def __contains__(self, process_id: str) -> bool:
        """Return whether a command waits for its turn or a place."""
        return process_id in self._waiting

    @property
    def turns(self) -> set[str]:
        """The commands that have their turn."""
        turns = {name for group in self._groups for name in self._turns_of(group)}
        return turns | {name for name, one in self._waiting.items() if one.group is None}

    def begin(self) -> Effects:
        """What runs is counted: from now on start what may start, what came first first."""
        self._is_open = True
        turns = self.turns
        return self._go_on([name for name in self._waiting if name in turns])

    def close(self) -> None:
        """Start none any more."""
        self._is_open = False

    # -- what waits

    def ask(self, process_id: str) -> None:
        """Let a command wait for an approval: `put` follows one, `take_out` a denial."""
        self.asked.add(process_id)

    def put(
        self, process_id: str, group: GroupKey | None, *, needs_place: bool, is_first: bool = False
    ) -> Effects:
        """Let a command wait at the end of its group's line: it is new, or was approved.

        With `is_first` at its beginning: its machine has refused it. It counts in its group until now, so
        that no other one has got its turn.
        """
        self.asked.discard(process_id)
        self._waiting[process_id] = _WaitingStart(group, needs_place)
        if is_first:
            self._uncount(process_id)
        if group is None:
            return self._go_on([process_id])
        known = self._groups.setdefault(group, _GroupLine())
        known.line.insert(0 if is_first else len(known.line), process_id)
        if needs_place:  # its start may have asked for one before it waited
            known.asking.add(process_id)
        return self._look(group) if group in self.limits else self._go_on([process_id])

    def take_out(self, process_id: str) -> Effects:
        """Let a command wait no more: it was withdrawn or denied, or its time for an approval is up."""
        self.asked.discard(process_id)
        one = self._remove(process_id)
        if one is None:
            return []
        given_back = [(Effect.GIVE_PLACE_BACK, process_id)] if one.needs_place else []
        return given_back + self._look(one.group)

    def place_given(self, process_id: str) -> Effects:
        """Start a command that has got a place, unless it wants none any more."""
        one = self._waiting.get(process_id)
        if one is None or not self._is_open:
            return []
        is_wanted = one.group is None or process_id in self._groups[one.group].asking
        return self._start(process_id) if is_wanted else []

    def move(self, process_id: str, places: int) -> int | None:
        """Put a command so many places back in its line, or forward where that is negative.

        Return where it was; of the two ends none is passed. None: it waits for no turn in a group. `look`
        follows.
        """
        one = self._waiting.get(process_id)
        if one is None or one.group is None or one.group not in self.limits:
            return None
        line = self._groups[one.group].line
        old = line.index(process_id)
        line.remove(process_id)
        line.insert(max(0, min(len(line), old + places)), process_id)
        return old

    def look(self, process_id: str) -> Effects:
        """Look again at the line of a command that was moved."""
        one = self._waiting.get(process_id)
        return self._look(None if one is None else one.group)

    def order(self) -> list[str]:
        """Return the ids of all that wait for turn or place, as a later server is to `put` them: in the order
        in which they came, but for those that were moved in their line.
        """
        lines = {key: iter(one.line) for key, one in self._groups.items()}
        return [next(lines[one.group]) if one.group else name for name, one in self._waiting.items()]

    # -- what runs

    def enter(self, process_id: str, group: GroupKey | None) -> Effects:
        """Count a process that starts or runs in its group, and in no other one any more; idempotent.

        It may take the turn of the last that has one.
        """
        old = self._uncount(process_id)
        if group is not None:
            self._count(process_id, group)
        return self._look(group) + (self._look(old) if old != group else [])

    def ended(self, process_id: str) -> Effects:
        """Count a process no more that has ended or never ran, and give its turn to the next; idempotent."""
        return self.take_out(process_id) + self.enter(process_id, None)

    def regroup(self, process_id: str, group: GroupKey | None) -> Effects:
        """Give a command another group that starts, runs, or has just come back into its line."""
        one = self._remove(process_id)
        if one is None:
            return self.enter(process_id, group)
        effects = self.put(process_id, group, needs_place=one.needs_place)
        return effects + self._look(one.group)

    # -- groups

    def set_limit(self, group: GroupKey, limit: int | None) -> Effects:
        """Change how many of a group run at once; a higher limit starts more, a lower one ends no process."""
        if limit is not None:
            self.limits[group] = limit
            return self._look(group)
        self.limits.pop(group, None)
        return self._go_on(self._turns_of(group))

    def is_full(self, group: GroupKey) -> bool:
        """Return whether one more has no turn yet."""
        one = self._groups.get(group, _GroupLine())
        return group in self.limits and one.running + len(one.line) >= self.limits[group]

    def views(self, principal: str) -> list[GroupView]:
        """Return the groups of a principal that run something, wait or have a limit, by name."""
        own = sorted(key for key in {*self._groups, *self.limits} if key[0] == principal)
        return [
            GroupView(group=key[1], limit=self.limits.get(key), running=one.running, waiting=[*one.line])
            for key, one in ((key, self._groups.get(key, _GroupLine())) for key in own)
        ]

    # -- what follows

    def _look(self, group: GroupKey | None) -> Effects:
        """Go on with what has its turn in a line, and have what has none (any more) wait for no place.

        Without a limit all have their turn, and nothing that happens to another one changes that.
        """
        known = None if group is None else self._groups.get(group)
        if group not in self.limits or known is None:
            return []
        turns = self._turns_of(group)
        effects = self._go_on(turns)
        lost = known.asking.difference(turns)
        known.asking -= lost
        if lost:
            effects += [(Effect.GIVE_PLACE_BACK, name) for name in known.line if name in lost]
        return effects

    def _turns_of(self, group: GroupKey) -> list[str]:
        """Return what has its turn in a line, the first one first."""
        one = self._groups.get(group, _GroupLine())
        room = self.limits[group] - one.running if group in self.limits else len(one.line)
        return list(islice(one.line, max(0, room)))

    def _go_on(self, turns: Iterable[str]) -> Effects:
        """Start what has its turn and needs no place, and have the rest ask for one."""
        effects: Effects = []
        for name in turns if self._is_open else ():
            one = self._waiting[name]
            if not one.needs_place:
                effects += self._start(name)
                continue
            if one.group is not None:
                self._groups[one.group].asking.add(name)
            effects.append((Effect.ASK_FOR_PLACE, name))
        return effects

    def _start(self, process_id: str) -> Effects:
        one = self._remove(process_id)
        if one is not None and one.group is not None:
            self._count(process_id, one.group)
        return [(Effect.START, process_id)]

    def _remove(self, process_id: str) -> _WaitingStart | None:
        one = self._waiting.pop(process_id, None)
        if one is not None and one.group is not None:
            self._groups[one.group].line.remove(process_id)
            self._groups[one.group].asking.discard(process_id)
            self._tidy(one.group)
        return one

    def _count(self, process_id: str, group: GroupKey) -> None:
        self._counted[process_id] = group
        self._groups.setdefault(group, _GroupLine()).running += 1

    def _uncount(self, process_id: str) -> GroupKey | None:
        group = self._counted.pop(process_id, None)
        if group is not None:
            self._groups[group].running -= 1
            self._tidy(group)
        return group

    def _tidy(self, group: GroupKey) -> None:
        """Forget a group of which nothing is left."""
        one = self._groups[group]
        if not one.running and not one.line:
            del self._groups[group]
