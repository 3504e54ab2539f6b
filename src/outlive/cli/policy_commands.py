"""approvals, approve, deny and policy check as typer knows them; what they do is imported when they are called."""

from typing import Annotated

import typer

from outlive.cli.flags import Json, NoStart, StateDir
from outlive.discovery.state_folder import layout_of

_Names = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Ids, or ends of ids, of what waits for an approval.")
]


def add_policy_verbs(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    app.command("approvals")(_approvals)
    app.command("approve")(_approve)
    app.command("deny")(_deny)
    policy = typer.Typer(help="Ask what the rules say.", no_args_is_help=True, rich_markup_mode=None)
    policy.command("check")(_check)
    policy.callback()(_policy)
    app.add_typer(policy, name="policy")


def _policy() -> None:
    """Ask what the rules say."""  # a callback, so that `check` stays a word of its own


def _approvals(
    *,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Hide no secrets in the words, and no values of variables.", show_default=False
        ),
    ] = False,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """List what waits for a person's approval: who wants to start what, and until when."""
    from outlive.cli.operator.approvals import list_approvals  # noqa: PLC0415 -- start-up time of `outlive --help`
    from outlive.cli.processes import connected  # noqa: PLC0415 -- as above

    if raw:
        from outlive.cli.operator.raw_output import check_raw  # noqa: PLC0415 -- as above

        check_raw(layout_of(state_dir))
    with connected(state_dir, no_start=no_start) as client:
        raise typer.Exit(list_approvals(client, raw=raw, as_json=as_json))


def _approve(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="DIGEST|ID...",
            help="What `outlive approvals` shows behind yes; at a terminal also ids, or ends of ids: each is shown and asked.",
        ),
    ],
    *,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Let commands start that wait for an approval, exactly as they were shown."""
    from outlive.cli.operator.approvals import approve  # noqa: PLC0415 -- as above
    from outlive.cli.processes import connected  # noqa: PLC0415 -- as above

    with connected(state_dir, no_start=no_start) as client:
        raise typer.Exit(approve(client, names, as_json=as_json))


def _deny(
    names: _Names,
    *,
    reason: Annotated[
        str,
        typer.Option("--reason", metavar="TEXT", help="One sentence for whoever asked.", show_default=False),
    ] = "",
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Refuse commands that wait for an approval: they never run."""
    from outlive.cli.operator.approvals import deny  # noqa: PLC0415 -- as above
    from outlive.cli.processes import connected  # noqa: PLC0415 -- as above

    with connected(state_dir, no_start=no_start) as client:
        status = deny(client, names, reason=reason, as_json=as_json)
    raise typer.Exit(status)


def _check(
    words: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="One word is a shell line, several are a program's words."),
    ],
    *,
    cwd: Annotated[
        str | None,
        typer.Option("--cwd", metavar="FOLDER", help="Where it would run.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain what the rules say about a command, and start nothing: 0 it may run, 3 it is asked about, 4 it may not."""
    from outlive.cli.operator.policy import check_policy  # noqa: PLC0415 -- as above

    raise typer.Exit(check_policy(words, flags={}, cwd=cwd, as_json=as_json))
