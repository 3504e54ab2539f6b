"""`outlive pause`, `resume`, `kill`, `stop` and `signal`: one thing done to each process of a selection."""

from collections.abc import Callable

from outlive.cli.parameters import GROUP, OPTIONAL_NAMES, SERVER, TAGS, Action, place, seconds, switch, takes
from outlive.cli.processes import Selection, act, connected
from outlive.client import Process

_SELECTION = (GROUP, TAGS)


def _plain(do: Callable[[Process], None], said: str, *, with_left: bool = False) -> Action[...]:
    """Return a verb that takes nothing but the selection.

    Args:
        do: What is done to each process.
        said: What is said of each afterwards, behind its id.
        with_left: Of a group or tags also those that have ended and left something running.
    """

    @takes(OPTIONAL_NAMES, *_SELECTION, *SERVER)
    def verb(
        *,
        names: list[str],
        group: str | None,
        tags: list[str],
        state_dir: str | None,
        no_start: bool,
        as_json: bool,
    ) -> int:
        selection = Selection(names, group=group, tags=tags, with_left=with_left)
        with connected(state_dir, no_start=no_start) as client:
            return act(client, selection, do, said=said, as_json=as_json)

    return verb


pause = _plain(lambda process: process.pause(), "is paused")
resume = _plain(lambda process: process.resume(), "goes on")
kill = _plain(lambda process: process.cancel(0.0), "is being killed", with_left=True)


@takes(
    OPTIONAL_NAMES,
    seconds("--grace", about="Time between TERM and KILL.", to="grace_s"),
    *_SELECTION,
    *SERVER,
)
def stop(
    *,
    names: list[str],
    grace_s: float | None,
    group: str | None,
    tags: list[str],
    state_dir: str | None,
    no_start: bool,
    as_json: bool,
) -> int:
    """Stop each process of a selection, in the time that is given to it."""
    selection = Selection(names, group=group, tags=tags, with_left=True)
    with connected(state_dir, no_start=no_start) as client:
        return act(
            client,
            selection,
            lambda process: process.cancel(grace_s),
            said="is being stopped",
            as_json=as_json,
        )


@takes(
    place("number", "SIGNAL", about="A name (INT, SIGUSR1) or a number."),
    OPTIONAL_NAMES,
    switch("--tree", about="Everything below the main process, too."),
    *_SELECTION,
    *SERVER,
)
def signal(
    *,
    number: str,
    names: list[str],
    tree: bool,
    group: str | None,
    tags: list[str],
    state_dir: str | None,
    no_start: bool,
    as_json: bool,
) -> int:
    """Send a signal to each process of a selection."""
    wanted = int(number) if number.isascii() and number.isdigit() else number
    selection = Selection(names, group=group, tags=tags)
    with connected(state_dir, no_start=no_start) as client:
        return act(
            client,
            selection,
            lambda process: process.signal(wanted, whole_tree=tree),
            said=f"got {number}",
            as_json=as_json,
        )
