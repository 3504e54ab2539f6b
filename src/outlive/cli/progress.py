"""Progress where a person waits: a bar on stderr if that is a terminal, and nothing anywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(text: str, total: int) -> Iterator[Callable[[], None]]:
    """Show how many of `total` are done while the block runs, and for how long it has; what it yields counts one more.

    The bar is gone at the end, also after Ctrl-C.
    """
    if not total or not sys.stderr.isatty():
        yield lambda: None
        return
    # Start-up time: only somebody at a terminal needs rich here.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda: bar.advance(task)
