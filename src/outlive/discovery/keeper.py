"""The keeper, found or started with this installation's program for shims: `ensure_keeper`, `find_program`.

How a keeper is started belongs to `keeper.common.launch`, what makes the program's copy in the state folder
to `keeper.common.program`; compiling it to `discovery.runner_build`.
"""

import functools
import os
from pathlib import Path

from outlive.core.errors import BackendUnavailable, StartFailed
from outlive.core.layout import Layout
from outlive.keeper.common import launch
from outlive.keeper.common.program import open_program, place_program
from outlive.keeper.common.spawn import EXTERNAL_VARIABLE
from outlive.kernel.locks import holder_of


def ensure_keeper(state_dir: str, *, deadline_s: float = 8.0) -> None:
    """Return when a supervisor listens on the state folder's socket; start the keeper if none does. Blocks.

    Raises:
        BackendUnavailable: `keeper_unavailable`: there is no program for it, or no supervisor listened in
        time.
    """
    find = functools.partial(find_program, Layout(state_dir))
    launch.ensure_keeper(state_dir, deadline_s=deadline_s, find_program=find)


def check_program(layout: Layout) -> None:
    """Find, or compile, the program of the keeper where one will have to be started from here.

    Raises:
        BackendUnavailable: `keeper_unavailable`: there is none that can be executed.
    """
    if not os.environ.get(EXTERNAL_VARIABLE) and holder_of(layout.supervisor_lock) is None:
        os.close(open_program(layout, functools.partial(find_program, layout)))


def find_program(layout: Layout) -> str:
    """Return the path of this installation's program; without one it is compiled now, which takes seconds.

    Raises:
        BackendUnavailable: `keeper_unavailable`: nothing here can compile it.
    """
    # Imported here: only a caller that really starts a keeper needs it.
    from outlive.discovery.runner_build import HINT, runner_binary  # noqa: PLC0415

    try:
        return str(runner_binary(os.uname().machine, Path(layout.programs)))
    except StartFailed as error:
        text = f"The keeper cannot be started: {error.message}"
        raise BackendUnavailable("keeper_unavailable", text, hint=HINT) from error


def program_path(layout: Layout) -> str | None:
    """Return the path of the program; None as long as none was compiled."""
    from outlive.discovery.runner_build import present_runner  # noqa: PLC0415

    found = present_runner(os.uname().machine, Path(layout.programs))
    return None if found is None else str(found)


def placed_program(layout: Layout) -> str | None:
    """Return the path of the state folder's copy of the program, for commands that execute it; None without
    one.
    """
    found = program_path(layout)
    try:
        return None if found is None else place_program(layout, found)
    except OSError:
        return None


def place_runner(layout: Layout, machine: str) -> str:
    """Put the program for containers of a machine into the state folder, where any user may execute it, and
    return its path. It may be compiled now, which takes seconds.

    Raises:
        StartFailed: `docker_unavailable`: nothing here can compile it, or it cannot be written.
    """
    from outlive.discovery.runner_build import runner_binary  # noqa: PLC0415

    try:
        path = place_program(layout, str(runner_binary(machine, Path(layout.programs))))
        os.chmod(path, 0o555)  # noqa: S103 - a container's user may be another one
    except OSError as error:
        text = f"Outlive's program cannot be put into the state folder: {error.strerror}."
        raise StartFailed("docker_unavailable", text) from error
    return path
