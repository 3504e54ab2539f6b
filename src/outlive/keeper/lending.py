"""Descriptors that were lent for the standard input of a command that is about to start: `Lending`.

Whoever starts a command from a terminal or a pipeline hands its own standard input over, and the command reads it
itself: nobody in between takes a byte more than the command does. Such a descriptor waits here for its start; it is
let go of when whoever lent it goes away before that.
"""

import os

__all__ = ["Lending"]

_MAX_LENT = 256  # more starts than that are not on their way at once


class Lending:
    """Descriptors by process id, each with its lender."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lent: dict[str, tuple[object, int]] = {}

    def lend(self, lender: object, process_id: str, fd: int) -> bool:
        """Take `fd` over for the start of a process; False (and nothing is taken) when too many wait."""
        if len(self._lent) >= _MAX_LENT:
            return False
        before = self.take(process_id)
        if before is not None:
            os.close(before)
        self._lent[process_id] = (lender, fd)
        return True

    def take(self, process_id: str) -> int | None:
        """Return the descriptor that was lent for a process, which is the caller's from now on; None without one."""
        _, fd = self._lent.pop(process_id, (None, None))
        return fd

    def forget(self, lender: object) -> None:
        """Close what `lender` lent and nobody took."""
        for process_id in [name for name, (who, _) in self._lent.items() if who is lender]:
            fd = self.take(process_id)
            if fd is not None:
                os.close(fd)
