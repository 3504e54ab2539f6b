"""`GroupLines`: what runs of each group, what waits in its line, and whose turn it is. Pure.

A group with a limit has room for so many as its limit is above what runs of it: as many have their turn, from
the front of its line, and a place on a machine is all that they still wait for. Without a limit, and outside
of groups, all that wait have their turn. What has none wants no place: a machine would be kept for what may
not run. To start one that has its turn takes no other one's.

What asks for places, and starts what has turn and place, is `groups.ConcurrencyLimits`.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from outlive.core.values import dataclass
from outlive.engine.processes.process import Process
from outlive.store.queue_store import GroupKey, WaitingCommand


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """One group: how many of it run at once (None: any number), how many do, and the ids of what waits, the
    next first.
    """

    limit: int | None
    running: int
    waiting: tuple[str, ...]


class GroupLines:
    """The groups of all principals, and a line of its own for each command that waits outside of groups.

    Attributes:
        limits: How many of a group run at once, where that is limited; a change of it has to be followed by
            another look at its line.
    """

    def __init__(self) -> None:
        self.limits: dict[GroupKey, int] = {}
        self._running: dict[GroupKey, set[bytes]] = {}
        self._lines: dict[GroupKey, deque[Process]] = {}
        self._commands: dict[Process, WaitingCommand] = {}  # all that wait, in the order in which they came
        # Of groups with what needs a place: what may have asked for one. Those without a turn among them are
        # to give it back.
        self._asking: dict[GroupKey, set[Process]] = {}

    def __contains__(self, process: Process) -> bool:
        """Return whether a process waits in a line."""
        return process in self._commands

    def __iter__(self) -> Iterator[Process]:
        """Return all that wait, in the order in which they came."""
        return iter(list(self._commands))

    @property
    def keys(self) -> Iterable[GroupKey]:
        """The lines in which something waits."""
        return list(self._lines)

    def count(self, process: Process) -> None:
        """Count a process that starts or runs; idempotent. It may take the turn of the last that has one."""
        key = _group(process)
        if key is not None and not process.is_ended:
            self._running.setdefault(key, set()).add(process.key)

    def uncount(self, process: Process) -> bool:
        """Count a process no more; return whether it was counted: then one more has its turn."""
        key = _group(process)
        running = self._running.get(key) if key is not None else None
        if key is None or running is None or process.key not in running:
            return False
        running.discard(process.key)
        if not running:
            del self._running[key]
        return True

    def is_full(self, key: GroupKey) -> bool:
        """Return whether one more has no turn yet."""
        limit = self.limits.get(key)
        return limit is not None and len(self._running.get(key, ())) + len(self._lines.get(key, ())) >= limit

    def put(self, process: Process, command: WaitingCommand, *, is_first: bool = False) -> None:
        """Put a process at the end of its line, or at its beginning."""
        key = line_of(process)
        line = self._lines.setdefault(key, deque())
        if is_first:
            line.appendleft(process)
        else:
            line.append(process)
        self._commands[process] = command
        if process.needs is not None:
            self._asking.setdefault(key, set()).add(process)

    def take_out(self, process: Process) -> WaitingCommand | None:
        """Take a process out of its line; None: it stands in none."""
        command = self._commands.pop(process, None)
        if command is None:
            return None
        key = line_of(process)
        self._lines[key].remove(process)
        if not self._lines[key]:
            del self._lines[key]
        self._forget_asking(key, {process})
        return command

    def turns(self, key: GroupKey) -> list[Process]:
        """Return what has its turn in a line, the first one first."""
        line, limit = self._lines.get(key, ()), self.limits.get(key)
        room = len(line) if limit is None else limit - len(self._running.get(key, ()))
        return list(islice(line, max(0, room)))

    def asks(self, process: Process) -> None:
        """Note that a process that waits has asked for a place."""
        self._asking.setdefault(line_of(process), set()).add(process)

    def without_turn(self, key: GroupKey) -> list[Process]:
        """Return, once each, what has no turn in a line and may have asked for a place: it is to give that
        back.
        """
        asking = self._asking.get(key)
        if not asking or key not in self.limits:
            return []
        found = asking.difference(self.turns(key))
        self._forget_asking(key, found)
        return [process for process in self._lines.get(key, ()) if process in found] if found else []

    def move(self, process: Process, places: int) -> int | None:
        """Put a process so many places back in its line, or forward where that is negative.

        Return where it was.

        Of the two ends none is passed. None: it waits for no turn in a group.
        """
        key = _group(process)
        if key is None or process not in self._commands or key not in self.limits:
            return None
        line = self._lines[key]
        old = line.index(process)
        line.remove(process)
        line.insert(max(0, min(len(line), old + places)), process)
        return old

    def order(self) -> list[str]:
        """Return the ids of all that wait, line by line."""
        return [one.process_id for line in self._lines.values() for one in line]

    def views(self, principal: str) -> Mapping[str, GroupLine]:
        """Return the groups of a principal that run something, wait or have a limit, by name."""
        found = {*self.limits, *self._running, *self._lines}
        return {
            key[1]: GroupLine(
                limit=self.limits.get(key),
                running=len(self._running.get(key, ())),
                waiting=tuple(one.process_id for one in self._lines.get(key, ())),
            )
            for key in sorted(found)
            if key[0] == principal
        }

    def _forget_asking(self, key: GroupKey, processes: set[Process]) -> None:
        asking = self._asking.get(key)
        if asking is not None:
            asking -= processes
            if not asking:
                del self._asking[key]


def line_of(process: Process) -> GroupKey:
    """Return the line that a process stands in: its group's, or one of its own, which nothing limits."""
    return _group(process) or ("", process.process_id)


def _group(process: Process) -> GroupKey | None:
    group = process.group
    return None if group is None else (process.principal, group)
