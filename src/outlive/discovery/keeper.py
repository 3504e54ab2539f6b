"""The keeper, found or started with this installation's shim program: `ensure_keeper`, `find_shim`.

How a keeper is started belongs to `keeper.common.launch`; compiling the shim to `backends.docker.runner_build`.
"""

import os
from pathlib import Path

from outlive.keeper.common import launch


def ensure_keeper(state_dir: str, *, deadline_s: float = 8.0) -> None:
    """Return when a supervisor listens on the state folder's socket; start the keeper if none does. Blocks.

    Raises:
        BackendUnavailable: `keeper_unavailable`: no supervisor listened in time.
    """
    launch.ensure_keeper(state_dir, deadline_s=deadline_s, find_shim=future_shim)


def find_shim() -> str | None:
    """Return the path of this installation's shim program, None if there is none; compiles none."""
    # Imported here: only a caller that really starts a keeper needs it.
    from outlive.backends.docker.runner_build import present_runner  # noqa: PLC0415

    found = present_runner(os.uname().machine, _cache())
    return None if found is None else str(found)


def future_shim() -> str | None:
    """Return the path of the shim program, or the one at which it will be once it is compiled; None if there will be none."""
    from outlive.backends.docker.runner_build import compiled_runner  # noqa: PLC0415

    cache = _cache()
    return find_shim() or (None if cache is None else str(compiled_runner(os.uname().machine, cache)))


def _cache() -> Path | None:
    from outlive.backends.docker.runner_build import cache_folder  # noqa: PLC0415

    try:
        return cache_folder(os.environ)
    except RuntimeError:  # an account without a home folder
        return None
