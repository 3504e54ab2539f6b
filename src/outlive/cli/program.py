"""The verbs as typer knows them: names, flags and help; what they do is in modules of their own.

Those are imported when a verb is called: the shell's completion comes here at every press of its key.
The flags of `serve` are made from the table of `config.settings`, so help and behaviour cannot differ.
"""

import inspect
from typing import Annotated, Any

import typer

from outlive import __version__
from outlive.cli.audit_commands import add_audit_verbs
from outlive.cli.completion_words import candidates
from outlive.cli.container_commands import add_container_verbs
from outlive.cli.control_commands import add_control_verbs
from outlive.cli.flags import Json, StateDir, help_of
from outlive.cli.live_commands import add_live_verbs
from outlive.cli.output import say, show, show_json
from outlive.cli.policy_commands import add_policy_verbs
from outlive.cli.process_commands import add_process_verbs
from outlive.cli.record_commands import add_record_verbs
from outlive.cli.run_commands import add_run_verbs
from outlive.cli.setup_verbs import add_setup_verbs
from outlive.cli.terminal_commands import add_terminal_verbs
from outlive.cli.token_commands import add_token_verbs
from outlive.config import OPTIONS, Option
from outlive.core.errors import InvalidState
from outlive.discovery.state_folder import layout_of

_COMMAND = "outlive"

_app = typer.Typer(
    name=_COMMAND,
    help="Runs commands that outlive whoever asked for them: output and exit codes survive every crash.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes longer to import than everything else that help needs
    context_settings={"help_option_names": ["--help", "-h"]},  # of every verb below, too
)


@_app.callback()
def _server(
    *,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="URL",
            help="Talk to the server there instead of this machine's. Environment: OUTLIVE_HOST.",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Its token. Environment: OUTLIVE_TOKEN_FILE, or the token itself: OUTLIVE_TOKEN.",
            show_default=False,
        ),
    ] = None,
    ca: Annotated[
        str | None,
        typer.Option(
            "--ca",
            metavar="FILE",
            help="PEM file of the authorities that count for it. Environment: OUTLIVE_CA.",
            show_default=False,
        ),
    ] = None,
) -> None:
    # `main` has taken them into the environment: here they are for the help, and for what completes words.
    del host, token_file, ca


_keeper = typer.Typer(
    help="Look after the processes that look after the commands.", no_args_is_help=True, rich_markup_mode=None
)
_app.add_typer(_keeper, name="keeper")
_config = typer.Typer(help="Show how the server is set up.", no_args_is_help=True, rich_markup_mode=None)
_app.add_typer(_config, name="config")
add_run_verbs(_app)
add_process_verbs(_app)
add_control_verbs(_app)
add_live_verbs(_app)
add_record_verbs(_app)
add_policy_verbs(_app)
add_setup_verbs(_app)
add_terminal_verbs(_app)
add_token_verbs(_app)
add_container_verbs(_app)
add_audit_verbs(_app)


def run_verbs(words: list[str]) -> int:
    """Run the command line `words` and return its exit code.

    Raises:
        OutliveError: What the verb could not do.
    """
    try:
        _app(args=words, prog_name=_COMMAND)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def complete_words(words: list[str]) -> list[tuple[str, str]]:
    """Return what the last of these words may become, each with its help."""
    return candidates(typer.main.get_command(_app), words)


def _annotation(option: Option) -> object:
    if option.is_switch:
        return Annotated[bool, typer.Option(option.flag, help=help_of(option), show_default=False)]
    flag = typer.Option(option.flag, metavar=option.kind.upper(), help=help_of(option), show_default=False)
    return Annotated[str | None, flag]


def _parameter(option: Option) -> inspect.Parameter:
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if option.is_switch else None,
        annotation=_annotation(option),
    )


def _serve(**given: str | bool | None) -> None:
    """Start the server. Ctrl-C stops the server, not the processes."""
    from outlive.cli.server.serve import serve  # noqa: PLC0415 -- start-up time: completing imports this module

    flags = {
        name: "on" if value is True else value for name, value in given.items() if value not in {None, False}
    }
    raise typer.Exit(serve({name: str(value) for name, value in flags.items()}))


# typer reads the signature; this one is made from the table of options.
_serve.__signature__ = inspect.Signature([_parameter(option) for option in OPTIONS])  # type: ignore[attr-defined]
_app.command("serve")(_serve)


