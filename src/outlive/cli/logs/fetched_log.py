"""The log of a process on another server, fetched into a folder of ours that is gone afterwards: `fetched`.

So a log is shown, searched and counted by one code, wherever it lies. Times are those of the fetching.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator

from outlive.backends.remote.folder import MirrorFolder
from outlive.client import Gap, Output, Process
from outlive.core.layout import Layout
from outlive.keeper.common.kernel import punch_hole

Keep = Callable[[Output | Gap], None]


@contextlib.contextmanager
def fetched(process: Process, *, raw: bool) -> Iterator[tuple[Layout, Keep]]:
    """Yield a layout in which the log of `process` lies as far as it goes now, and what adds to it.

    Raises:
        OutliveError: The server does not answer, or does not show it.
    """
    with tempfile.TemporaryDirectory(prefix="outlive-log-") as root:
        layout = Layout(root)
        folder = layout.process(process.process_id)
        os.makedirs(folder)
        files = MirrorFolder(folder, limit=None, punch=punch_hole)

        def keep(item: Output | Gap) -> None:
            stream = int(item.stream == "stderr")
            end = item.cursor.stderr if stream else item.cursor.stdout
            if isinstance(item, Output):
                files.append(stream, item.data, end)
            else:
                files.skip(stream, item.start, item.end)

        try:
            while True:
                page = process.read(files.cursor, raw=raw)
                for item in page.items:
                    keep(item)
                if not page.items or not page.has_more:
                    break
            yield layout, keep
        finally:
            files.close()
