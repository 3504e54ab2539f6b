"""Who lives below a keeper: `Ancestry`, told from nothing but /proc/PID/stat.

Guardian, supervisor and each command lead a POSIX session of their own, and shims stay in their guardian's. A process
belongs to the keeper's trees when it, or one of its ancestors, is in one of these sessions. A daemon that made a
session of its own is still below its shim, a subreaper; one whose shim was killed is mostly still in its command's
session. Nothing of another process's memory is read: a process could make that wait for ever.
"""

import os
from collections.abc import Callable, Collection

# O_NONBLOCK says what is true: procfs does not wait for anybody here.
_LOOK = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_MAX_DEPTH = 256  # deeper than any tree of people; a chain that changes while it is walked must end
_MAX_KNOWN = 4096


class Ancestor:
    """One process of a lineage, as /proc/PID/stat told it (proc_pid_stat(5)); `ticks` makes the pid an identity."""

    __slots__ = ("parent", "pid", "session", "ticks")

    def __init__(self, pid: int, *, parent: int, session: int, ticks: int) -> None:
        """Keep what was read."""
        self.pid = pid
        self.parent = parent
        self.session = session
        self.ticks = ticks


class Descent:
    """Whether a process lives in the keeper's trees (None: it is gone, or hidden), and what was looked at for that.

    `is_known`: it was judged before and found outside, and nobody but itself was looked at.
    """

    __slots__ = ("chain", "is_inside", "is_known")

    def __init__(self, chain: list[Ancestor], *, is_inside: bool | None, is_known: bool = False) -> None:
        """Keep all three."""
        self.is_inside = is_inside
        self.chain = chain
        self.is_known = is_known


class Ancestry:
    """Judges processes. Who was found outside stays so: ancestors do not change, only the first one can be lost."""

    def __init__(self, sessions: Callable[[Collection[int]], Collection[int]]) -> None:
        """Take what returns those of some POSIX sessions that are the keeper's, or a command's."""
        self._sessions = sessions
        self._outside: dict[
            tuple[int, int], bool
        ] = {}  # True: judged itself, not only passed on another's way up

    def judge(self, pid: int) -> Descent:
        """Tell whether a process lives in the keeper's trees."""
        first = _look(pid)
        if first is None:
            return Descent([], is_inside=None)
        if (pid, first.ticks) in self._outside:
            is_known = self._outside.pop((pid, first.ticks))
            self._outside[pid, first.ticks] = True
            return Descent([], is_inside=False, is_known=is_known)
        chain = lineage(first, known=self._outside)
        if chain is None:
            return Descent([], is_inside=None)
        if self._sessions({one.session for one in chain} - {0}):  # 0: one that a pid namespace hides
            return Descent(chain, is_inside=True)
        for one in reversed(chain):
            self._outside[one.pid, one.ticks] = one is first
        while len(self._outside) > _MAX_KNOWN:
            self._outside.pop(next(iter(self._outside)))
        return Descent(chain, is_inside=False)

    def forget(self, pid: int) -> None:
        """Take back that a process is outside: something else has told so."""
        for key in [key for key in self._outside if key[0] == pid]:
            del self._outside[key]

    def forget_all(self) -> None:
        """Judge everybody anew: sessions are known now that were not before."""
        self._outside.clear()


def ancestry(pid: int) -> list[Ancestor] | None:
    """Return a process and its ancestors, as `lineage`; None also where it is gone, or hidden."""
    first = _look(pid)
    return None if first is None else lineage(first)


def lineage(first: Ancestor, *, known: Collection[tuple[int, int]] = ()) -> list[Ancestor] | None:
    """Return a process and its ancestors, up to the first of the machine, or to one that is `known`.

    None when the chain broke while it was walked.
    """
    chain = [first]
    while (parent := chain[-1].parent) > 1:
        found = _look(parent)
        if found is None or found.ticks > chain[-1].ticks or len(chain) > _MAX_DEPTH:
            # Its parent has ended meanwhile, and a younger process may have that pid (parents are older, also those
            # that adopt: prctl(2) PR_SET_CHILD_SUBREAPER). Whose child it is now is told by another look.
            again = _look(chain[-1].pid)
            if again is None or again.ticks != chain[-1].ticks or again.parent == parent:
                return None
            chain[-1] = again
            continue
        if (found.pid, found.ticks) in known:
            break
        chain.append(found)
    return chain


def _look(pid: int) -> Ancestor | None:
    if pid <= 0:  # of another pid namespace
        return None
    try:
        fd = os.open(f"/proc/{pid}/stat", _LOOK)
    except OSError:
        return None
    try:
        raw = os.read(fd, 1024)
    except OSError:
        return None
    finally:
        os.close(fd)
    fields = raw[raw.rindex(b")") + 2 :].split(None, 20)  # the name may contain blanks and parentheses
    return Ancestor(pid, parent=int(fields[1]), session=int(fields[3]), ticks=int(fields[19]))