@_app.command("doctor")
def _doctor(*, state_dir: StateDir = None, as_json: Json = False) -> None:
    """Tell what this machine offers, what is degraded, and to what."""
    from outlive.cli.machine.doctor import run_doctor  # noqa: PLC0415 -- as above

    raise typer.Exit(run_doctor(layout_of(state_dir).root, as_json=as_json))


@_config.command("show")
def _config_show(
    *,
    state_dir: StateDir = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Tell where each value came from, too.", show_default=False)
    ] = False,
    as_json: Json = False,
) -> None:
    """Show every setting of a server that is started here and now."""
    from outlive.cli.operator.config import show_config  # noqa: PLC0415 -- as above

    show_config({} if state_dir is None else {"state_dir": state_dir}, with_origin=origin, as_json=as_json)


@_app.command("mcp")
def _mcp(*, state_dir: StateDir = None) -> None:
    """Speak MCP on stdin and stdout for a host, by way of the server, which is started if there is none."""
    from outlive.cli.server.mcp import relay_mcp  # noqa: PLC0415 -- as above

    raise typer.Exit(relay_mcp(state_dir))


@_keeper.command("status")
def _status(*, state_dir: StateDir = None, as_json: Json = False) -> None:
    """Tell who keeps the commands, how many live, and whether every descriptor is held twice."""
    from outlive.cli.server.keeper import read_status  # noqa: PLC0415 -- as above

    answer = read_status(layout_of(state_dir))
    if as_json:
        show_json(answer)
        return
    if "degraded" in answer:
        show(f"degraded    {answer['degraded']}: nothing can be started")
    pids: dict[str, Any] = {part: answer[part] for part in ("supervisor", "guardian")}
    if pids["supervisor"]["pid"] is None:
        show(f"No keeper runs; {answer['processes']} processes wait for one.")
        return
    show(f"supervisor  pid {pids['supervisor']['pid']}")
    show(f"guardian    pid {pids['guardian']['pid'] or '(on its way back)'}")
    show(f"processes   {answer['processes']}")
    show(
        f"redundant   {'yes: every descriptor is held twice' if answer['redundant'] else 'no, not at this moment'}"
    )
    show(f"protocol    version {answer['version']}")


@_keeper.command("upgrade")
def _upgrade(*, state_dir: StateDir = None, as_json: Json = False) -> None:
    """Replace the keeper by the installed version; every command goes on."""
    from outlive.cli.server.keeper import upgrade_keeper  # noqa: PLC0415 -- as above

    answer: dict[str, Any] = upgrade_keeper(layout_of(state_dir))
    if as_json:
        show_json(answer)
        return
    old, new = answer["old"], answer["new"]
    show(
        f"Upgraded in {answer['ms']} ms: supervisor {old['supervisor']} -> {new['supervisor']}, "
        f"guardian {old['guardian']} -> {new['guardian']}; {answer['processes']} processes went on."
    )


@_keeper.command("stop")
def _stop(
    *,
    state_dir: StateDir = None,
    kill: Annotated[
        bool, typer.Option("--kill", help="End the processes that live, too.", show_default=False)
    ] = False,
    as_json: Json = False,
) -> None:
    """End the keeper; refused while processes live, unless --kill. What does not end is named, and may be asked to end again."""
    from outlive.cli.server.keeper import stop_keeper  # noqa: PLC0415 -- as above

    try:
        has_run = stop_keeper(layout_of(state_dir), kill=kill)
    except InvalidState as error:
        if as_json:
            show_json({"stopped": False, **error.details})
        raise
    if as_json:
        show_json({"stopped": has_run})
    else:
        say("The keeper has ended." if has_run else "No keeper runs.")


@_keeper.command("run")
def _run(*, state_dir: StateDir = None) -> None:
    """Run the keeper in the foreground, for a unit of systemd; Ctrl-C ends this, not the keeper."""
    from outlive.cli.server.keeper_run import run_keeper  # noqa: PLC0415 -- as above

    raise typer.Exit(run_keeper(state_dir))


@_app.callback(invoke_without_command=True)
def _top(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", show_default=False)
    ] = False,
) -> None:
    if version:
        show(f"{_COMMAND} {__version__}")
        raise typer.Exit
