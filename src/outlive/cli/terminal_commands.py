"""terminal ls, new, exec, send, read, attach and close as typer knows them; what they do is in `terminal_verbs`."""

from typing import Annotated

import typer

from outlive.cli.flags import Json, NoStart, StateDir

_Which = Annotated[str, typer.Argument(metavar="TERMINAL", help="An id, the end of one, or a name.")]


def add_terminal_verbs(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    terminals = typer.Typer(
        help="Use terminals: shells that stay, for people and agents.", no_args_is_help=True
    )
    terminals.command("ls")(_ls)
    terminals.command("new")(_new)
    # What is behind the command's name is its own, dashes and all.
    terminals.command("exec", context_settings={"allow_interspersed_args": False})(_exec)
    terminals.command("send")(_send)
    terminals.command("read")(_read)
    terminals.command("attach")(_attach)
    terminals.command("close")(_close)
    app.add_typer(terminals, name="terminal")


def _ls(*, state_dir: StateDir = None, no_start: NoStart = False, as_json: Json = False) -> None:
    """List those that are open."""
    from outlive.cli.verbs.terminal import list_terminals  # noqa: PLC0415 -- start-up time of `outlive --help`

    list_terminals(state_dir, no_start=no_start, as_json=as_json)


def _new(
    *,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help='What it is called; else "MCP Terminal N".', show_default=False
        ),
    ] = None,
    target: Annotated[
        str, typer.Option("--target", metavar="engine|vscode", help="Where it is: here, or in VS Code.")
    ] = "engine",
    shell: Annotated[
        str | None,
        typer.Option(
            "--shell", metavar="PROGRAM", help="Its shell; else the server's own.", show_default=False
        ),
    ] = None,
    cwd: Annotated[
        str | None,
        typer.Option("--cwd", metavar="FOLDER", help="Where it begins; else here.", show_default=False),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="PROFILE", help="Its sandbox; else the server's default.", show_default=False
        ),
    ] = None,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Open one and print its id."""
    from outlive.cli.verbs.terminal import new_terminal  # noqa: PLC0415 -- as above

    wanted = {"terminal_name": name, "target": target, "shell": shell, "cwd": cwd, "profile": profile}
    new_terminal(state_dir, wanted, no_start=no_start, as_json=as_json)


def _exec(
    words: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="As typed at its prompt; words are joined by spaces."),
    ],
    *,
    terminal: Annotated[
        str | None,
        typer.Option(
            "--terminal",
            "-t",
            metavar="TERMINAL",
            help="Which; else the one used last, the newest, or a new one.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout", metavar="SECONDS", help="How long to wait for its end (45).", show_default=False
        ),
    ] = None,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Run a command there; print what it printed, and exit as it did (124: it still runs)."""
    from outlive.cli.verbs.terminal import execute_there  # noqa: PLC0415 -- as above

    code = execute_there(
        state_dir, terminal, " ".join(words), wait_s=timeout, no_start=no_start, as_json=as_json
    )
    raise typer.Exit(code)


def _send(
    terminal: _Which,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="What is typed.", show_default=False)
    ] = None,
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="KEY", help="Then this key: enter, tab, ctrl-c, up.", show_default=False
        ),
    ] = None,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Type into one, whatever runs there."""
    from outlive.cli.verbs.terminal import send_to  # noqa: PLC0415 -- as above

    if text is None and not key:
        raise typer.BadParameter("TEXT or --key is needed")
    send_to(state_dir, terminal, text, key or [], no_start=no_start, as_json=as_json)


def _read(
    terminal: _Which,
    *,
    form: Annotated[
        str,
        typer.Option(
            "--form", metavar="clean|screen|raw", help="Plain text, what a person sees now, or as it came."
        ),
    ] = "clean",
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Print what one shows, open or closed."""
    from outlive.cli.verbs.terminal import read_terminal  # noqa: PLC0415 -- as above

    read_terminal(state_dir, terminal, form, no_start=no_start, as_json=as_json)


def _attach(
    terminal: _Which,
    *,
    detach_keys: Annotated[
        str, typer.Option("--detach-keys", metavar="KEYS", help="What leaves it, which lives on.")
    ] = "ctrl-p,ctrl-q",
    state_dir: StateDir = None,
    no_start: NoStart = False,
) -> None:
    """Bring one to the foreground, as `outlive attach` does a process."""
    from outlive.cli.verbs.terminal import attach_terminal  # noqa: PLC0415 -- as above

    raise typer.Exit(attach_terminal(state_dir, terminal, detach_keys=detach_keys, no_start=no_start))


def _close(
    terminals: Annotated[
        list[str], typer.Argument(metavar="TERMINAL...", help="Ids, ends of ids, or names.")
    ],
    *,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Close them: their shells and what runs there end."""
    from outlive.cli.verbs.terminal import close_terminals  # noqa: PLC0415 -- as above

    close_terminals(state_dir, terminals, no_start=no_start, as_json=as_json)
