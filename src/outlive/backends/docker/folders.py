"""The folder of each container in the state folder: `plan`, `init`, and `run`, which is mounted inside.

Blocking: use a thread. Whoever removes a folder removes the container first (`collecting`).
"""

import contextlib
import os
import shutil
import tempfile

from outlive.backends.docker.recipe import Owner, state_label
from outlive.core.errors import StartFailed, StoreCorrupt
from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan
from outlive.protocols.frames import decode_identity

__all__ = [
    "label_of",
    "list_names",
    "prepare_run",
    "read_init",
    "read_plan",
    "remove_folder",
    "run_folder",
    "was_used",
    "write_init",
    "write_plan",
]

_PRIVATE = 0o700


def list_names(layout: Layout) -> list[str]:
    """Return the names of the containers that have a folder."""
    try:
        return sorted(os.listdir(layout.containers))
    except FileNotFoundError:
        return []


def write_plan(layout: Layout, plan: ContainerPlan) -> None:
    """Write what a container is made of, unless it stands there."""
    folder = layout.container(plan.name)
    os.makedirs(layout.containers, mode=_PRIVATE, exist_ok=True)
    os.makedirs(folder, mode=_PRIVATE, exist_ok=True)
    if not os.path.exists(f"{folder}/plan"):
        _write(f"{folder}/plan", plan.encode())


def read_plan(layout: Layout, name: str) -> ContainerPlan:
    """Return what a container is made of.

    Raises:
        StartFailed: Nobody wrote it, or it has been removed.
        StoreCorrupt: The file is damaged.
    """
    try:
        with open(f"{layout.container(name)}/plan", "rb") as file:
            plan = ContainerPlan.decode(file.read())
    except FileNotFoundError as error:
        raise StartFailed(
            "container_failed",
            f"It is not known any more what the container {name} was made of.",
            hint="Start the command again.",
        ) from error
    except ValueError as error:
        raise StoreCorrupt("store_corrupt", f"The plan of the container {name} is damaged.") from error
    if plan.name != name:
        raise StoreCorrupt("store_corrupt", f"The plan of the container {name} is another one's.")
    return plan


def run_folder(layout: Layout, name: str) -> str:
    """Return the folder in which the runner listens."""
    return os.path.dirname(layout.runner_socket(name))


def prepare_run(layout: Layout, name: str, owner: Owner) -> None:
    """Make the folder in which the runner listens, for the user of the container alone.

    Raises:
        StartFailed: Only root can give it to that user.
    """
    folder = run_folder(layout, name)
    os.makedirs(folder, mode=_PRIVATE, exist_ok=True)
    about = os.stat(folder)
    if (about.st_uid, about.st_gid) == (owner.uid, owner.gid):
        return
    if about.st_uid == owner.uid and os.geteuid() == owner.uid:
        return  # another group of the same user; it is closed to groups anyhow
    try:
        os.chown(folder, owner.uid, owner.gid)
    except PermissionError as error:
        raise StartFailed(
            "container_failed",
            f"Only root can run containers as another user ({owner.uid}:{owner.gid}).",
            hint=f"Name the server's own: --docker-user {os.geteuid()}:{os.getegid()}.",
        ) from error


def write_init(layout: Layout, name: str, pid: int) -> None:
    """Write the pid of a container's first process, as this machine numbers it."""
    _write(f"{layout.container(name)}/init", b"%d\n" % pid)


def read_init(layout: Layout, name: str) -> int:
    """Return that pid; 0 when it is not known."""
    try:
        with open(f"{layout.container(name)}/init", "rb") as file:
            return int(file.read(20))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return 0


def remove_folder(layout: Layout, name: str) -> None:
    """Remove a container's folder; the socket in it may belong to another user."""
    shutil.rmtree(layout.container(name), ignore_errors=True)


def was_used(layout: Layout) -> bool:
    """Tell whether a container was ever made for this state folder."""
    return os.path.isdir(layout.containers)


def label_of(layout: Layout) -> str:
    """Return what tells this state folder's containers from others'."""
    raw = b""
    with contextlib.suppress(OSError), open(layout.identity, "rb") as file:
        raw = file.read()
    known = decode_identity(raw)
    return state_label(os.path.realpath(layout.root) if known is None else known[4], _machine_id())


def _machine_id() -> str:
    """Return what tells this machine from others, "" where nothing does (machine-id(5))."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            return file.read(64).strip()
    return ""


def _write(path: str, content: bytes) -> None:
    number, partial = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f"{os.path.basename(path)}.")
    with open(number, "wb") as file:
        file.write(content)
    os.replace(partial, path)
