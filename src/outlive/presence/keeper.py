"""The keeper, found or started with what this installation has for it: `ensure_keeper`, `find_shim`."""

import os

from outlive.keeper import launch

__all__ = ["ensure_keeper", "find_shim"]


def ensure_keeper(state_dir: str, *, deadline_s: float = 8.0) -> None:
    """Return when a supervisor listens on the state folder's socket, starting the keeper if nobody does (blocks).

    Raises:
        BackendUnavailable: `keeper_unavailable`, nobody listened in time.
    """
    launch.ensure_keeper(state_dir, deadline_s=deadline_s, find_shim=find_shim)


def find_shim() -> str | None:
    """Return the path of the program that this installation has for shims, None if none is there; makes none."""
    # Only who really starts a keeper waits for this.
    from outlive.backends.docker.building import cache_folder, present_runner  # noqa: PLC0415

    try:
        cache = cache_folder(os.environ)
    except RuntimeError:  # an account without a home folder
        cache = None
    found = present_runner(os.uname().machine, cache)
    return None if found is None else str(found)
