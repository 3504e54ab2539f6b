"""The one parser of the command line: words in, values by the parameters' names out. argparse, decision 170.

argparse reads the flags, and gets them in a form that it cannot misread. Two things it does differently in each of its versions, and are
done here: finding the places among the flags, and `--`. It writes no help: `help_page` does.
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
        if one.flags:
            _add(parser, one)
    flags, found = _apart(parameters, words)
    given = vars(parser.parse_args(flags))
    given |= _filled([one for one in parameters if not one.flags], found)
    return {one.name: given.get(one.name, _default(one)) for one in parameters}


def _default(one: Parameter) -> object:
    return [] if one.kind == "many" else one.default


def _add(parser: argparse.ArgumentParser, one: Parameter) -> None:
    if one.kind == "switch":
        parser.add_argument(*one.flags, dest=one.name, action="store_const", const=True)
        if one.off:
            parser.add_argument(one.off, dest=one.name, action="store_const", const=False)
        return

    def read(text: str) -> object:
        try:
            return one.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    action = "append" if one.kind == "many" else "store"
    parser.add_argument(*one.flags, dest=one.name, action=action, type=read)


def _apart(parameters: Sequence[Parameter], words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the flags, each value tied to its flag, and the words that are none."""
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
    return flags, found


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


def _filled(places: Sequence[Parameter], words: Sequence[str]) -> dict[str, object]:
    """Return what stands in each place: one word after the other, and all that are left in the one that takes many."""
    values: dict[str, object] = {}
    rest = list(words)
    for one in places:
        taken, rest = (rest, []) if one.kind == "many" else (rest[:1], rest[1:])
        if not taken and one.is_required:
            raise UsageError(f"Missing argument '{one.metavar}'.")
        try:
            read = [one.read(word) for word in taken]
        except ValueError as error:
            raise UsageError(f"Invalid value for '{one.metavar}': {error}.") from None
        if read:
            values[one.name] = read if one.kind == "many" else read[0]
    if rest:
        raise UsageError(f"Got unexpected extra argument(s) ({' '.join(rest)})")
    return values
