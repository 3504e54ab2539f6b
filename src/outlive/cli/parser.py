"""The one parser of the command line: words in, values by the parameters' names out. argparse, decision 170.

argparse reads; what it would misread it gets in a form without doubt (`_in_order`). It writes no help: `help_page` does.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from outlive.cli.parameters import Parameter, UsageError

_HELP_FLAGS = ("--help", "-h")


class HelpAsked(Exception):
    """`--help` stands among the words."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class _Help(argparse.Action):
    def __call__(self, *_: object, **__: object) -> NoReturn:
        raise HelpAsked


class _Formatter(argparse.HelpFormatter):
    """argparse asks one for each argument, only to see that its metavar is right."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=80)  # else it imports shutil to ask the terminal: 10 ms


def parse(parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any]:
    """Return the values of all parameters by their names.

    Args:
        parameters: What may stand there.
        words: Without the program's and the verb's name.

    Raises:
        UsageError: The words do not fit.
        HelpAsked: They ask for help.
    """
    parser = _Parser(
        add_help=False, allow_abbrev=False, formatter_class=_Formatter, argument_default=argparse.SUPPRESS
    )
    parser.add_argument(*_HELP_FLAGS, action=_Help, nargs=0)
    for one in parameters:
        _add(parser, one)
    given = vars(parser.parse_args(_in_order(parameters, words)))
    return {one.name: given.get(one.name, _default(one)) for one in parameters}


def _default(one: Parameter) -> object:
    return [] if one.kind == "many" else one.default


def _add(parser: argparse.ArgumentParser, one: Parameter) -> None:
    if one.kind == "switch":
        parser.add_argument(*one.flags, dest=one.name, action="store_const", const=True)
        if one.off:
            parser.add_argument(one.off, dest=one.name, action="store_const", const=False)
        return
    metavar = one.metavar.replace("%", "%%")
    if one.flags:
        action = "append" if one.kind == "many" else "store"
        parser.add_argument(*one.flags, dest=one.name, action=action, type=_reader(one), metavar=metavar)
    elif one.kind == "many":
        parser.add_argument(one.name, nargs="+" if one.is_required else "*", metavar=metavar)
    else:
        nargs = None if one.is_required else "?"
        parser.add_argument(one.name, nargs=nargs, type=_reader(one), metavar=metavar)


def _reader(one: Parameter) -> Any:  # noqa: ANN401 -- what argparse calls a type
    def read(text: str) -> object:
        try:
            return one.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _in_order(parameters: Sequence[Parameter], words: Sequence[str]) -> list[str]:
    """Return the flags first, each value tied to its flag, then `--` and the places.

    argparse takes a value that begins with a dash for a flag (`--grep -x`), and places among the flags differently in each
    of its versions.
    """
    valued = {flag for one in parameters if one.kind != "switch" for flag in one.flags}
    ends_flags = any(one.ends_flags for one in parameters)
    flags: list[str] = []
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            found += rest
        elif len(word) < 2 or not word.startswith("-"):
            found.append(word)
            if ends_flags:
                found += rest
        else:
            flags += _tied(word, valued, rest)
    return [*flags, "--", *found] if found else flags


def _tied(word: str, valued: set[str], rest: Iterator[str]) -> Iterator[str]:
    """Yield one word of flags as argparse cannot misread it: `-fn 5` as `-f` and `-n=5`."""
    if word.startswith("--"):
        value = next(rest, None) if word in valued else None
        yield word if value is None else f"{word}={value}"
        return
    for place, letter in enumerate(word[1:], start=2):
        flag = f"-{letter}"
        if flag in valued:
            value = word[place:].removeprefix("=") or next(rest, None)
            yield flag if value is None else f"{flag}={value}"
            return
        yield flag
