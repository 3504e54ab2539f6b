"""Where shims come from: `ShimMaker` forks them from the guardian, or executes a program (`common.spawn`).

The guardian decides when shims are made and how many; what a shim does is in `shim`.
"""

import errno
import os
from collections.abc import Callable, Collection

from outlive.keeper.common.spawn import ShimProgram, hit
from outlive.keeper.guardian import shim

# fork(2) fails with these when the limit of the user or of a control group is reached, or memory is exhausted.
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM})


class ShimMaker:
    """Makes the guardian's shims; their pids go into `own`."""

    def __init__(
        self,
        own_shim: shim.Shim,
        program: ShimProgram,
        own: set[int],
        *,
        log: Callable[[str], None],
        given_up: Callable[[], None],
    ) -> None:
        """Take the object that forks become, and the program; `given_up` is called when the program is found to be of no use."""
        self._own_shim = own_shim
        self._program = program
        self._own = own
        self._log = log
        self._given_up = given_up
        self._has_room = True  # whether the last attempt found room for a process
        if program.is_awaited:
            log(f"{program.path} is no shim here (it is not there yet): forking until it is")

    @property
    def executes(self) -> bool:
        """Whether there is a program now."""
        return self._program.is_usable

    def make(self, links: list[int], not_for_them: Collection[int], *, execute: bool) -> None:
        """Make a shim for each link, and close the links here. Without room for processes links end; the supervisor asks again.

        Args:
            links: Descriptors.
            not_for_them: Descriptors of the guardian that a fork has to close.
            execute: Execute the program as long as that is possible; otherwise fork.
        """
        hit("guardian.fork")
        while links and execute and self.executes:
            try:
                self._own.add(self._program.spawn(links[0]))
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._lack_room(links, error)
                    return
                # Any other error is about the program itself: fork from now on.
                self._give_up(error.strerror or repr(error))
            else:
                os.close(links.pop(0))
        self._fork(links, not_for_them)

    def _lack_room(self, links: list[int], error: OSError) -> None:
        """Close links for which no shim can be made; logged once, until there is room again."""
        if self._has_room:
            self._log(f"no more shims for now: {error.strerror}")
        self._has_room = False
        for link in links:
            os.close(link)

    def _fork(self, links: list[int], not_for_them: Collection[int]) -> None:
        """Fork all in one go: each page that the guardian writes between two forks is one that the children cannot share."""
        for link in links:
            os.set_blocking(link, False)
        for link in links:
            try:
                pid = os.fork()
            except OSError as error:
                self._lack_room(links, error)  # closes our ends only: shims that were made keep theirs
                return
            if not pid:
                # In a child. A sibling's link that stayed open here would hide the sibling's death from the supervisor.
                self._become_shim(link, {*not_for_them, *links} - {link})
            self._own.add(pid)
        for link in links:
            os.close(link)
        self._has_room = True

    def _become_shim(self, link: int, not_ours: Collection[int]) -> None:
        try:
            self._own_shim.run(link, not_ours)
        except BaseException as error:  # noqa: BLE001 - a forked child must never return into the guardian's loop
            self._log(f"shim failed: {error!r}")
        finally:
            os._exit(0)

    def ended(self, child: os.waitid_result) -> None:
        """Record the end of one of our children: it may show that the program is of no use."""
        if (reason := self._program.ended(child)) is not None:
            self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        self._log(f"{self._program.path} is no shim here ({reason}): forking instead")
        self._program.give_up()
        self._given_up()
