"""The keeper, found or started with what this installation has for it: `ensure_keeper`, `find_shim`."""

import os
from pathlib import Path

from outlive.keeper.common import launch


def ensure_keeper(state_dir: str, *, deadline_s: float = 8.0) -> None:
    """Return when a supervisor listens on the state folder's socket, starting the keeper if nobody does (blocks).

    Raises:
        BackendUnavailable: `keeper_unavailable`, nobody listened in time.
    """
    launch.ensure_keeper(state_dir, deadline_s=deadline_s, find_shim=lambda: find_shim() or _awaited_shim())


def find_shim() -> str | None:
    """Return the path of the program that this installation has for shims, None if none is there; makes none."""
    # Only who really starts a keeper waits for this.
    from outlive.backends.docker.runner_build import present_runner  # noqa: PLC0415

    found = present_runner(os.uname().machine, _cache())
    return None if found is None else str(found)


def _awaited_shim() -> str | None:
    """Return where the program will be once it is compiled: the keeper takes it from then on."""
    from outlive.backends.docker.runner_build import compiled_runner  # noqa: PLC0415

    cache = _cache()
    return None if cache is None else str(compiled_runner(os.uname().machine, cache))


def _cache() -> Path | None:
    from outlive.backends.docker.runner_build import cache_folder  # noqa: PLC0415

    try:
        return cache_folder(os.environ)
    except RuntimeError:  # an account without a home folder
        return None
