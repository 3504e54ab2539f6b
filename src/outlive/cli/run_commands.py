"""`run` and `attach` as typer knows them; what they do is in `foreground`."""

from typing import Annotated

import typer

from outlive.cli.flags import Json, StateDir

_NoStart = Annotated[
    bool,
    typer.Option(
        "--no-start", help="Fail where no server runs, instead of starting one.", show_default=False
    ),
]
_DetachKeys = Annotated[
    str,
    typer.Option(
        "--detach-keys",
        metavar="KEYS",
        help="Typed at a terminal, they leave it running: ctrl-<letter> or characters, separated by commas; "
        " for none.",
    ),
]


_Command = Annotated[
    list[str] | None,
    typer.Argument(metavar="[--] COMMAND...", help="A program and its arguments.", show_default=False),
]
_Line = Annotated[
    str | None,
    typer.Option("-c", "--shell", metavar="LINE", help="A shell line instead.", show_default=False),
]
_Detach = Annotated[
    bool, typer.Option("--detach", "-d", help="Print its id and leave it running.", show_default=False)
]
_Pty = Annotated[
    bool | None,
    typer.Option(
        "--pty/--no-pty",
        help="Give it a terminal, or not; by default where stdin and stdout are one.",
        show_default=False,
    ),
]
_Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout", metavar="SECONDS", help="End its tree then, and exit with 124.", show_default=False
    ),
]
_WaitFor = Annotated[
    str | None,
    typer.Option(
        "--wait-for",
        metavar="TEXT|:PORT",
        help="Return once its output contains the text, or it listens on the port; it runs on.",
        show_default=False,
    ),
]
_Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", metavar="NAME=VALUE", help="Names of yours, kept with it.", show_default=False),
]
_Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="NAME", help="Its group.", show_default=False)
]
_GroupLimit = Annotated[
    int | None,
    typer.Option(
        "--group-limit",
        min=1,
        metavar="COUNT",
        help="How many of the group run at once from now on; more wait.",
        show_default=False,
    ),
]
_Cwd = Annotated[
    str | None,
    typer.Option(
        "--cwd", metavar="FOLDER", help="Its working folder instead of this one.", show_default=False
    ),
]
_Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="Added to the environment.", show_default=False),
]
_Secrets = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="NAME",
        help="A variable of yours that is given to it and written nowhere.",
        show_default=False,
    ),
]
_Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="PROFILE",
        help="Its sandbox: open, guarded, workspace, offline or sealed; the server's default, or stronger.",
        show_default=False,
    ),
]
_Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=VALUE",
        help="What it may take, the server's bound or less: cpu=10m, cpus=1.5, memory=2G, files=256, processes=50.",
        show_default=False,
    ),
]
_Backend = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="Where it runs: local, docker, or the name of a node; the server's default else.",
        show_default=False,
    ),
]
_Image = Annotated[
    str | None,
    typer.Option("--image", metavar="IMAGE", help="The image of its container.", show_default=False),
]
_Isolation = Annotated[
    str | None,
    typer.Option(
        "--isolation",
        metavar="session|strict",
        help="A container that others share, or one of its own.",
        show_default=False,
    ),
]
_Grant = Annotated[
    str | None,
    typer.Option(
        "--grant",
        metavar="SCOPE[:TIME]",
        help="Let it use outlive itself while it runs, by a token in its OUTLIVE_TOKEN: read, run or admin; run:1h.",
        show_default=False,
    ),
]
_Grace = Annotated[
    float | None,
    typer.Option("--grace", metavar="SECONDS", help="Time between TERM and KILL.", show_default=False),
]


def _run(
    command: _Command = None,
    *,
    line: _Line = None,
    detach: _Detach = False,
    pty: _Pty = None,
    timeout: _Timeout = None,
    wait_for: _WaitFor = None,
    tag: _Tags = None,
    group: _Group = None,
    group_limit: _GroupLimit = None,
    cwd: _Cwd = None,
    env: _Env = None,
    secret: _Secrets = None,
    profile: _Profile = None,
    limit: _Limits = None,
    backend: _Backend = None,
    image: _Image = None,
    isolation: _Isolation = None,
    grant: _Grant = None,
    grace: _Grace = None,
    detach_keys: _DetachKeys = "ctrl-p,ctrl-q",
    state_dir: StateDir = None,
    no_start: _NoStart = False,
    as_json: Json = False,
) -> None:
    """Run a command as if outlive were not there: streams, signals, terminal, exit code; it outlives us all.

    outlive run -- make -j8     outlive run -d -- ./server     outlive run -c 'make 2>&1 | tee log'

    Exits as the command did. 124: its time was up, 125: outlive failed, 126: not executable, 127: not found.
    """
    from outlive.cli.foreground.plan import RunOptions  # noqa: PLC0415 -- start-up time
    from outlive.cli.foreground.run import run_command  # noqa: PLC0415 -- as above

    options = RunOptions(
        argv=tuple(command or ()),
        line=line,
        is_detached=detach,
        pty=pty,
        timeout_s=timeout,
        wait_for=wait_for,
        tags=tuple(tag or ()),
        group=group,
        group_limit=group_limit,
        cwd=cwd,
        env=tuple(env or ()),
        secrets=tuple(secret or ()),
        profile=profile,
        limits=tuple(limit or ()),
        backend=backend,
        image=image,
        isolation=isolation,
        grant=grant,
        grace_s=grace,
        detach_keys=detach_keys,
        as_json=as_json,
    )
    raise typer.Exit(run_command(options, state_dir=state_dir, no_start=no_start))


def _attach(
    name: Annotated[str, typer.Argument(metavar="PROCESS", help="An id, the end of one, or a pid.")],
    *,
    detach_keys: _DetachKeys = "ctrl-p,ctrl-q",
    read_only: Annotated[
        bool,
        typer.Option("--read-only", help="Look on: no keys, no input, no signals.", show_default=False),
    ] = False,
    state_dir: StateDir = None,
    no_start: _NoStart = False,
) -> None:
    """Bring a process that runs to the foreground: its last lines, what follows, your keys, its exit code.

    outlive attach 3k9x2m     outlive attach --read-only 3k9x2m
    """
    from outlive.cli.foreground.attach import attach_command  # noqa: PLC0415 -- as above

    code = attach_command(
        name, detach_keys=detach_keys, read_only=read_only, state_dir=state_dir, no_start=no_start
    )
    raise typer.Exit(code)


def add_run_verbs(app: typer.Typer) -> None:
    """Add the verbs to the program."""
    # What is behind the command's name is its own, dashes and all.
    app.command("run", context_settings={"allow_interspersed_args": False})(_run)
    app.command("attach")(_attach)
