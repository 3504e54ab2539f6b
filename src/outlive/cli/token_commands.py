"""token create, list and revoke as typer knows them; what they do is in `token_verbs`."""

from typing import Annotated

import typer

from outlive.cli.flags import Json, StateDir

_SCOPES = "read|run|admin|bridge"


def add_token_verbs(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    tokens = typer.Typer(
        help="Make and take back tokens, for callers that are not let in by their user.", no_args_is_help=True
    )
    tokens.command("create")(_create)
    tokens.command("list")(_list)
    tokens.command("revoke")(_revoke)
    app.add_typer(tokens, name="token")


def _create(
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="What it is called; else token-N.", show_default=False),
    ] = None,
    scope: Annotated[
        str, typer.Option("--scope", metavar=_SCOPES, help="How much who shows it may do.")
    ] = "run",
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="TIME", help="When it ends: 30d, 12h; else never.", show_default=False
        ),
    ] = None,
    as_user: Annotated[
        bool,
        typer.Option(
            "--as-user", help="What shows it acts as you, and sees your processes; else its own ones only."
        ),
    ] = False,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Make a token and show it, this once."""
    from outlive.cli.operator.token import create_token, parse_scope  # noqa: PLC0415 -- start-up time of `outlive --help`
    from outlive.config.values import parse_seconds  # noqa: PLC0415 -- as above
    from outlive.policy.access import Scope  # noqa: PLC0415 -- as above

    try:
        wanted = parse_scope(scope)
        expires_s = None if expires is None else parse_seconds(expires)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if as_user and wanted is Scope.BRIDGE:
        raise typer.BadParameter("a token of the scope bridge is an extension's: it never acts as you")
    create_token(state_dir, name, wanted, expires_s=expires_s, acts_as_user=as_user, as_json=as_json)


def _list(*, state_dir: StateDir = None, as_json: Json = False) -> None:
    """List tokens: names, scopes, ages, never the tokens themselves."""
    from outlive.cli.operator.token import list_tokens  # noqa: PLC0415 -- as above

    list_tokens(state_dir, as_json=as_json)


def _revoke(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="As `outlive token list` shows it.", show_default=False)
    ],
    *,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Take a token back: it counts no more, and what its holder has open ends."""
    from outlive.cli.operator.token import revoke_token  # noqa: PLC0415 -- as above

    revoke_token(state_dir, name, as_json=as_json)
