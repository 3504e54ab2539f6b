"""Paths and places: the same file may be visible at several paths, and its place in its file system says so.

A place is a file system and where in it (proc_pid_mountinfo(5)). Pure.
"""

import re
from collections.abc import Iterator

_ESCAPED = re.compile(r"\\([0-7]{3})")  # blanks in paths of mountinfo are octal


class PathIdentity:
    """The mounts of this process, as /proc/self/mountinfo lists them. Pure."""

    def __init__(self, mountinfo: str) -> None:
        # mount point -> (device, the folder of that file system that is mounted there); a later mount hides
        # earlier ones.
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

    def paths_of(self, other: str, folder: str) -> Iterator[str]:
        """Yield the paths at and below a folder at which `other`, or a part of it, is visible."""
        device, place = self.of(other)
        for point, (seen_device, seen) in ((folder, self.of(folder)), *self._mounts.items()):
            if seen_device != device or not is_within(point, folder):
                continue
            if is_within(place, seen):
                yield f"{point.rstrip('/')}/{place[len(seen.rstrip('/')) :].lstrip('/')}".rstrip("/")
            elif is_within(seen, place):
                yield point

    def _seen(self, folder: str) -> Iterator[tuple[str, str]]:
        """Yield the places that are visible at a folder: its own, and those of all mounts below it."""
        yield self.of(folder)
        yield from (place for point, place in self._mounts.items() if is_within(point, folder))


def is_within(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies below it, by their names."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _plain(field: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), field)
