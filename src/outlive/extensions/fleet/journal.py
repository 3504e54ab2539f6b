"""Which processes of a node are followed: `NodeJournal`, a file each below `nodes/NAME/live`, made before the
node is asked for anything. Blocking.
"""

import contextlib
import os

from outlive.core.identity import is_process_id
from outlive.core.layout import Layout
from outlive.store.process_folder import write_file

_LIVE = "live"


class NodeJournal:
    """The followed processes of one node."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._folder = f"{layout.nodes}/{name}/{_LIVE}"

    def add(self, process_id: str) -> None:
        """Follow a process from now on.

        Raises:
            OSError: The disk does not take it.
        """
        path = f"{self._folder}/{process_id}"
        try:
            write_file(path, b"")
        except FileNotFoundError:  # the first of this node
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            write_file(path, b"")

    def remove(self, process_id: str) -> None:
        """Follow it no more."""
        with contextlib.suppress(OSError):
            os.unlink(f"{self._folder}/{process_id}")

    def read(self) -> list[str]:
        """Return the ids of all followed processes, oldest first."""
        with contextlib.suppress(OSError):
            return sorted(name for name in os.listdir(self._folder) if is_process_id(name))
        return []


def known_nodes(layout: Layout) -> list[str]:
    """Return the names of the nodes that have followed processes, whatever the settings say now."""
    try:
        names = sorted(os.listdir(layout.nodes))
    except OSError:
        return []
    return [name for name in names if NodeJournal(layout, name).read()]
