"""How the keeper's own processes are spawned: with a small environment, without site packages, never by
forking a large process.

Shims are a program of their own (decision 126). The process that launches the keeper opens it
(`common.program`), and each of the keeper's processes hands the open file to the next one.

Commands are started elsewhere: by their shims.
"""

import fcntl
import os
import resource
import sys

_ENTRY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "__main__.py")
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
# What a server that the guardian starts needs besides: the user, and which configuration files count.
_OF_SERVERS = ("USER", "LOGNAME", "SHELL", "XDG_CONFIG_HOME", "OUTLIVE_CONFIG")
_PASSED_PREFIX = "OUTLIVE_KEEPER_"
# How many descriptors a command may open unless it asks for more: the soft limit of the process that started
# our first process. Server and supervisor raise their own limit, and a command must not inherit that.
SOFT_LIMIT_VARIABLE = "OUTLIVE_KEEPER_SOFT_NOFILE"
# Set in the server's unit: the keeper is started by another unit, never by the server.
EXTERNAL_VARIABLE = "OUTLIVE_KEEPER_EXTERNAL"
# There, too: the path of the unit's file (`discovery.ownership`).
SERVICE_VARIABLE = "OUTLIVE_SERVICE_UNIT"
# The absolute path of a program that takes the place of this installation's; for the process that launches
# the keeper.
SHIM_VARIABLE = "OUTLIVE_KEEPER_SHIM"
# In the command line of a process that was given the open program of shims: behind it, the descriptor.
PROGRAM_FLAG = "--program-at="
PROGRAM_AT = 3
_ABOVE_A_SHIMS = 10  # the program's file lies above the descriptors that are put into a shim's places
# In the command line of a process whose standard input is the supervisor's record lock (`kernel.lock_proof`).
LOCK_FLAG = "--lock-at-0"
_TEST_ONLY = ("OUTLIVE_FAILPOINT", "OUTLIVE_DEGRADE", "TEST_RUN_OF_OUTLIVE")


def keeper_argv(role: str, state_dir: str, *flags: str) -> list[str]:
    """Return the command line of one of the keeper's processes."""
    return [sys.executable, "-S", "-s", "-P", _ENTRY, role, state_dir, *flags]


def keeper_environment() -> dict[str, str]:
    """Return the environment of one of the keeper's processes, without any of the server's secrets."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name in _OF_SERVERS or name in _TEST_ONLY or name.startswith(_PASSED_PREFIX)
    }
    env.setdefault(SOFT_LIMIT_VARIABLE, str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    return env


def remember_soft_limit() -> None:
    """Note this process's soft limit of open files for the keeper's processes, before the limit is raised."""
    os.environ.setdefault(SOFT_LIMIT_VARIABLE, str(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))


def restore_soft_limit() -> None:
    """Return to the noted limit; for the guardian, whose shims start the commands."""
    noted = os.environ.get(SOFT_LIMIT_VARIABLE, "")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if noted.isdigit() and (hard == resource.RLIM_INFINITY or int(noted) <= hard):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(noted), hard))


def spawn_keeper(role: str, state_dir: str, *flags: str, program: int, lock: int = -1) -> int:
    """Spawn one of the keeper's processes in its own POSIX session; return its pid.

    It gets the open program of shims and, where there is one, the open file of the supervisor's record lock:
    a path proves nothing, because an `open` or `guarded` command may put another file there.
    """
    argv = keeper_argv(role, state_dir, *flags)
    actions = []
    if lock >= 0:
        argv.append(LOCK_FLAG)
        actions.append((os.POSIX_SPAWN_DUP2, lock, 0))
    if program >= 0:
        argv.append(f"{PROGRAM_FLAG}{PROGRAM_AT}")
        actions.append((os.POSIX_SPAWN_DUP2, program, PROGRAM_AT))
    env = keeper_environment()
    return os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True, setsigmask=())


def take_handed_lock() -> int:
    """Return a descriptor of the lock that this process was spawned with, -1 without one.

    To be called before descriptor 0 becomes something else, and before the lock is taken.
    """
    return os.dup(0) if LOCK_FLAG in sys.argv else -1


def take_handed_program() -> int:
    """Return a descriptor of the program of shims that this process was given, -1 without one."""
    for word in sys.argv:
        if word.startswith(PROGRAM_FLAG):
            handed = int(word.removeprefix(PROGRAM_FLAG))
            program = fcntl.fcntl(handed, fcntl.F_DUPFD_CLOEXEC, _ABOVE_A_SHIMS)
            os.close(handed)  # it was left open for this process alone
            return program
    return -1
