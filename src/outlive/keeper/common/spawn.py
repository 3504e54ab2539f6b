"""How the keeper's own processes are spawned: with a small environment, without site packages, never by forking a large process.

`ShimProgram` spawns the shim that is a program of its own, where there is one for this machine (decision 126). The process that
launches the keeper chooses its file (`SHIM_VARIABLE`); this module neither searches nor compiles it.

At a failpoint, `hit("shim.spawned")`, a test may kill the process. OUTLIVE_FAILPOINT="name@token-file" in the keeper's environment
arms one. The token file is removed when the process dies, so its successor does not die at the same point again. Never armed in
normal operation: then a call costs one comparison.

Commands are started elsewhere: by their shims (`guardian.shim_files`, `sandbox.confine`).
"""

import os
import resource
import signal
import sys

_ENTRY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
# What a server that the guardian starts needs besides: the user, and which configuration files count.
_OF_SERVERS = ("USER", "LOGNAME", "SHELL", "XDG_CONFIG_HOME", "OUTLIVE_CONFIG")
_PASSED_PREFIX = "OUTLIVE_KEEPER_"
# How many descriptors a command may open unless it asks for more: the soft limit of the process that started our first
# process. Server and supervisor raise their own limit, and a command must not inherit that.
SOFT_LIMIT_VARIABLE = "OUTLIVE_KEEPER_SOFT_NOFILE"
# Set in the server's unit: the keeper is started by another unit, never by the server.
EXTERNAL_VARIABLE = "OUTLIVE_KEEPER_EXTERNAL"
# There, too: the path of the unit's file (`discovery.ownership`).
SERVICE_VARIABLE = "OUTLIVE_SERVICE_UNIT"
# In the command line of a process whose standard input is the supervisor's record lock (`common.lock_proof`).
LOCK_FLAG = "--lock-at-0"
_TEST_ONLY = ("OUTLIVE_FAILPOINT", "OUTLIVE_DEGRADE", "TEST_RUN_OF_OUTLIVE")


def keeper_argv(role: str, state_dir: str, *flags: str) -> list[str]:
    """Return the command line of one of the keeper's processes."""
    return [sys.executable, "-S", "-s", "-P", _ENTRY, role, state_dir, *flags]


def keeper_environment(role: str) -> dict[str, str]:
    """Return the environment of one of the keeper's processes, without any of the server's secrets.

    The guardian gets a heap that its forks share for the most part: malloc instead of Python's arenas, and no cache of freed
    chunks. Such a cache would serve a shim's next allocations from shared pages, which the kernel then copies: 35 KB a shim
    (decision 23). The supervisor is never forked; for it these settings would only be slow.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name in _OF_SERVERS or name in _TEST_ONLY or name.startswith(_PASSED_PREFIX)
    }
    env.setdefault(SOFT_LIMIT_VARIABLE, str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    if role == "guardian":
        env |= {
            "PYTHONMALLOC": "malloc",
            "MALLOC_ARENA_MAX": "1",
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
        }
    return env


def remember_soft_limit() -> None:
    """Note this process's soft limit of open files for the keeper's processes, before the limit is raised."""
    os.environ.setdefault(SOFT_LIMIT_VARIABLE, str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))


def restore_soft_limit() -> None:
    """Return to the noted limit; for the guardian, whose forks start the commands."""
    noted = os.environ.get(SOFT_LIMIT_VARIABLE, "")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if noted.isdigit() and (hard == resource.RLIM_INFINITY or int(noted) <= hard):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(noted), hard))


def spawn_detached(argv: list[str], env: dict[str, str]) -> int:
    """Spawn a program in its own POSIX session, with descriptors 0 to 2 and no others; return its pid."""
    return os.posix_spawn(argv[0], argv, env, setsid=True, setsigmask=())


def spawn_with_lock(role: str, state_dir: str, lock: int) -> int:
    """Spawn one of the keeper's processes with the open file of the supervisor's record lock; return its pid.

    The open file is handed on because a path proves nothing: an `open` or `guarded` command may put another file there.
    """
    argv = keeper_argv(role, state_dir, LOCK_FLAG)
    actions = [(os.POSIX_SPAWN_DUP2, lock, 0)]
    env = keeper_environment(role)
    return os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True, setsigmask=())


def take_handed_lock() -> int:
    """Return a descriptor of the lock that this process was spawned with, -1 without one.

    To be called before descriptor 0 becomes something else, and before the lock is taken.
    """
    return os.dup(0) if LOCK_FLAG in sys.argv else -1


# The name of the armed failpoint, and the token file.
armed, _, _TOKEN = os.environ.get("OUTLIVE_FAILPOINT", "").partition("@")


def hit(name: str) -> None:
    """Die by SIGKILL if `name` is the one that is `armed` and its token file is still there."""
    if name != armed:
        return
    try:
        os.unlink(_TOKEN)
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


# In the environment of the keeper's processes: the absolute path of the program, or anything else for none ("off").
SHIM_VARIABLE = "OUTLIVE_KEEPER_SHIM"
SHIM_LINK = 3  # the descriptor that its link to the supervisor has
_PASSED_TO_SHIMS = ("OUTLIVE_FAILPOINT", "OUTLIVE_DEGRADE")


class ShimProgram:
    """Spawns shims. `is_usable` while the program exists, until it once could not be executed or could not begin."""

    def __init__(self, state_dir: str, lock: int) -> None:
        """Take the path from the environment. Shims serve the supervisor: the process with the record lock `lock`."""
        self._lock = lock
        self.path = os.environ.get(SHIM_VARIABLE, "")
        self._is_wanted = self.path.startswith("/")
        self._argv = ["outlive-shim", "shim", state_dir, LOCK_FLAG]
        self._env = {name: os.environ[name] for name in _PASSED_TO_SHIMS if name in os.environ}
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
