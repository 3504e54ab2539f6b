"""tag, rm and prune as typer knows them; what they do is in `record_verbs`."""

from typing import Annotated

import typer

from outlive.cli.flags import Group, Json, NoStart, OptionalNames, StateDir, Tags
from outlive.discovery.state_folder import layout_of

_Force = Annotated[
    bool,
    typer.Option("--force", "-f", help="End what still runs (KILL at once), too.", show_default=False),
]


def add_record_verbs(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    app.command("tag")(_tag)
    app.command("rm")(_rm)
    app.command("prune")(_prune)


def _tag(
    name: Annotated[str, typer.Argument(metavar="ID", help="An id, the end of one, or a pid.")],
    changes: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE|NAME-...", help="NAME=VALUE sets a tag, NAME- removes it."),
    ],
    *,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Change a process's tags, while it runs and afterwards."""
    from outlive.cli.processes import connected  # noqa: PLC0415 -- start-up time of `outlive --help`
    from outlive.cli.verbs.prune import change_tags  # noqa: PLC0415 -- as above

    with connected(state_dir, no_start=no_start) as client:
        change_tags(client, name, changes, as_json=as_json)


def _rm(
    names: OptionalNames = None,
    *,
    force: _Force = False,
    group: Group = None,
    tag: Tags = None,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Forget processes that have ended: their records and their output."""
    from outlive.cli.processes import Selection, act, connected  # noqa: PLC0415 -- as above

    selection = Selection(names or [], group=group, tags=tag or [], active=None if force else False)
    with connected(state_dir, no_start=no_start) as client:
        status = act(
            client,
            selection,
            lambda process: client.remove(process.process_id, force=force),
            said="is removed",
            as_json=as_json,
        )
    raise typer.Exit(status)


def _prune(
    *,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Only what ended so long ago: 30m, 12h, 7d.",
            show_default=False,
        ),
    ] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="exited|signaled|failed_to_start|lost",
            help="Only what ended like this.",
            show_default=False,
        ),
    ] = None,
    group: Group = None,
    tag: Tags = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.", show_default=False)
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)] = False,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Forget all processes that have ended, or some of them; what runs stays."""
    from outlive.cli.processes import connected  # noqa: PLC0415 -- as above
    from outlive.cli.verbs.prune import Pruning, prune  # noqa: PLC0415 -- as above

    wanted = Pruning.parse(older_than=older_than, states=state or [], group=group, tags=tag or [])
    with connected(state_dir, no_start=no_start) as client:
        status = prune(client, layout_of(state_dir), wanted, dry_run=dry_run, yes=yes, as_json=as_json)
    raise typer.Exit(status)
