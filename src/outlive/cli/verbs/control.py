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
    option,
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

    @takes(*before, OPTIONAL_NAMES, *own, GROUP, TAGS, _ALL, _YES, *SERVER)
    def verb(
        *,
        names: list[str],
        group: str | None,
        tags: list[str],
        all_of_them: bool,
        yes: bool,
        server: ServerFlags,
        **values: object,
    ) -> int:
        selection = Selection(
            names=names, group=group, tags=tags, all_of_them=all_of_them, yes=yes, with_left=with_left
        )
        with connected(server) as client:
            return act(
                client,
                selection,
                lambda process: do(process, **values),
                said=said.format(**values) if _is_kill(values.get("sent")) else f"got {values['sent']}",
                as_json=server.as_json,
            )

    return verb


_ALL = switch("--all", "-a", about="Everything that runs in this project; asks beyond it.", to="all_of_them")
_YES = switch("--yes", "-y", about="With --all: of all projects, without asking.")


def _signal(process: Process, *, number: str, tree: bool = False) -> None:
    process.signal(int(number) if number.isascii() and number.isdigit() else number, whole_tree=tree)


def _kill(process: Process, *, sent: str | None) -> None:
    """End the tree at once.

    With another signal than KILL send that to the main process, as kill(1) and docker do.
    """
    if sent is not None and not _is_kill(sent):
        _signal(process, number=sent)
    else:
        process.cancel(0.0)


def _is_kill(sent: object) -> bool:
    """Tell whether nothing else than the end of the tree was asked for."""
    return sent is None or str(sent).upper().removeprefix("SIG") in {"KILL", "9"}


pause = _to_each(Process.pause, "is paused")
resume = _to_each(Process.resume, "goes on")
kill = _to_each(
    _kill,
    "is being killed",
    option("--signal", "-s", metavar="SIGNAL", about="Send this one instead (HUP, USR1, 10).", to="sent"),
    with_left=True,
)
stop = _to_each(
    lambda process, grace_s: process.cancel(grace_s),
    "is being stopped",
    seconds("--grace", about="Time between TERM and KILL.", to="grace_s")._replace(flags=("--grace", "-t")),
    with_left=True,
)
signal = _to_each(
    _signal,
    "got {number}",
    switch("--tree", about="Everything below the main process, too."),
    first=place("number", "SIGNAL", about="A name (INT, SIGUSR1) or a number."),
)
