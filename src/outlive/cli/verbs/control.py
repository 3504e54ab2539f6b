"""`outlive pause`, `resume`, `kill`, `stop` and `signal`: one thing done to each process of a selection."""

from collections.abc import Callable

from outlive.cli.parameters import (
    GROUP,
    OPTIONAL_NAMES,
    SERVER,
    TAGS,
    Action,
    Parameter,
    ServerFlags,
    place,
    seconds,
    switch,
    takes,
)
from outlive.cli.processes import Selection, act, connected
from outlive.client import Process


def _to_each(
    do: Callable[..., None],
    said: str,
    *own: Parameter,
    first: Parameter | None = None,
    with_left: bool = False,
) -> Action[...]:
    """Return a verb that does one thing to each process of a selection.

    Args:
        do: What is done; gets the process, and the values of `own` and `first` by their names.
        said: What is said of each process afterwards, behind its id; may show these values.
        own: Flags that only this verb takes.
        first: A place before the names of processes.
        with_left: Of a group or tags also those that have ended and left something running.
    """
    before = () if first is None else (first,)

    @takes(*before, OPTIONAL_NAMES, *own, GROUP, TAGS, *SERVER)
    def verb(
        *, names: list[str], group: str | None, tags: list[str], server: ServerFlags, **values: object
    ) -> int:
        selection = Selection(names, group=group, tags=tags, with_left=with_left)
        with connected(server) as client:
            return act(
                client,
                selection,
                lambda process: do(process, **values),
                said=said.format(**values),
                as_json=server.as_json,
            )

    return verb


def _signal(process: Process, *, number: str, tree: bool) -> None:
    process.signal(int(number) if number.isascii() and number.isdigit() else number, whole_tree=tree)


pause = _to_each(Process.pause, "is paused")
resume = _to_each(Process.resume, "goes on")
kill = _to_each(lambda process: process.cancel(0.0), "is being killed", with_left=True)
stop = _to_each(
    lambda process, grace_s: process.cancel(grace_s),
    "is being stopped",
    seconds("--grace", about="Time between TERM and KILL.", to="grace_s"),
    with_left=True,
)
signal = _to_each(
    _signal,
    "got {number}",
    switch("--tree", about="Everything below the main process, too."),
    first=place("number", "SIGNAL", about="A name (INT, SIGUSR1) or a number."),
)
