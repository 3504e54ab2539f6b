"""stats and events as typer knows them; what they do is in `stats` and `event_lines`."""

from typing import Annotated

import typer

from outlive.cli.flags import Group, Json, NoStart, OptionalNames, StateDir, Tags

_EVENT_WORDS = "queued|approval_requested|approval_decided|started|recovered|paused|resumed|stopping|ended|closed|removed|rejected|keeper_connected|keeper_disconnected|node_connected|node_away|missed"
_STATE_WORDS = "queued|starting|running|paused|stopping|exited|signaled|failed_to_start|lost"


def add_live_verbs(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    app.command("stats")(_stats)
    app.command("events")(_events)


def _stats(
    names: OptionalNames = None,
    *,
    group: Group = None,
    tag: Tags = None,
    no_stream: Annotated[
        bool, typer.Option("--no-stream", help="Show them once.", show_default=False)
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Time between two looks.")
    ] = 1.0,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Show what process trees use: processor, memory, pids, ports, whether they wait for input."""
    from outlive.cli.processes import connected  # noqa: PLC0415 -- start-up time of `outlive --help`
    from outlive.cli.verbs.stats import Looking, show_stats  # noqa: PLC0415 -- as above

    looking = Looking(names=names or [], group=group, tags=tag or [], interval_s=interval)
    with connected(state_dir, no_start=no_start) as client:
        show_stats(client, looking, once=no_stream, as_json=as_json)


def _events(
    names: OptionalNames = None,
    *,
    group: Group = None,
    tag: Tags = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar=_STATE_WORDS, help="Only of processes in this state then.", show_default=False
        ),
    ] = None,
    event: Annotated[
        list[str] | None,
        typer.Option("--event", metavar=_EVENT_WORDS, help="Only events of this name.", show_default=False),
    ] = None,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Tell what happens to processes from now on, a line each, until Ctrl-C."""
    from outlive.cli.verbs.events import Wanted, show_events  # noqa: PLC0415 -- as above

    wanted = Wanted(names=names or [], group=group, tags=tag or [], states=state or [], events=event or [])
    show_events(state_dir, wanted, no_start=no_start, as_json=as_json)
