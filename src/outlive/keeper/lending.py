"""Descriptors that were lent for the standard input of a command that is about to start: `Lending`.

Whoever starts a command from a terminal or a pipeline hands its own standard input over, and the command reads it
itself: nobody in between takes a byte more than the command does. Such a descriptor waits here for its start; it is
let go of when whoever lent it goes away before that.

How much waits is bounded: for each process that lends, and apart for those that live in a tree of ours, so that a command
cannot take the room of the people outside, nor the descriptor that another process has lent.
"""

import os

__all__ = ["Lending"]

_MAX_LENT = 256  # more starts than that are not on their way at once
_MAX_INSIDE = 64
_MAX_EACH = 16


class _Loan:
    """One descriptor, and what is known of its lender."""

    __slots__ = ("fd", "is_inside", "lender", "pid")

    def __init__(self, lender: object, fd: int, *, pid: int, is_inside: bool) -> None:
        """Keep all four."""
        self.lender = lender
        self.fd = fd
        self.pid = pid
        self.is_inside = is_inside


class Lending:
    """Descriptors by process id, each with its lender."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lent: dict[str, _Loan] = {}

    def lend(self, lender: object, process_id: str, fd: int, *, pid: int, is_inside: bool) -> bool:
        """Take `fd` over for the start of a process; False (and nothing is taken) where there is no room.

        Args:
            lender: The connection; what it lent is closed with it.
            process_id: What it is for. What the same process lent for it before is closed.
            fd: The descriptor, which is ours from now on.
            pid: The process that lends.
            is_inside: It lives in a tree that we started.
        """
        before = self._lent.get(process_id)
        if before is not None and (before.pid, before.is_inside) != (pid, is_inside):
            return False  # somebody else's, which is waited for
        alike = [one for one in self._lent.values() if one.is_inside == is_inside and one is not before]
        if len(alike) >= (_MAX_INSIDE if is_inside else _MAX_LENT):
            return False
        if sum(one.pid == pid for one in alike) >= _MAX_EACH:
            return False
        if before is not None:
            os.close(before.fd)
        self._lent[process_id] = _Loan(lender, fd, pid=pid, is_inside=is_inside)
        return True

    def take(self, process_id: str) -> int | None:
        """Return the descriptor that was lent for a process, which is the caller's from now on; None without one."""
        loan = self._lent.pop(process_id, None)
        return None if loan is None else loan.fd

    def forget(self, lender: object) -> None:
        """Close what `lender` lent and nobody took."""
        for process_id in [name for name, one in self._lent.items() if one.lender is lender]:
            fd = self.take(process_id)
            if fd is not None:
                os.close(fd)
