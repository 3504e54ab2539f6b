"""ps, inspect, wait, send and logs as typer knows them; what they do is in `process_verbs` and `logs`."""

from typing import Annotated

import typer

from outlive.cli.flags import Group, Json, NoStart, StateDir, Tags
from outlive.discovery.state_folder import layout_of

_Name = Annotated[str, typer.Argument(metavar="ID", help="An id, the end of one, or a pid.")]


def _ps(
    *,
    all_of_them: Annotated[
        bool, typer.Option("--all", "-a", help="Those that have ended, too.", show_default=False)
    ] = False,
    group: Group = None,
    tag: Tags = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many.")] = 50,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """List processes, newest first."""
    from outlive.cli.processes import connected, list_processes  # noqa: PLC0415 -- as above

    with connected(state_dir, no_start=no_start) as client:
        status = list_processes(
            client, all_of_them=all_of_them, group=group, tags=tag or [], limit=limit, as_json=as_json
        )
    raise typer.Exit(status)


def _inspect(
    names: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, ends of ids, or pids.")],
    *,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Tell everything about processes."""
    from outlive.cli.processes import connected, inspect  # noqa: PLC0415 -- as above

    with connected(state_dir, no_start=no_start) as client:
        status = inspect(client, names, as_json=as_json)
    raise typer.Exit(status)


def _wait(
    names: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids, ends of ids, or pids.")],
    *,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="Wait no longer.", show_default=False)
    ] = None,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Wait for the end; exit as the process did (128 + signal; 124 when the time is up)."""
    from outlive.cli.processes import connected, wait_for  # noqa: PLC0415 -- as above

    with connected(state_dir, no_start=no_start) as client:
        status = wait_for(client, names, timeout_s=timeout, as_json=as_json)
    raise typer.Exit(status)


def _send(
    name: _Name,
    text: Annotated[
        str | None,
        typer.Argument(metavar="[TEXT]", help="What to write, a newline behind it.", show_default=False),
    ] = None,
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="KEY", help="enter, tab, escape, ctrl-c, ctrl-d, ctrl-z.", show_default=False
        ),
    ] = None,
    eof: Annotated[
        bool, typer.Option("--eof", help="Close the input behind it.", show_default=False)
    ] = False,
    no_newline: Annotated[
        bool, typer.Option("--no-newline", "-n", help="No newline behind the text.", show_default=False)
    ] = False,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Write to a process's input."""
    from outlive.cli.processes import connected, send_input  # noqa: PLC0415 -- as above

    with connected(state_dir, no_start=no_start) as client:
        status = send_input(
            client, name, text=text, keys=key or [], eof=eof, newline=not no_newline, as_json=as_json
        )
    raise typer.Exit(status)


def _logs(
    name: _Name,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the end.", show_default=False)
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Begin at a moment (10m ago, 14:30, 2026-01-31T12:00) or behind a cursor.",
            show_default=False,
        ),
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option("--tail", min=0, metavar="LINES", help="Only the last lines.", show_default=False),
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="TEXT", help="Only lines that contain it.", show_default=False),
    ] = None,
    context: Annotated[
        int, typer.Option("--context", "-C", min=0, max=100, help="Lines around each match.")
    ] = 0,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="Letters in either case.", show_default=False)
    ] = False,
    stream: Annotated[
        str, typer.Option("--stream", metavar="stdout|stderr|both", help="Only one of them.")
    ] = "both",
    raw: Annotated[
        bool, typer.Option("--raw", help="Hide no keys and passwords.", show_default=False)
    ] = False,
    state_dir: StateDir = None,
    no_start: NoStart = False,
    as_json: Json = False,
) -> None:
    """Print a process's output: its stdout to stdout, its stderr to stderr."""
    from outlive.cli.logs.log_view import LogView  # noqa: PLC0415 -- start-up time of `outlive --help`
    from outlive.cli.logs.logs import show_logs  # noqa: PLC0415 -- as above

    if stream not in {"stdout", "stderr", "both"}:
        raise typer.BadParameter("stdout, stderr or both", param_hint="--stream")
    view = LogView(
        follow=follow,
        since=since,
        tail=tail,
        grep=grep,
        context=context,
        ignore_case=ignore_case,
        stream=stream,
        as_json=as_json,
        raw=raw,
    )
    raise typer.Exit(show_logs(layout_of(state_dir), name, view, state_dir=state_dir, no_start=no_start))


def add_process_verbs(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    app.command("ps")(_ps)
    app.command("logs")(_logs)
    app.command("inspect")(_inspect)
    app.command("wait")(_wait)
    app.command("send")(_send)
