"""Where shims come from: `ShimMaker` executes the program (`native/shim`), which the guardian was given open.

The guardian decides when, and how many.
"""

import errno
import os
import signal
from collections.abc import Callable

from outlive.keeper.common.spawn import LOCK_FLAG
from outlive.kernel.failpoints import hit

SHIM_LINK = 3  # the descriptor that a shim's link to the supervisor has
_PASSED_ON = ("OUTLIVE_FAILPOINT", "OUTLIVE_DEGRADE")
# fork(2) fails with these when the limit of the user or of a control group is reached, or memory is
# exhausted.
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM})


class ShimMaker:
    """Makes the guardian's shims; their pids go into `own`."""

    def __init__(
        self, state_dir: str, program: int, lock: int, own: set[int], *, log: Callable[[str], None]
    ) -> None:
        """Take the open program (`keeper.common.program`).

        Shims serve the supervisor: the process with the record lock `lock`.
        """
        self._program = program
        self._argv = ["outlive-shim", "shim", state_dir, LOCK_FLAG]
        self._env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._lock = lock
        self._own = own
        self._spawned: set[int] = set()
        self._log = log
        self._logged = ""

    def make(self, links: list[int]) -> str:
        """Make a shim for each link, and close the links here.

        Return why the program is of no use, "" if it is.

        Without room for processes links end, and the supervisor asks again.
        """
        hit("guardian.fork")
        trouble = ""
        try:
            for link in links:
                self._spawn(link)
            self._logged = ""
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._log_once(f"no more shims for now: {error.strerror}")
            else:
                trouble = self._trouble(f"it cannot be executed: {error.strerror}")
        for link in links:
            os.close(link)
        return trouble

    def _spawn(self, link: int) -> None:
        pid = os.posix_spawn(
            f"/proc/self/fd/{self._program}",
            self._argv,
            self._env,
            # The lock is the shim's standard input: a command's own input replaces it, so no command gets the
            # lock's file.
            file_actions=[(os.POSIX_SPAWN_DUP2, self._lock, 0), (os.POSIX_SPAWN_DUP2, link, SHIM_LINK)],
            setsigmask=(),
        )
        self._spawned.add(pid)
        self._own.add(pid)

    def ended(self, child: os.waitid_result) -> str:
        """Record the end of one of our children.

        Return why the program is of no use, if this end shows that, else "".
        """
        if child.si_pid not in self._spawned:
            return ""
        self._spawned.discard(child.si_pid)
        # A shim ends with 0 when it has nothing to hold, and ignores every signal that can be ignored. Any
        # other end, except by SIGKILL (the out-of-memory killer, a user), means that the program does not
        # work on this machine.
        has_exited = child.si_code == os.CLD_EXITED
        if child.si_status == (0 if has_exited else signal.SIGKILL):
            return ""
        return self._trouble(f"it ended with {'exit code' if has_exited else 'signal'} {child.si_status}")

    def _trouble(self, reason: str) -> str:
        self._log_once(f"the program of shims is of no use here: {reason}")
        return reason

    def _log_once(self, line: str) -> None:
        if line != self._logged:
            self._log(line)
        self._logged = line
