"""Which files of this machine a container may see: the mounts of a plan, checked against everything that must
never be mounted.

Reads the file system (blocking: use a thread). Paths are compared as the kernel resolves them, after all
links, and by their place (`core.mounts`): a folder that is mounted a second time elsewhere has another path
but the same place, so it cannot be slipped in under a second name. The body that the daemon gets is
`recipe`'s.
"""

import os
import stat
from collections.abc import Iterator, Sequence

from outlive.core.errors import CommandRefused, OutliveError, StartFailed
from outlive.core.location import ContainerPlan
from outlive.core.mounts import PathIdentity, is_within
from outlive.core.values import dataclass
from outlive.kernel.own_places import (
    Protection,
    close_folders,
    other_state_folders,
    own_places,
    protection_of,
    unshare_code,
)

HAND_FOLDER = "/run/outlive"  # where the server hands the runner its socket; read-only, and empty afterwards
RUNNER_PATH = "/run/outlive-runner"
TEMPORARY = ("/tmp", "/run", "/var/tmp")  # noqa: S108 -- inside the container, each its own
_KERNEL = ("/proc", "/sys", "/dev")
_RESERVED = (*_KERNEL, HAND_FOLDER, RUNNER_PATH)
# A process that may talk to one of these daemons is as good as root on this machine.
_DAEMONS = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of this machine inside a container.

    `source` has no links; `identity` is (device, inode). `is_closed`: there is an empty folder in its place.
    """

    source: str
    target: str
    is_read_only: bool = False
    is_closed: bool = False
    identity: tuple[int, int]


def check_mounts(
    plan: ContainerPlan, *, state_dir: str, daemon_socket: str = "", own: Sequence[str] = ()
) -> tuple[Mount, ...]:
    """Return the plan's mounts, the workspace first, and those that keep `own` and state folders from it.

    `own` are paths that outlive reads its code and settings from: they are read-only inside (decision 220).
    State folders of other servers are closed (decision 226).

    Raises:
        StartFailed: `mount_failed`: a source is missing, or the workspace is no folder.
        CommandRefused: `mount_refused`: a mount would show a protected path, or hide one that the container
        needs.
    """
    forbidden = [state_dir, *_DAEMONS, *([daemon_socket] if daemon_socket else [])]
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        places = PathIdentity(file.read())
    wanted = [(plan.workspace, plan.workspace, False), *map(_split, plan.mounts)]
    mounts = tuple(
        _checked(source, target, is_read_only=is_read_only, forbidden=forbidden, places=places)
        for source, target, is_read_only in wanted
    )
    if not stat.S_ISDIR(os.stat(mounts[0].source).st_mode):
        raise StartFailed("mount_failed", f"The workspace {plan.workspace!r} is no folder.")
    targets = [mount.target for mount in mounts]
    for target in targets:
        if targets.count(target) > 1:
            raise _refused(target, "two mounts would lie at the same place")
    kept = {mount.target: mount for mount in _kept(mounts, state_dir, own, places)}
    return (*mounts, *kept.values())


def _kept(
    mounts: Sequence[Mount], state_dir: str, own: Sequence[str], places: PathIdentity
) -> Iterator[Mount]:
    """Yield mounts inside of others: what is read-only or closed there, and the folders on the ways to it."""
    sources = [mount.source for mount in mounts]
    writable = [mount.source for mount in mounts if not mount.is_read_only]
    others = other_state_folders(os.path.realpath(state_dir))
    for source in sources:
        if any(is_within(source, other) for other in others):
            raise _refused(source, "it is part of the state folder of another server")
    found = Protection()
    if writable and own:
        unshare_code()
        found = protection_of(own_places(own), writable, places)
    if found.obstacle:
        raise _refused(", ".join(writable), found.obstacle)
    found = close_folders(found, others, sources, places)
    for mount in mounts:
        for path in (*found.pinned, *found.protected, *found.closed):
            is_pinned, is_closed = path in found.pinned, path in found.closed
            if not is_within(path, mount.source) or (mount.is_read_only and not is_closed):
                continue
            if os.path.islink(path):  # a daemon mounts what it leads to
                raise _refused(mount.source, f"outlive's own files are reached by the link {path!r} there")
            yield Mount(
                source=path,
                target=mount.target.rstrip("/") + path[len(mount.source.rstrip("/")) :],
                is_read_only=not is_pinned,
                is_closed=is_closed,
                identity=_identity(path),
            )


def still_there(mounts: Sequence[Mount]) -> bool:
    """Tell whether each source is still the file that was checked: the daemon has resolved its path later."""
    try:
        return all(
            os.path.realpath(mount.source) == mount.source and _identity(mount.source) == mount.identity
            for mount in mounts
        )
    except OSError:
        return False


def _split(text: str) -> tuple[str, str, bool]:
    words = text.split(":")
    if len(words) not in {2, 3} or words[2:] not in ([], ["ro"], ["rw"]):
        raise _refused(text, 'a mount is "HOST:INSIDE" or "HOST:INSIDE:ro"')
    return words[0], words[1], words[2:] == ["ro"]


def _checked(
    source: str, target: str, *, is_read_only: bool, forbidden: Sequence[str], places: PathIdentity
) -> Mount:
    target = _checked_target(target)
    if not source.startswith("/") or "\0" in source:
        raise _refused(source, "an absolute path is needed")
    if any(is_within(os.path.normpath(source), folder) for folder in _KERNEL):
        # Before links are resolved: "magic links" below /proc lead to places that no path shows (proc(5)).
        raise _refused(source, "it belongs to the kernel")
    try:
        real = os.path.realpath(source, strict=True)
        identity = _identity(real)
    except OSError as error:
        raise StartFailed(
            "mount_failed", f"{source!r} cannot be mounted into a container: {error.strerror}."
        ) from error
    if any(is_within(real, folder) for folder in _KERNEL):
        raise _refused(source, "it belongs to the kernel")
    for path in forbidden:
        if _meets(real, os.path.realpath(path), places):
            raise _refused(
                source, "it holds, or is part of, outlive's state folder or the socket of a daemon"
            )
    return Mount(source=real, target=target, is_read_only=is_read_only, identity=identity)


def _checked_target(target: str) -> str:
    path = target.rstrip("/") or "/"
    if not path.startswith("/") or os.path.normpath(path) != path or path.startswith("//") or "\0" in path:
        raise _refused(target, 'inside the container an absolute path without "." and ".." is needed')
    if any(is_within(path, place) or is_within(place, path) for place in _RESERVED):
        raise _refused(target, "the container itself needs this place")
    return path


def _meets(one: str, other: str, places: PathIdentity) -> bool:
    """Tell whether one path is the other one, or lies above or below it, also where either is mounted
    twice.
    """
    if is_within(one, other) or is_within(other, one) or places.meet(one, other):
        return True
    try:
        return _identity(one) == _identity(other)  # a hard link: a second name of the same socket
    except OSError:
        return False


def _identity(path: str) -> tuple[int, int]:
    about = os.stat(path)
    return about.st_dev, about.st_ino


def _refused(path: str, reason: str) -> OutliveError:
    return CommandRefused("mount_refused", f"{path!r} is not mounted into a container: {reason}.")
