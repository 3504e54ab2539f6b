"""A command line from its words to its exit code: the server that is meant, the verb, what it is given, help,
mistakes.
"""

import gc
import os
from collections.abc import Mapping, Sequence
from typing import Any

from outlive import __version__
from outlive.cli.help.aliases import (
    ALIAS_LINE,
    SUGGESTIONS,
    about_alias,
    about_flag,
    of_screen,
    suggestion,
    translated,
)
from outlive.cli.output import hint_of, masked, say, say_fault, show
from outlive.cli.parameters import SERVER, Action, Parameter, UsageError, places
from outlive.cli.parser import HelpAsked, parse
from outlive.cli.program import (
    NAME,
    PROGRAM,
    SERVER_PARAMETERS,
    TOP_PARAMETERS,
    Group,
    Verb,
    parameters_of,
    program,
)
from outlive.core.errors import OutliveError

_MISTAKE = 2  # as shells count a wrong use of their own commands
_REST = places("rest", "", about="", is_required=False, ends_flags=True)
_BEHIND = "behind "  # of a parameter's name, which no argument of a verb has
# Which server is meant may be said behind the verb, too.
_SERVER_BEHIND = tuple(one._replace(name=f"{_BEHIND}{one.name}", is_hidden=True) for one in SERVER_PARAMETERS)


def run_program(words: Sequence[str]) -> int:
    """Run a command line and return its exit code.

    Raises:
        OutliveError: What the verb could not do.
    """
    return _run_group(PROGRAM, NAME, of_screen(words))


def _run_group(group: Group, path: str, words: Sequence[str]) -> int:
    parameters = parameters_of(group)
    try:
        given = parse((*parameters, _REST), words)
    except HelpAsked:
        show(*_group_page(group, path).splitlines())
        return 0
    except UsageError as error:
        return _refuse(path, parameters, error, is_group=True)
    if group is PROGRAM:
        if given["version"]:
            show(f"{NAME} {__version__}")
            return 0
        _use_server(given)
    name, *rest = (translated(given["rest"]) if group is PROGRAM else given["rest"]) or [""]
    if group is PROGRAM and name in {"help", "version"}:
        show(*about_alias(rest))
        return _run_group(group, path, [*rest, "--help"] if name == "help" else ["--version"])
    if not name:
        say(*_group_page(group, path).splitlines())
        return _MISTAKE
    found = group.find(name)
    if found is None and group is PROGRAM:
        found = program().find(name)
    match found:
        case None:
            text = f"No such command {name!r}. {_meant(group, given['rest'])}".rstrip()
            return _refuse(path, parameters, UsageError(text), is_group=True)
        case Group():
            return _run_group(found, f"{path} {name}", rest)
        case Verb():
            return _run_verb(found, f"{path} {name}", rest)


def _run_verb(verb: Verb, path: str, words: Sequence[str]) -> int:
    action = verb.action
    try:
        own = {
            flag for one in action.parameters for flag in one.flags
        }  # `serve --host` is what it listens on
        behind = [one for one in _SERVER_BEHIND if own.isdisjoint(one.flags)]
        server, given = _split_server(parse((*behind, *action.parameters), words))
        _use_server(server)
        if "://" in os.environ.get("OUTLIVE_HOST", ""):
            from outlive.cli.far import check_verb  # noqa: PLC0415 -- most calls are to this machine's server

            name = path.split()[1]
            found = PROGRAM.find(name) or program().find(name)
            check_verb(name, is_local=found is not None and found.is_local)
        # What was imported makes no garbage, and a short verb ends before there is any worth a look (`main`).
        # Frozen, it is not looked at again: that takes 3 ms, and what a verb imports causes one look.
        gc.freeze()
        gc.enable()
        return _call(action, given, path)
    except HelpAsked:
        # Start-up time: it breaks lines, which takes `textwrap`.
        from outlive.cli.help.examples import examples_of  # noqa: PLC0415
        from outlive.cli.help.help_page import help_page  # noqa: PLC0415

        page = help_page(path, verb.explanation, action.parameters, examples=examples_of(path, verb))
        show(*page.splitlines())
        return 0
    except UsageError as error:
        return _refuse(path, action.parameters, error, is_group=False)


