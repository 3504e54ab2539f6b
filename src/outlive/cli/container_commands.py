"""containers ls and rm as typer knows them; what they do is in `container_verbs`."""

from typing import Annotated

import typer

from outlive.cli.flags import Json, StateDir


def add_container_verbs(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    containers = typer.Typer(
        help="Look after the containers that outlive has made for commands.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    containers.command("ls")(_list)
    containers.command("rm")(_remove)
    app.add_typer(containers, name="containers")


def _list(*, state_dir: StateDir = None, as_json: Json = False) -> None:
    """List the state folder's containers: image, age, state, and the processes that live in them."""
    from outlive.cli.operator.containers import list_containers  # noqa: PLC0415 -- start-up time of `outlive --help`

    list_containers(state_dir, as_json=as_json)


def _remove(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="Names, or their beginnings, as `outlive containers ls` shows them.",
            show_default=False,
        ),
    ],
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also where processes live in it: they are killed.")
    ] = False,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Remove containers, and all that is in them but mounted folders; the next command makes one anew."""
    from outlive.cli.operator.containers import remove_containers  # noqa: PLC0415 -- as above

    raise typer.Exit(remove_containers(state_dir, names, force=force, as_json=as_json))
