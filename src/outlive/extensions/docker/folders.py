"""The folder of each container in the state folder: `plan`, `init`, the runner's socket, and `hand`, which is
mounted inside.

Blocking: use a thread. A folder is removed only after its container (`containers.Collector`). The daemon is
never called here.
"""

import contextlib
import os
import shutil

from outlive.core.errors import StartFailed, StoreCorrupt
from outlive.core.layout import Layout
from outlive.core.location import ContainerPlan
from outlive.extensions.docker.recipe import ContainerOwner, state_label
from outlive.kernel.files import read_any, read_small, write_whole
from outlive.protocols.frames import decode_identity, decoded

_PRIVATE = 0o700
_READABLE = 0o755


def list_names(layout: Layout) -> list[str]:
    """Return the names of the containers that have a folder."""
    try:
        return sorted(os.listdir(layout.containers))
    except FileNotFoundError:
        return []


def write_plan(layout: Layout, plan: ContainerPlan) -> None:
    """Write the plan of a container, unless it is written already."""
    folder = layout.container(plan.name)
    os.makedirs(layout.containers, mode=_PRIVATE, exist_ok=True)
    os.makedirs(folder, mode=_PRIVATE, exist_ok=True)
    if not os.path.exists(f"{folder}/plan"):
        write_whole(f"{folder}/plan", plan.encode(), by_many=True)


def read_plan(layout: Layout, name: str) -> ContainerPlan:
    """Return the plan of a container.

    Raises:
        StartFailed: It was never written, or was removed.
        StoreCorrupt: The file is damaged.
    """
    try:
        plan = ContainerPlan.decode(read_any(f"{layout.container(name)}/plan"))
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


def check_owner(owner: ContainerOwner) -> None:
    """Refuse a user whose commands this server could not signal.

    Raises:
        StartFailed: Only root can have commands of that user.
    """
    if os.geteuid() not in {0, owner.uid}:
        raise StartFailed(
            "container_failed",
            f"Only root can run containers as another user ({owner.uid}:{owner.gid}).",
            hint=f"Name the server's own: --docker-user {os.geteuid()}:{os.getegid()}.",
        )


def hand_folder(layout: Layout, name: str) -> str:
    """Return the folder that is mounted into the container, read-only, in which the runner gets its
    socket.
    """
    return f"{layout.container(name)}/hand"


def prepare_hand(layout: Layout, name: str) -> None:
    """Make the folder of `hand_folder`, readable for the container's user."""
    folder = hand_folder(layout, name)
    os.makedirs(folder, mode=_PRIVATE, exist_ok=True)
    os.chmod(folder, _READABLE)  # other users cannot get here: the folder above is private


def write_init(layout: Layout, name: str, pid: int) -> None:
    """Write the pid of a container's first process, as this machine numbers it."""
    write_whole(f"{layout.container(name)}/init", b"%d\n" % pid, by_many=True)


def read_init(layout: Layout, name: str) -> int:
    """Return the pid of a container's first process; 0 when it is not known."""
    try:
        raw = read_any(f"{layout.container(name)}/init")
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return decoded(raw, int) or 0


def remove_folder(layout: Layout, name: str) -> None:
    """Remove a container's folder; the socket in it may belong to another user."""
    shutil.rmtree(layout.container(name), ignore_errors=True)


def was_used(layout: Layout) -> bool:
    """Tell whether a container was ever made for this state folder."""
    return os.path.isdir(layout.containers)


def label_of(layout: Layout) -> str:
    """Return the label of this state folder's containers (`recipe.state_label`)."""
    known = decode_identity(read_small(layout.identity))
    return state_label(os.path.realpath(layout.root) if known is None else known[0], _machine_id())


def _machine_id() -> str:
    """Return this machine's id, "" where it has none (machine-id(5))."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            return file.read(64).strip()
    return ""
