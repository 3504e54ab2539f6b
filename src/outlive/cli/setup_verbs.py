"""The verbs that set outlive up on a machine, as typer knows them: `install`, `service` and `completion`.

What they do is imported when they are called: completing their words must not wait for it.
"""

from typing import Annotated

import typer

from outlive.cli.completion import SHELLS, install_completion
from outlive.cli.flags import DryRun, Json, StateDir, choice
from outlive.cli.machine.hosts import HOSTS, is_name

_System = Annotated[
    bool,
    typer.Option(
        "--system/--user", help="The units of the machine, or (the default) your own.", show_default=False
    ),
]


def add_setup_verbs(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("install")(_install)
    app.command("completion")(_completion)
    service = typer.Typer(
        help="Have systemd look after keeper and server, each in a unit.", no_args_is_help=True
    )
    service.command("install")(_service_install)
    service.command("uninstall")(_service_uninstall)
    service.command("status")(_service_status)
    app.add_typer(service, name="service")


def _install(
    host: Annotated[str, choice(tuple(HOSTS), help_text="The program that is to run `outlive mcp`.")],
    *,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the host calls it.")] = "outlive",
    project: Annotated[
        bool,
        typer.Option(
            "--project", help="In the project of this folder, not for all of yours.", show_default=False
        ),
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take it out again.", show_default=False)] = False,
    dry_run: DryRun = False,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Have an MCP host run outlive: write its configuration, keeping everything else in it."""
    from outlive.cli.machine.install import install_host  # noqa: PLC0415 -- start-up time: completing imports this module
    from outlive.cli.machine.own_command import program_words  # noqa: PLC0415 -- as above
    from outlive.discovery.state_folder import layout_of  # noqa: PLC0415 -- as above

    if not is_name(name):
        raise typer.BadParameter("a name has 1 to 64 letters, digits, - and _.", param_hint="--name")
    folder = [] if state_dir is None else ["--state-dir", layout_of(state_dir).root]
    install_host(
        host,
        name,
        program=[*program_words(), "mcp", *folder],
        in_project=project,
        remove=remove,
        dry_run=dry_run,
        as_json=as_json,
    )


def _service_install(
    *,
    system: _System = False,
    account: Annotated[
        str, typer.Option("--account", metavar="NAME", help="Who runs the units of the machine.")
    ] = "outlive",
    state_dir: StateDir = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Write both units; start the server now and at every boot."""
    from outlive.cli.machine.service import install_service  # noqa: PLC0415 -- as above

    code = install_service(
        "system" if system else "user",
        account=account,
        state_dir=state_dir,
        dry_run=dry_run,
        as_json=as_json,
    )
    raise typer.Exit(code)


def _service_uninstall(*, system: _System = False, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Stop the server and remove both units; what runs lives on."""
    from outlive.cli.machine.service import uninstall_service  # noqa: PLC0415 -- as above

    raise typer.Exit(uninstall_service("system" if system else "user", dry_run=dry_run, as_json=as_json))


def _service_status(*, system: _System = False, state_dir: StateDir = None, as_json: Json = False) -> None:
    """Tell whether both units are active, and what the keeper keeps."""
    from outlive.cli.machine.service import service_status  # noqa: PLC0415 -- as above

    raise typer.Exit(service_status("system" if system else "user", state_dir=state_dir, as_json=as_json))


def _completion(
    shell: Annotated[str, choice(tuple(SHELLS), help_text="The shell to complete in.")],
    *,
    install: Annotated[
        bool, typer.Option("--install", help="Write it where the shell looks for it.", show_default=False)
    ] = False,
    as_json: Json = False,
) -> None:
    """Print what makes a shell complete outlive's words."""
    install_completion(shell, install=install, as_json=as_json)
