"""Which files of this machine a container may see: the mounts of a plan, checked against everything that must never be mounted.

Reads the file system (blocking: use a thread). Paths are compared as the kernel resolves them, after all links, and by their
place: which file system, and where in it (`PathIdentity`, by proc_pid_mountinfo(5)). A folder that is mounted a second time
    elsewhere has
another path but the same place, so it cannot be slipped in under a second name. The body that the daemon gets is `recipe`'s.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outlive.core.errors import CommandRefused, OutliveError, StartFailed
from outlive.core.location import ContainerPlan

_ESCAPED = re.compile(r"\\([0-7]{3})")  # blanks in paths of mountinfo are octal


class PathIdentity:
    """The mounts of this process, as /proc/self/mountinfo lists them. Pure."""

    def __init__(self, mountinfo: str) -> None:
        """Take the file's text."""
        # mount point -> (device, the folder of that file system that is mounted there); a later mount hides earlier ones.
        self._mounts: dict[str, tuple[str, str]] = {}
        for line in mountinfo.splitlines():
            fields = line.split(" ")
            self._mounts[_plain(fields[4])] = (fields[2], _plain(fields[3]))

    def of(self, path: str) -> tuple[str, str]:
        """Return device and path within the file system of an absolute path without links."""
        points = [point for point in self._mounts if is_within(path, point)]
        if not points:
            return "", path
        point = max(points, key=len)
        device, root = self._mounts[point]
        rest = path[len(point.rstrip("/")) :].lstrip("/")
        return device, f"{root.rstrip('/')}/{rest}".rstrip("/") or "/"

    def meet(self, folder: str, other: str) -> bool:
        """Tell whether the tree at `folder`, mounts below it included, holds `other` or lies within it."""
        device, place = self.of(other)
        return any(
            seen_device == device and (is_within(seen, place) or is_within(place, seen))
            for seen_device, seen in self._seen(folder)
        )

    def _seen(self, folder: str) -> Iterator[tuple[str, str]]:
        """Yield the places that are visible at a folder: its own, and those of all mounts below it."""
        yield self.of(folder)
        yield from (place for point, place in self._mounts.items() if is_within(point, folder))


def is_within(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies below it, by their names."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _plain(field: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), field)


HAND_FOLDER = "/run/outlive"  # where the server hands the runner its socket; read-only, and empty afterwards
RUNNER_PATH = "/run/outlive-runner"
RUNNER_FOLDER = "/run/outlive-bin"  # a volume with the runner, where no file of this machine can be mounted
TEMPORARY = ("/tmp", "/run", "/var/tmp")  # noqa: S108 -- inside the container, each its own
_KERNEL = ("/proc", "/sys", "/dev")
_RESERVED = (*_KERNEL, HAND_FOLDER, RUNNER_PATH, RUNNER_FOLDER)
_VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,127}")
# A process that may talk to one of these daemons is as good as root on this machine.
_DAEMONS = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of this machine inside a container. `source` has no links; `identity` is (device, inode).

    On the machine of a daemon elsewhere `source` is a path there, or a volume's name, and `identity` is (0, 0).
    """

    source: str
    target: str
    is_read_only: bool = False
    identity: tuple[int, int]


def check_mounts(plan: ContainerPlan, *, state_dir: str, daemon_socket: str = "") -> tuple[Mount, ...]:
    """Return the plan's mounts, the workspace first.

    Raises:
        StartFailed: `mount_failed`: a source is missing, or the workspace is no folder.
        CommandRefused: `mount_refused`: a mount would show a protected path, or hide one that the container needs.
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
    return mounts


def remote_mounts(plan: ContainerPlan) -> tuple[Mount, ...]:
    """Return the plan's mounts for a daemon on another machine: its paths and volumes, which cannot be examined from here.

    Raises:
        StartFailed: `mount_failed`: no mount covers the workspace.
        CommandRefused: `mount_refused`: a mount would show a protected path there, or hide one that the container needs.
    """
    mounts = []
    for source, target, is_read_only in map(_split, plan.mounts):
        target = _checked_target(target)  # noqa: PLW2901 - the same, checked
        path = os.path.normpath(source)
        is_path = source.startswith("/") and "\0" not in source
        if not is_path and not _VOLUME.fullmatch(source):
            raise _refused(
                source, "an absolute path of the daemon's machine, or the name of a volume is needed"
            )
        if is_path and any(is_within(path, one) or is_within(one, path) for one in (*_KERNEL, *_DAEMONS)):
            raise _refused(source, "it holds, or is part of, what belongs to that machine's kernel or daemon")
        mounts.append(Mount(source=path, target=target, is_read_only=is_read_only, identity=(0, 0)))
    if not any(is_within(plan.workspace, mount.target) for mount in mounts):
        raise StartFailed(
            "mount_failed",
            f"The workspace {plan.workspace!r} is on this machine, and the Docker daemon on another one.",
            hint=f"Mount something of that machine there: --docker-mounts VOLUME:{plan.workspace} (or PATH:{plan.workspace}).",
        )
    targets = [mount.target for mount in mounts]
    for target in targets:
        if targets.count(target) > 1:
            raise _refused(target, "two mounts would lie at the same place")
    return tuple(mounts)


def still_there(mounts: Sequence[Mount]) -> bool:
    """Tell whether each source is still the file that was checked: the daemon has resolved its path later."""
    try:
        return all(
            os.path.realpath(mount.source) == mount.source and _identity(mount.source) == mount.identity
            for mount in mounts
            if mount.identity != (0, 0)
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
    """Tell whether one path is the other one, or lies above or below it, also where either is mounted twice."""
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
