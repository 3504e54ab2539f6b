"""Where the supervisor's state folder lies: here, elsewhere since somebody moved it, or nowhere any more: `Home`."""

import os
import select

from outlive.core.layout import Layout
from outlive.keeper.common.folder_identity import moved_to
from outlive.keeper.common.locks import is_in_place
from outlive.keeper.common.spawn import keeper_argv, keeper_environment, spawn_detached

_GUARDIAN_PATIENCE_MS = 5000  # it has been told to end, and its lock goes with it


class Home:
    """The state folder and the lock in it that we hold."""

    def __init__(self, layout: Layout, lock: int, *, pid_lock: int) -> None:
        """Open the folder, so that it is found again wherever it is moved to within its file system.

        Args:
            layout: Where it lies.
            lock: The descriptor that holds `supervisor.lock`.
            pid_lock: The descriptor of the record lock that we hold, for guardians that we spawn.

        Raises:
            OSError: It has gone meanwhile.
        """
        self._layout = layout
        self._lock = lock
        self.pid_lock = pid_lock
        self._folder = os.open(layout.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._next = ""

    def is_here(self) -> bool:
        """Tell whether the folder's path still leads to it; one stat(2)."""
        return is_in_place(self._lock, self._layout.supervisor_lock)

    def has_moved(self) -> bool:
        """Tell whether it lies at another path now: that of a copy is none, and a deleted one has none."""
        place = moved_to(self._folder)
        if place is None or not is_in_place(self._lock, Layout(place).supervisor_lock):
            return False
        self._next = place
        return True

    def leave(self) -> None:
        """Let go of both locks."""
        os.close(self._lock)
        os.close(self.pid_lock)

    def go_on(self, guardian: int) -> None:
        """Start the keeper of the new place, once we have let go of the locks; nothing where there is none.

        Args:
            guardian: The pid of the one that was told to end; 0: none.
        """
        if not self._next:
            return
        if guardian:
            try:
                pidfd = os.pidfd_open(guardian)
            except ProcessLookupError:
                pass
            else:
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                poll.poll(_GUARDIAN_PATIENCE_MS)
        argv = keeper_argv("guardian", self._next, "--first")
        spawn_detached(argv, keeper_environment("guardian"))
