"""Where a path lies, whatever it is called: which file system, and where in it (proc_pid_mountinfo(5)).

A folder that is mounted a second time elsewhere has another path, but the same place.
"""

import re
from collections.abc import Iterator

_ESCAPED = re.compile(r"\\([0-7]{3})")


class PathIdentity:
    """The mounts of this process, as /proc/self/mountinfo lists them. Pure."""

    def __init__(self, mountinfo: str) -> None:
        """Take the file's text."""
        # mount point -> (device, what of that file system is mounted there); the last one hides those before.
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
        """Tell whether what one sees at `folder`, mounts below it included, holds or lies within `other`."""
        device, place = self.of(other)
        return any(
            seen_device == device and (is_within(seen, place) or is_within(place, seen))
            for seen_device, seen in self._seen(folder)
        )

    def _seen(self, folder: str) -> Iterator[tuple[str, str]]:
        yield self.of(folder)
        yield from (place for point, place in self._mounts.items() if is_within(point, folder))


def is_within(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies below it, by their names."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _plain(field: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), field)