def _call(action: Action[...], given: Mapping[str, Any], path: str) -> int:
    """Call a verb; what it says to do next names this verb, and the process as the user has."""
    import threading  # noqa: PLC0415 -- start-up time: help and completion have no threads

    threading.excepthook = lambda fault: say_fault(fault.exc_type, fault.exc_value, fault.exc_traceback)
    try:
        return action.call(given)
    except OutliveError as error:
        name, names = given.get("name"), given.get("names")
        name = names[0] if isinstance(names, list) and len(names) == 1 else name
        word = name if isinstance(name, str) else ""
        error.hint = hint_of(error, verb=path.removeprefix(f"{NAME} "), word=word)
        raise


def _split_server(given: Mapping[str, Any]) -> tuple[dict[str, str | None], dict[str, Any]]:
    """Return what a verb's words say of the server that is meant, and the rest of them."""
    server = {one.name: given.get(f"{_BEHIND}{one.name}") for one in SERVER_PARAMETERS}
    return server, {name: value for name, value in given.items() if not name.startswith(_BEHIND)}


def _meant(group: Group, words: Sequence[str]) -> str:
    """Return a sentence on what to type instead of words whose first is no verb."""
    if group is not PROGRAM:
        return f"There are: {', '.join(one.name for one in group.verbs)}."
    import shlex  # noqa: PLC0415 -- start-up time: only a mistake needs these
    import shutil  # noqa: PLC0415

    words = [word for word in words if word != "--help"]
    process = words[-1] if len(words) < 3 and _is_process(words[-1]) else None
    said = suggestion(words, [one.name for one in program().verbs])
    if process is not None:
        said = said.replace(" ID`", f" {process}`").replace(" NAME`", f" {process}`")
        if not said or len(words) == 1:
            shown = f"`outlive inspect {process}` shows it, `outlive logs {process}` its output."
            said = f"{process!r} is a process: {shown} {said}"
    if words[0] not in SUGGESTIONS and shutil.which(words[0]):
        said = f"{said} To run a program: `outlive run -- {shlex.join(words)}`."
    return said.strip()


def _is_process(word: str) -> bool:
    from outlive.cli.parameters import ServerFlags  # noqa: PLC0415 -- start-up time, as above
    from outlive.cli.processes import connected, find_process  # noqa: PLC0415

    try:
        with connected(ServerFlags(state_dir=None, no_start=True, as_json=False)) as client:
            find_process(client, word)
    except OutliveError:
        return False
    return True


def _use_server(given: Mapping[str, str | None]) -> None:
    """Take which server is meant into the environment, for the clients of all verbs and for what they
    start.
    """
    if (folder := given.get("state_dir")) is not None:
        os.environ["OUTLIVE_STATE_DIR"] = os.path.abspath(folder)
    wanted = {one.name: given[one.name] for one in SERVER_PARAMETERS}
    if any(wanted.values()):
        from outlive.cli.far import use_server  # noqa: PLC0415 -- most calls are to this machine's server

        use_server(**wanted)


def _group_page(group: Group, path: str) -> str:
    from outlive.cli.help.help_page import group_page  # noqa: PLC0415 -- as above

    is_program = group is PROGRAM
    group = program() if is_program else group
    verbs = [(one.name, one.about) for one in group.verbs]
    # What may stand before a verb as well is explained once.
    common = [one for one in SERVER if one not in TOP_PARAMETERS] if is_program else ()
    page = group_page(
        path, group.about, parameters_of(group), verbs=verbs, topics=group.topics, common=common
    )
    return f"{page}{ALIAS_LINE}\n" if is_program else page


def _refuse(path: str, parameters: Sequence[Parameter], error: UsageError, *, is_group: bool) -> int:
    from outlive.cli.help.help_page import usage  # noqa: PLC0415 -- as above

    said = masked(str(error))
    sentence = said if said.endswith((".", "?", "!")) else f"{said}."
    verb = path.removeprefix(NAME).strip()
    about = dict.fromkeys(about_flag(verb, flag) for flag in error.unknown)
    more = "".join(f" {words}" for words in about if words)
    say(
        *usage(path, parameters, is_group=is_group).splitlines(),
        f"Try '{path} --help' for help.",
        "",
        f"Error: {sentence}{more}",
    )
    return _MISTAKE
