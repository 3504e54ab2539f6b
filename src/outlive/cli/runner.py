"""A command line from its words to its exit code: the server that is meant, the verb, what it is given, help, mistakes."""

import gc
import os
import sys
from collections.abc import Mapping, Sequence

from outlive import __version__
from outlive.cli.output import say, show
from outlive.cli.parameters import SERVER, Parameter, UsageError, places
from outlive.cli.parser import HelpAsked, parse
from outlive.cli.program import NAME, PROGRAM, Group, Verb, parameters_of

_MISTAKE = 2  # as shells count a wrong use of their own commands
_REST = places("rest", "", about="", is_required=False, ends_flags=True)


def run_program(words: Sequence[str]) -> int:
    """Run a command line and return its exit code.

    Raises:
        OutliveError: What the verb could not do.
    """
    return _run_group(PROGRAM, NAME, words)


def _run_group(group: Group, path: str, words: Sequence[str]) -> int:
    parameters = parameters_of(group)
    try:
        given = parse((*parameters, _REST), words)
    except HelpAsked:
        show(_group_page(group, path).rstrip("\n"))
        return 0
    except UsageError as error:
        return _refuse(path, parameters, error, is_group=True)
    if group is PROGRAM:
        if given["version"]:
            show(f"{NAME} {__version__}")
            return 0
        _use_server(given)
    name, *rest = given["rest"] or [""]
    if not name:
        say(_group_page(group, path).rstrip("\n"))
        return _MISTAKE
    if group is PROGRAM and "://" in os.environ.get("OUTLIVE_HOST", ""):
        from outlive.cli.far import check_verb  # noqa: PLC0415 -- most calls are to this machine's server

        check_verb(name)
    found = group.find(name)
    match found:
        case None:
            return _refuse(path, parameters, UsageError(f"No such command {name!r}."), is_group=True)
        case Group():
            return _run_group(found, f"{path} {name}", rest)
        case Verb():
            return _run_verb(found, f"{path} {name}", rest)


def _run_verb(verb: Verb, path: str, words: Sequence[str]) -> int:
    action = verb.action
    try:
        given = parse(action.parameters, words)
        # What was imported makes no garbage, and a short verb ends before there is any worth a look (`main`).
        gc.enable()
        return action.call(given)
    except HelpAsked:
        # Start-up time: it breaks lines, which takes `textwrap`.
        from outlive.cli.help.examples import EXAMPLES  # noqa: PLC0415
        from outlive.cli.help.help_page import help_page  # noqa: PLC0415

        about = f"{verb.about}\n\n{action.more}" if action.more else verb.about
        examples = EXAMPLES.get(path.removeprefix(f"{NAME} "), ())
        sys.stdout.write(help_page(path, about, action.parameters, examples=examples))
        return 0
    except UsageError as error:
        return _refuse(path, action.parameters, error, is_group=False)


def _use_server(given: Mapping[str, str | None]) -> None:
    """Take which server is meant into the environment, for the clients of all verbs and for what they start."""
    wanted = {"host": given["host"], "token_file": given["token_file"], "ca": given["ca"]}
    if any(wanted.values()):
        from outlive.cli.far import use_server  # noqa: PLC0415 -- most calls are to this machine's server

        use_server(**wanted)


def _group_page(group: Group, path: str) -> str:
    from outlive.cli.help.help_page import group_page  # noqa: PLC0415 -- as above

    verbs = [(one.name, one.about) for one in group.verbs]
    common = SERVER if group is PROGRAM else ()
    return group_page(
        path, group.about, parameters_of(group), verbs=verbs, topics=group.topics, common=common
    )


def _refuse(path: str, parameters: Sequence[Parameter], error: UsageError, *, is_group: bool) -> int:
    from outlive.cli.help.help_page import usage  # noqa: PLC0415 -- as above

    say(f"{usage(path, parameters, is_group=is_group)}\nTry '{path} --help' for help.\n\nError: {error}")
    return _MISTAKE
