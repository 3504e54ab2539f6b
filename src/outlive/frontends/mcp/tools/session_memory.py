"""What a server remembers of MCP sessions while it lives: output that was shown, and calls that hosts gave up
on.

Nothing depends on it: after a restart output may be shown once more, and a command goes on in any case.
What is noted here is left out of later answers, so the error that must not happen is a note of output that no
host has received. A note too few only costs tokens: the same lines are shown once more.
"""

from collections import OrderedDict

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.identity import ProcessId
from outlive.frontends.mcp.tools.calls import Caller

# An agent's session has some hundred processes; those of a thousand sessions are 20 MB at the most.
_MAX_SESSIONS = 1000
_MAX_PROCESSES = 200
_MAX_ABANDONED = 1000
_MAX_CLIENTS = 1000  # a name is the client's own claim, and each claim is a word here
# When a bound is reached the oldest entry goes: its output is shown from the beginning again.


class SessionMemory:
    """What each session has seen. Only the event loop uses it."""

    def __init__(self) -> None:
        # Sessions, and the processes of each, least recently shown first. A cursor is a place in the log,
        # never a copy of output.
        self._shown: OrderedDict[str, OrderedDict[ProcessId, Cursor]] = OrderedDict()
        self._idle_waits: OrderedDict[str, int] = OrderedDict()
        self._over: OrderedDict[str, None] = OrderedDict()
        self._told_of_cd: OrderedDict[str, None] = OrderedDict()
        # Processes by id, which no other principal can name: the session that gave one up may be over when it
        # is found again.
        self._given_up: OrderedDict[ProcessId, None] = OrderedDict()
        # By principal and client, not by session: what is learned is a habit of the program, and holds for
        # its next session.
        self._patient: OrderedDict[str, None] = OrderedDict()

    def shown(self, caller: Caller, process_id: ProcessId) -> Cursor:
        """Return up to where a session has seen a process's output."""
        seen = self._shown.get(_session_of(caller))
        return BEGINNING if seen is None else seen.get(process_id, BEGINNING)

    def was_over(self, caller: Caller, process_id: ProcessId) -> bool:
        """Tell whether a session was told of a process's end before."""
        return f"{_session_of(caller)} {process_id}" in self._over

    def note_cd(self, caller: Caller) -> bool:
        """Tell whether this is the first `cd` of a session that changes nothing."""
        name = _session_of(caller)
        is_first = name not in self._told_of_cd
        self._told_of_cd[name] = None
        if len(self._told_of_cd) > _MAX_SESSIONS:
            self._told_of_cd.popitem(last=False)
        return is_first

    def note_shown(
        self, caller: Caller, process_id: ProcessId, start: Cursor, cursor: Cursor, *, is_over: bool = False
    ) -> None:
        """Remember that output from `start` to `cursor` was shown, and whether the end was told with it.

        An earlier part that was read again changes nothing. Nor does a part further on: what lies before it
        was not shown yet, and the next answer begins there.
        """
        if is_over:
            self._over[f"{_session_of(caller)} {process_id}"] = None
            if len(self._over) > _MAX_SESSIONS:
                self._over.popitem(last=False)
        seen = self._shown.setdefault(_session_of(caller), OrderedDict())
        known = seen.get(process_id, BEGINNING)
        if start.stdout > known.stdout or start.stderr > known.stderr:
            return
        # Each stream for itself: one of two pages may end further on in stdout, the other in stderr.
        seen[process_id] = Cursor(max(known.stdout, cursor.stdout), max(known.stderr, cursor.stderr))
        seen.move_to_end(process_id)
        self._shown.move_to_end(_session_of(caller))
        if len(seen) > _MAX_PROCESSES:
            seen.popitem(last=False)
        if len(self._shown) > _MAX_SESSIONS:
            self._shown.popitem(last=False)

    def count_idle_wait(self, caller: Caller, process_id: ProcessId) -> int:
        """Return how many waits in a row a session has made for a process without any news, this one among
        them.
        """
        name = f"{_session_of(caller)} {process_id}"
        count = self._idle_waits[name] = self._idle_waits.pop(name, 0) + 1
        if len(self._idle_waits) > _MAX_SESSIONS:
            self._idle_waits.popitem(last=False)
        return count

    def forget_idle_waits(self, caller: Caller, process_id: ProcessId) -> None:
        """Begin to count anew: there was something to show."""
        self._idle_waits.pop(f"{_session_of(caller)} {process_id}", None)

    def give_up(self, process_id: ProcessId) -> None:
        """Remember that a host gave up the call which had started a process, and that the process goes on."""
        self._given_up[process_id] = None
        if len(self._given_up) > _MAX_ABANDONED:
            self._given_up.popitem(last=False)

    def take_given_up(self, process_id: ProcessId) -> bool:
        """Tell whether a host gave up on a process, once."""
        # The stored value is None, so that True stands for "not there".
        return self._given_up.pop(process_id, True) is None

    def note_patience(self, caller: Caller) -> None:
        """Remember that a client has waited longer than it would have without progress."""
        if caller.client:
            self._patient[_client_of(caller)] = None
            self._patient.move_to_end(_client_of(caller))
            if len(self._patient) > _MAX_CLIENTS:
                self._patient.popitem(last=False)

    def is_patient(self, caller: Caller) -> bool:
        """Tell whether a client has waited so long before."""
        name = _client_of(caller)
        if name in self._patient:
            self._patient.move_to_end(name)  # in use: others are forgotten before it
            return True
        return False


def _client_of(caller: Caller) -> str:
    return f"{caller.principal} {caller.client}"


def _session_of(caller: Caller) -> str:
    """Return what tells sessions apart.

    A client without an MCP session and without a relay is known by its name.
    """
    return f"{_client_of(caller)} {caller.project_root} {caller.host_session}"
