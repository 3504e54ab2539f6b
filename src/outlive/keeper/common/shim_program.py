"""The shim as a program of its own, where there is one for this machine: `ShimProgram` (decision 126).

The process that launches the keeper chooses the file (`SHIM_VARIABLE`); this module neither searches nor compiles it.
"""

import os
import signal

from outlive.keeper.common.spawn import LOCK_FLAG

# In the environment of the keeper's processes: the absolute path of the program, or anything else for none ("off").
SHIM_VARIABLE = "OUTLIVE_KEEPER_SHIM"
SHIM_LINK = 3  # the descriptor that its link to the supervisor has
_PASSED_ON = ("OUTLIVE_FAILPOINT", "OUTLIVE_DEGRADE")


class ShimProgram:
    """Spawns shims. `is_usable` while the program exists, until it once could not be executed or could not begin."""

    def __init__(self, state_dir: str, lock: int) -> None:
        """Take the path from the environment. Shims serve the supervisor: the process with the record lock `lock`."""
        self._lock = lock
        self.path = os.environ.get(SHIM_VARIABLE, "")
        self._is_wanted = self.path.startswith("/")
        self._argv = ["outlive-shim", "shim", state_dir, LOCK_FLAG]
        self._env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._spawned: set[int] = set()

    @property
    def is_usable(self) -> bool:
        """Whether shims can be the program now: it may still be compiled while the keeper already runs."""
        return self._is_wanted and os.path.exists(self.path)

    @property
    def is_awaited(self) -> bool:
        """Whether there should be a program, and it does not exist yet."""
        return self._is_wanted and not os.path.exists(self.path)

    def give_up(self) -> None:
        """Never use the program again."""
        self._is_wanted = False

    def spawn(self, link: int) -> int:
        """Start a shim on a link, which stays open here; return the shim's pid.

        Raises:
            OSError: The program cannot be executed.
        """
        pid = os.posix_spawn(
            self.path,
            self._argv,
            self._env,
            # The lock is the shim's standard input: a command's own input replaces it, so no command gets the lock's file.
            file_actions=[(os.POSIX_SPAWN_DUP2, self._lock, 0), (os.POSIX_SPAWN_DUP2, link, SHIM_LINK)],
            setsigmask=(),
        )
        self._spawned.add(pid)
        return pid

    def ended(self, child: os.waitid_result) -> str | None:
        """Record a process's end; return why the program is of no use, if this end shows that."""
        if child.si_pid not in self._spawned:
            return None
        self._spawned.discard(child.si_pid)
        # A shim ends with 0 when it has nothing to hold, and ignores every signal that can be ignored. Any other end, except
        # by SIGKILL (the out-of-memory killer, a user), means that the program does not work on this machine.
        if not self._is_wanted or (child.si_code == os.CLD_EXITED and child.si_status == 0):
            return None
        if child.si_code != os.CLD_EXITED and child.si_status == signal.SIGKILL:
            return None
        what = "exit code" if child.si_code == os.CLD_EXITED else "signal"
        return f"it ended with {what} {child.si_status}"
