"""Descriptors that were lent for the standard input of a command that is about to start: `PassedStdin`.

Whoever starts a command from a terminal or a pipeline hands its own standard input over, and the command reads it
itself: nobody in between takes a byte more than the command does. It is offered here before the start, and stays with its
lender until the server asks for that start: for a process id that the server has not announced so nothing is taken. An offer
is forgotten when whoever made it goes away before that.

How many offers wait is bounded: outside for each process that lends, inside of commands for each command's whole tree, and
for all of both kinds. The first offer of each tree always has its place. So a command takes neither the room of the people
outside, nor that of another command, however many children it has.
"""

from collections.abc import Callable

_MAX_LENT = 256  # more starts than that are not on their way at once
_MAX_INSIDE = 64
_MAX_EACH = 16  # of a process outside, and of a tree


class _Offer:
    """One descriptor that is to be had, and what is known of its lender."""

    __slots__ = ("fetch", "lender", "pid", "tree")

    def __init__(self, lender: object, fetch: Callable[[], int], *, pid: int, tree: bytes | None) -> None:
        """Keep all four."""
        self.lender = lender
        self.fetch = fetch
        self.pid = pid
        self.tree = tree


class PassedStdin:
    """Offers by process id, each with its lender."""

    def __init__(self) -> None:
        """Begin with none."""
        self._offers: dict[str, _Offer] = {}

    def lend(
        self, lender: object, process_id: str, fetch: Callable[[], int], *, pid: int, tree: bytes | None
    ) -> bool:
        """Note an offer for the start of a process; False where there is no room.

        Args:
            lender: The connection; what it offers is forgotten with it.
            process_id: What it is for. What the same process offered for it before is forgotten.
            fetch: Returns the descriptor, which is its caller's then; -1 where there is none after all.
            pid: The process that lends.
            tree: Of which process of ours it is a descendant (`Client.tree`); None outside.
        """
        before = self._offers.get(process_id)
        if before is not None and (before.pid, before.tree) != (pid, tree):
            return False  # somebody else's, which is waited for
        others = [one for one in self._offers.values() if one is not before]
        if tree is None:
            alike = [one for one in others if one.tree is None]
            has_room = len(alike) < _MAX_LENT and sum(one.pid == pid for one in alike) < _MAX_EACH
        else:
            alike = [one for one in others if one.tree is not None]
            of_tree = sum(one.tree == tree for one in alike)
            has_room = not of_tree or (of_tree < _MAX_EACH and len(alike) < _MAX_INSIDE)
        if has_room:
            self._offers[process_id] = _Offer(lender, fetch, pid=pid, tree=tree)
        return has_room

    def take(self, process_id: str) -> int | None:
        """Return the descriptor that is lent for a process which the server starts; None without one."""
        offer = self._offers.pop(process_id, None)
        fd = -1 if offer is None else offer.fetch()
        return fd if fd >= 0 else None

    def forget(self, lender: object) -> None:
        """Forget what `lender` offered and nobody took: it closes it itself."""
        for process_id in [name for name, one in self._offers.items() if one.lender is lender]:
            del self._offers[process_id]
