"""How the keeper's own processes are spawned: with a small environment, without site packages, never by forking a large process.

Commands are started elsewhere: by their shims (`common.plain_spawn`, `sandbox.confine`).
"""

import os
import resource
import sys

_ENTRY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
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
        if name in _PASSED_ON or name in _TEST_ONLY or name.startswith(_PASSED_PREFIX)
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
