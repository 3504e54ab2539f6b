"""Tags and group of a process after they were changed: the file `labels` in its folder, the server's own.

What the command was started with stays in `spec`; this file, where there is one, stands in its place. Blocking:
run it in a thread.
"""

import json
import os
import time
from collections.abc import Mapping

Labels = tuple[dict[str, str], str | None]
_FILE = "labels"


def write_labels(folder: str, tags: Mapping[str, str], group: str | None) -> None:
    """Keep tags and group in a process's folder; a crash leaves the old ones or the new ones.

    Raises:
        OSError: The disk did not take them, or the folder is gone.
    """
    new = f"{folder}/{_FILE}.{time.monotonic_ns()}"  # two writers do not meet in one file
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump({"tags": dict(tags), "group": group}, file)
    os.rename(new, f"{folder}/{_FILE}")


def read_labels(folder: str) -> Labels | None:
    """Return changed tags and group; None when nobody changed them (or a crash of the machine tore the file)."""
    try:
        with open(f"{folder}/{_FILE}", encoding="utf-8") as file:
            content = json.load(file)
        tags, group = content["tags"], content["group"]
        return {str(name): str(value) for name, value in tags.items()}, None if group is None else str(group)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
