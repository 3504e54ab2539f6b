"""Where the supervisor's state folder is: in its place, moved elsewhere, or deleted: `Home`."""

import os
import select

from outlive.core.layout import Layout
from outlive.keeper.common.spawn import spawn_keeper
from outlive.kernel.folder_identity import moved_to
from outlive.kernel.locks import holder_of, is_in_place
from outlive.kernel.state_files import is_server_wanted

_GUARDIAN_PATIENCE_MS = 5000  # the guardian was asked to end, which takes milliseconds; its lock ends with it


class Home:
    """The state folder and the lock in it that we hold."""

    def __init__(self, layout: Layout, lock: int, *, pid_lock: int, program: int) -> None:
        """Open the folder, so that it is found wherever it is moved to within its file system.

        Args:
            layout: The folder's path.
            lock: The descriptor that holds `supervisor.lock`.
            pid_lock: The descriptor of the record lock that we hold, for guardians that we spawn.
            program: The open program of shims, for them, too.

        Raises:
            OSError: The folder is gone meanwhile.
        """
        self._layout = layout
        self._lock = lock
        self._lock_path = layout.supervisor_lock
        held = os.fstat(lock)
        self._identity = (held.st_ino, held.st_dev)
        self.pid_lock = pid_lock
        self.program = program
        self._folder = os.open(layout.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._next = ""

    def is_here(self) -> bool:
        """Return whether the folder's path still leads to it (`locks.is_in_place`); one stat(2)."""
        try:
            found = os.stat(self._lock_path)
        except OSError:
            return False
        return (found.st_ino, found.st_dev) == self._identity

    def is_server_wanted(self) -> bool:
        """Return whether the folder's server has to be started again when it is gone."""
        return is_server_wanted(self._layout)

    def is_server(self, pid: int) -> bool:
        """Return whether a process holds the lock of the folder's server."""
        return holder_of(self._layout.server_lock) == pid

    def has_moved(self) -> bool:
        """Return whether the folder is at another path now.

        A copy does not count, and a deleted folder is at no path.
        """
        place = moved_to(self._folder)
        # In the right folder, the lock file may be another keeper's by now: only our own one proves that it
        # is ours.
        if place is None or not is_in_place(self._lock, Layout(place).supervisor_lock):
            return False
        self._next = place
        return True

    def leave(self) -> None:
        """Release both locks."""
        os.close(self._lock)
        os.close(self.pid_lock)

    def go_on(self, guardian: int) -> None:
        """Start the keeper of the folder's new path, after the locks were released.

        Do nothing if it was not moved.

        Args:
            guardian: The pid of the guardian that was asked to end; 0: there is none.
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
        spawn_keeper("guardian", self._next, "--first", program=self.program)
