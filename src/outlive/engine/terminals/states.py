"""Whether a terminal takes a command: `States`, read from its newest marks, and what was typed a moment ago."""

import asyncio

from outlive.core.errors import InvalidState
from outlive.core.lifecycle import State
from outlive.core.terminal import TerminalNote, TerminalState
from outlive.engine.process import Process
from outlive.engine.terminals.output import end_of, shell_state

_TAKEN_S = 15.0  # what was typed is taken this soon, or it was something that leaves no trace


class States:
    """The states of one host's terminals. Only what was typed and not taken yet is kept here, for some seconds."""

    def __init__(self) -> None:
        """Nothing was typed."""
        # Process id -> where the output ended, and until when that counts.
        self._typed: dict[str, tuple[int, float]] = {}

    def of(self, process: Process, note: TerminalNote) -> TerminalState:
        """Return the state of a terminal."""
        if process.is_ended:
            self._typed.pop(process.process_id, None)
            return "closed"
        if process.state is State.QUEUED:
            return "unknown"
        found = shell_state(process, note)
        typed = self._typed.get(process.process_id)
        if typed is not None and (
            found.taken_at >= typed[0] or asyncio.get_running_loop().time() >= typed[1]
        ):
            del self._typed[process.process_id]
            typed = None
        return "ready" if found.is_ready and typed is None else "busy"

    def check_ready(self, process: Process, note: TerminalNote) -> None:
        """Let a command pass.

        Raises:
            InvalidState: `terminal_busy`.
        """
        if self.of(process, note) != "ready":
            more = shell_state(process, note).wants_more
            what = "an unfinished command waits there for its rest" if more else "something runs there"
            raise InvalidState("terminal_busy", f"The terminal is busy: {what}.")

    def typed(self, process: Process) -> None:
        """Remember that a command is being typed: until the shell has taken it, another one is refused."""
        self._typed[process.process_id] = (end_of(process), asyncio.get_running_loop().time() + _TAKEN_S)
