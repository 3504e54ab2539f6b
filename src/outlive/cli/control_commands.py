"""pause, resume, stop, kill and signal as typer knows them; what they do is in `process_verbs`."""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from outlive.cli.flags import Group, Json, NoStart, OptionalNames, StateDir, Tags

_Do = Callable[[Any], None]  # with a process; the client is imported when a verb is called


def add_control_verbs(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    for name, (what, said, do) in _PLAIN.items():
        app.command(name, help=what)(_plain_verb(said, do))
    app.command("stop")(_stop)
    app.command("signal")(_signal)


_PLAIN: dict[str, tuple[str, str, _Do]] = {
    "pause": ("Stop whole process trees until `resume`.", "is paused", lambda process: process.pause()),
    "resume": ("Continue process trees.", "goes on", lambda process: process.resume()),
    "kill": (
        "End whole process trees without waiting: TERM, and KILL at once.",
        "is being killed",
        lambda process: process.cancel(0.0),
    ),
}


def _plain_verb(said: str, do: _Do) -> Callable[..., None]:
    """Return a verb that does one thing to each process of a selection."""

    def verb(
        names: OptionalNames = None,
        *,
        group: Group = None,
        tag: Tags = None,
        state_dir: StateDir = None,
        no_start: NoStart = False,
        as_json: Json = False,
    ) -> None:
        _act(
            do,
            names,
            said=said,
            with_left=said == "is being killed",
            group=group,
            tag=tag,
            state_dir=state_dir,
            no_start=no_start,
            as_json=as_json,
        )

    return verb


def _stop(
    names: OptionalNames = None,
    *,
    grace: Annotated[
        float | None,
        typer.Option("--grace", metavar="SECONDS", help="Time between TERM and KILL.", show_default=False),
    ] = None,
    group: Group = None,
    tag: Tags = None,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """End whole process trees: TERM, the grace period, KILL."""
    _act(
        lambda process: process.cancel(grace),
        names,
        said="is being stopped",
        with_left=True,
        group=group,
        tag=tag,
        state_dir=state_dir,
        no_start=no_start,
        as_json=as_json,
    )


def _signal(
    number: Annotated[str, typer.Argument(metavar="SIGNAL", help="A name (INT, SIGUSR1) or a number.")],
    names: OptionalNames = None,
    *,
    tree: Annotated[
        bool, typer.Option("--tree", help="Everything below the main process, too.", show_default=False)
    ] = False,
    group: Group = None,
    tag: Tags = None,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Send a signal."""
    wanted = int(number) if number.isascii() and number.isdigit() else number
    _act(
        lambda process: process.signal(wanted, whole_tree=tree),
        names,
        said=f"got {number}",
        group=group,
        tag=tag,
        state_dir=state_dir,
        no_start=no_start,
        as_json=as_json,
    )


def _act(
    do: _Do,
    names: list[str] | None,
    *,
    said: str,
    group: str | None,
    tag: list[str] | None,
    state_dir: str | None,
    no_start: bool,
    as_json: bool,
    with_left: bool = False,
) -> None:
    from outlive.cli.processes import Selection, act, connected  # noqa: PLC0415 -- start-up time of `--help`

    selection = Selection(names or [], group=group, tags=tag or [], with_left=with_left)
    with connected(state_dir, no_start=no_start) as client:
        status = act(client, selection, do, said=said, as_json=as_json)
    raise typer.Exit(status)
