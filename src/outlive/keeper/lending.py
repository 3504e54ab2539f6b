"""Descriptors that were lent for the standard input of a command that is about to start: `Lending`.

Whoever starts a command from a terminal or a pipeline hands its own standard input over, and the command reads it
itself: nobody in between takes a byte more than the command does. It is offered here before the start, and stays with its
lender until the server asks for that start: for a process id that the server has not announced so nothing is taken. An offer
is forgotten when whoever made it goes away before that.

How many offers wait is bounded: for each process that lends, and apart for those that live in a tree of ours, so that a command
cannot take the room of the people outside, nor the place of what another process has lent.
"""

from collections.abc import Callable

__all__ = ["Lending"]

_MAX_LENT = 256  # more starts than that are not on their way at once
_MAX_INSIDE = 64
_MAX_EACH = 16


class _Offer:
    """One descriptor that is to be had, and what is known of its lender."""

    __slots__ = ("fetch", "is_inside", "lender", "pid")

    def __init__(self, lender: object, fetch: Callable[[], int], *, pid: int, is_inside: bool) -> None:
        """Keep all four."""
        self.lender = lender
        self.fetch = fetch
        self.pid = pid
        self.is_inside = is_inside


class Lending:
    """Offers by process id, each with its lender."""

    def __init__(self) -> None:
        """Begin with none."""
        self._offers: dict[str, _Offer] = {}

    def lend(
        self, lender: object, process_id: str, fetch: Callable[[], int], *, pid: int, is_inside: bool
    ) -> bool:
        """Note an offer for the start of a process; False where there is no room.

        Args:
            lender: The connection; what it offers is forgotten with it.
            process_id: What it is for. What the same process offered for it before is forgotten.
            fetch: Returns the descriptor, which is its caller's then; -1 where there is none after all.
            pid: The process that lends.
            is_inside: It lives in a tree that we started.
        """
        before = self._offers.get(process_id)
        if before is not None and (before.pid, before.is_inside) != (pid, is_inside):
            return False  # somebody else's, which is waited for
        alike = [one for one in self._offers.values() if one.is_inside == is_inside and one is not before]
        if len(alike) >= (_MAX_INSIDE if is_inside else _MAX_LENT):
            return False
        if sum(one.pid == pid for one in alike) >= _MAX_EACH:
            return False
        self._offers[process_id] = _Offer(lender, fetch, pid=pid, is_inside=is_inside)
        return True

    def take(self, process_id: str) -> int | None:
        """Return the descriptor that is lent for a process which the server starts; None without one."""
        offer = self._offers.pop(process_id, None)
        fd = -1 if offer is None else offer.fetch()
        return fd if fd >= 0 else None

    def forget(self, lender: object) -> None:
        """Forget what `lender` offered and nobody took: it closes it itself."""
        for process_id in [name for name, one in self._offers.items() if one.lender is lender]:
            del self._offers[process_id]
