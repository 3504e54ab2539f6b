"""The verbs as typer knows them: names, flags and help; what they do is in `serve`, `keeper_verbs` and `doctor`.

The flags of `serve` are made from the table of `config.settings`, so help and behaviour cannot differ.
"""

import inspect
from typing import Annotated, Any

import typer

from outlive import __version__
from outlive.cli.config_verbs import show_config
from outlive.cli.doctor import run_doctor
from outlive.cli.keeper_verbs import read_status, stop_keeper, upgrade_keeper
from outlive.cli.mcp import relay_mcp
from outlive.cli.output import say, show, show_json
from outlive.cli.serve import serve
from outlive.config import OPTIONS, Option
from outlive.presence.state_folder import STATE_DIR, layout_of

__all__ = ["run_verbs"]

_COMMAND = "outlive"

_app = typer.Typer(
    name=_COMMAND,
    help="Runs commands that outlive whoever asked for them: output and exit codes survive every crash.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_keeper = typer.Typer(help="Look after the processes that look after the commands.", no_args_is_help=True)
_app.add_typer(_keeper, name="keeper")
_config = typer.Typer(help="Show how the server is set up.", no_args_is_help=True)
_app.add_typer(_config, name="config")


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


def _help_of(option: Option) -> str:
    words = [option.sentence]
    if option.default and not option.is_switch:
        words.append(f"Default {option.default}.")
    words.append(f"Environment: {', '.join(option.env)}.")
    return " ".join(words)


def _annotation(option: Option) -> object:
    if option.is_switch:
        return Annotated[bool, typer.Option(option.flag, help=_help_of(option), show_default=False)]
    flag = typer.Option(option.flag, metavar=option.kind.upper(), help=_help_of(option), show_default=False)
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
    flags = {
        name: "on" if value is True else value for name, value in given.items() if value not in {None, False}
    }
    raise typer.Exit(serve({name: str(value) for name, value in flags.items()}))


# typer reads the signature; this one is made from the table of options.
_serve.__signature__ = inspect.Signature([_parameter(option) for option in OPTIONS])  # type: ignore[attr-defined]
_app.command("serve")(_serve)

_StateDir = Annotated[
    str | None, typer.Option(STATE_DIR.flag, metavar="FOLDER", help=_help_of(STATE_DIR), show_default=False)
]
_Json = Annotated[bool, typer.Option("--json", help="Answer with one line of JSON.", show_default=False)]


@_app.command("doctor")
def _doctor(*, state_dir: _StateDir = None, as_json: _Json = False) -> None:
    """Tell what this machine offers, what is degraded, and to what."""
    raise typer.Exit(run_doctor(layout_of(state_dir).root, as_json=as_json))


@_config.command("show")
def _config_show(
    *,
    state_dir: _StateDir = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Tell where each value came from, too.", show_default=False)
    ] = False,
    as_json: _Json = False,
) -> None:
    """Show every setting of a server that is started here and now."""
    show_config({} if state_dir is None else {"state_dir": state_dir}, with_origin=origin, as_json=as_json)


@_app.command("mcp")
def _mcp(*, state_dir: _StateDir = None) -> None:
    """Speak MCP on stdin and stdout for a host, by way of the server, which is started if there is none."""
    raise typer.Exit(relay_mcp(state_dir))


@_keeper.command("status")
def _status(*, state_dir: _StateDir = None, as_json: _Json = False) -> None:
    """Tell who keeps the commands, how many live, and whether every descriptor is held twice."""
    answer = read_status(layout_of(state_dir))
    if as_json:
        show_json(answer)
        return
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
def _upgrade(*, state_dir: _StateDir = None, as_json: _Json = False) -> None:
    """Replace the keeper by the installed version; every command goes on."""
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
    state_dir: _StateDir = None,
    kill: Annotated[
        bool, typer.Option("--kill", help="End the processes that live, too.", show_default=False)
    ] = False,
) -> None:
    """End the keeper; refused while processes live, unless --kill."""
    say("The keeper has ended." if stop_keeper(layout_of(state_dir), kill=kill) else "No keeper runs.")


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
