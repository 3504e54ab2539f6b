"""Copying files as programs call it: `AsyncFiles`, and `Files`, which blocks (docs/client.md). What carries it out is `copy_run`."""

import os
from collections.abc import Callable

from outlive.client.link import Links
from outlive.client.results import Copied
from outlive.client.runtime import Runtime, blocking


class AsyncFiles:
    """Copies files between machines; made by `AsyncClient`."""

    def __init__(self, links: Links, world: Runtime, state_dir: str | os.PathLike[str] | None) -> None:
        """Take what opens connections: each copy has one of its own, so that no request waits behind it."""
        self._links = links
        self._world = world
        self._state_dir = state_dir

    async def copy(
        self,
        source: str | bytes | os.PathLike[str],
        target: str | bytes | os.PathLike[str],
        *,
        project: str | None = None,
        compare: bool = False,
        progress: Callable[[int], None] = lambda _bytes: None,
    ) -> Copied:
        """Copy a file, or a folder with all that is in it; what is there already is not sent again.

        Args:
            source: `PLACE:PATH`, or a path of this machine (./a:b for one with a colon). A place is `local`, the server's machine, or a
                node, or a process: the machine where that runs, in its folder.
            target: Where to; with a slash at its end, or `.`: into that folder, under the source's name.
            project: The folder in which processes are named, as for `get`.
            compare: Compare files of the same size and time by their content.
            progress: Called with the bytes of each piece that has arrived, or was there already.

        Raises:
            InvalidState: `file_missing`, `file_failed`, `file_changed`: nothing could be copied; what concerns one of many is in `left_out`.
            CommandRefused: The caller may not run any command there.
            AccessDenied: `path_refused`: outlive's own files are not copied.
            BackendUnavailable: The server or the node is away. The same call goes on where this one has stopped.

        Cancellation: what was copied stays; the same call goes on from there.
        """
        # Start-up time: most programs copy nothing, and this takes as many imports as the rest of the client.
        from outlive.client.files.copy_run import CopyRun, asked_copy  # noqa: PLC0415

        asked = asked_copy(source, target, project=project, compare=compare, progress=progress)
        return await CopyRun(self._links, self._world, self._state_dir).run(asked)


class Files:
    """`AsyncFiles`, blocking."""

    def __init__(self, twin: AsyncFiles) -> None:
        """Take the one that is asked."""
        self._twin = twin

    copy = blocking(AsyncFiles.copy)
