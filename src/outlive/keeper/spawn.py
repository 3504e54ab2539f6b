"""How the keeper's processes are spawned: small environment, no site packages, never a fork of a large process."""

import os
import sys

__all__ = ["keeper_argv", "keeper_environment", "spawn_detached"]

_ENTRY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
_PASSED_PREFIX = "OUTLIVE_KEEPER_"
_TEST_ONLY = ("OUTLIVE_FAILPOINT", "OUTLIVE_DEGRADE")


def keeper_argv(role: str, state_dir: str, *flags: str) -> list[str]:
    """Return the command line of one of the keeper's processes."""
    return [sys.executable, "-S", "-s", "-P", _ENTRY, role, state_dir, *flags]


def keeper_environment(role: str) -> dict[str, str]:
    """Return the environment of one of the keeper's processes: nothing of the server's secrets.

    The guardian gets a heap of which its forks share much: malloc instead of Python's arenas, and no cache in which the
    last freed chunks, on pages that are shared, would be a shim's next ones: 35 KB a shim (decision 23). For the
    supervisor, which nobody forks, that would only be slow.
    """
    env = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name in _TEST_ONLY or name.startswith(_PASSED_PREFIX)
    }
    if role == "guardian":
        env |= {
            "PYTHONMALLOC": "malloc",
            "MALLOC_ARENA_MAX": "1",
            "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
        }
    return env


def spawn_detached(argv: list[str], env: dict[str, str]) -> int:
    """Spawn a program in its own POSIX session with nothing inherited but descriptors 0 to 2; returns its pid."""
    return os.posix_spawn(argv[0], argv, env, setsid=True, setsigmask=())
