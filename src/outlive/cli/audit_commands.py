"""audit verify, audit show and audit begin as typer knows them; what they do is in `audit_verbs`."""

from typing import Annotated

import typer

from outlive.cli.flags import Json, StateDir
from outlive.discovery.state_folder import layout_of


def add_audit_verbs(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    audit = typer.Typer(
        help="Look at who did what: the audit log.", no_args_is_help=True, rich_markup_mode=None
    )
    audit.command("verify")(_verify)
    audit.command("show")(_show)
    audit.command("begin")(_begin)
    app.add_typer(audit, name="audit")


def _verify(
    *,
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            metavar="NUMBER:DIGEST",
            help="Look for an entry noted earlier, elsewhere, too.",
            show_default=False,
        ),
    ] = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Check that no entry was changed, removed or added."""
    from outlive.cli.operator.audit import verify_audit  # noqa: PLC0415 -- start-up time of `outlive --help`

    raise typer.Exit(verify_audit(layout_of(state_dir), known=head, as_json=as_json))


def _show(
    *,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="From this moment on: 10m, 14:30, a date.", show_default=False
        ),
    ] = None,
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="NAME", help="What one has done.", show_default=False)
    ] = None,
    process: Annotated[
        str | None,
        typer.Option("--process", metavar="ID", help="What happened to one process.", show_default=False),
    ] = None,
    state_dir: StateDir = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="A line of JSON for each entry, as it lies there.", show_default=False),
    ] = False,
) -> None:
    """Print entries, oldest first."""
    from outlive.cli.operator.audit import show_audit  # noqa: PLC0415 -- as above

    raise typer.Exit(
        show_audit(layout_of(state_dir), since=since, principal=principal, process=process, as_json=as_json)
    )


def _begin(*, state_dir: StateDir = None, as_json: Json = False) -> None:
    """Set a broken log aside, which is kept, and begin a new one; no server may run."""
    from outlive.cli.operator.audit import begin_audit  # noqa: PLC0415 -- as above

    raise typer.Exit(begin_audit(layout_of(state_dir), as_json=as_json))
