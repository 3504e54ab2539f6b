"""The one parser of the command line: words in, values by the parameters' names out. Decision 170.

Flags and places stand in any order. Writes no help: `help_page` does.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from outlive.cli.parameters import Parameter, UsageError

_HELP = Parameter("help", "switch", "", "", ("--help", "-h"))


class HelpAsked(Exception):
    """`--help` stands among the words."""


def parse(parameters: Sequence[Parameter], words: Sequence[str]) -> dict[str, Any]:
    """Return the values of all parameters by their names.

    Args:
        parameters: What may stand there.
        words: Without the program's and the verb's name.

    Raises:
        UsageError: The words do not fit.
        HelpAsked: They ask for help.
    """
    known = {
        flag: one for one in (_HELP, *parameters) for flag in (*one.flags, one.off, *one.other_flags) if flag
    }
    values: dict[str, Any] = {one.name: [] if one.kind == "many" else one.default for one in parameters}
    found: list[str] = []
    unknown: list[str] = []
    for flag, value in _flags_and_places(parameters, known, words):
        if flag is None:
            found.append(value or "")
        elif (one := known.get(flag)) is None:
            # Named at the end, all of them: a mistake in a flag that is known comes first, and so does
            # --help.
            unknown.append(flag if value is None else f"{flag}={value}")
        else:
            _take(one, flag, value, values)
    if unknown:
        flags = [word.partition("=")[0] for word in unknown]
        raise UsageError(f"unrecognized arguments: {' '.join(unknown)}", unknown=flags)
    return values | _filled([one for one in parameters if not one.flags], found)


def _take(one: Parameter, flag: str, value: str | None, values: dict[str, Any]) -> None:
    """Put what one flag says among the values."""
    name = flag if flag == one.off else "/".join(one.flags)
    if one.kind == "switch":
        if value is not None:
            raise UsageError(f"argument {name}: ignored explicit argument {value!r}")
        if one is _HELP:
            raise HelpAsked
        values[one.name] = flag != one.off
        return
    if value is None:
        raise UsageError(f"argument {name}: expected one argument")
    try:
        read = one.read(value)
    except ValueError as error:
        raise UsageError(f"argument {name}: {error}") from None
    values[one.name] = [*values[one.name], read] if one.kind == "many" else read


def _flags_and_places(
    parameters: Sequence[Parameter], known: dict[str, Parameter], words: Sequence[str]
) -> Iterator[tuple[str | None, str | None]]:
    """Yield each flag with its value, if it has one, and for each word that is no flag (None, the word)."""
    ends_flags = any(one.ends_flags for one in parameters)
    rest = iter(words)
    for word in rest:
        if word == "--":
            yield from ((None, one) for one in rest)
        elif len(word) < 2 or not word.startswith("-"):
            yield None, word
            if ends_flags:
                yield from ((None, one) for one in rest)
        elif word.startswith("--"):
            flag, equals, value = word.partition("=")
            # A value may begin with a dash itself (`--grep -v`): the next word is the value, whatever it is.
            yield flag, value if equals else next(rest, None) if _is_valued(known, flag) else None
        else:
            yield from _short_flags(word, known, rest)


def _short_flags(
    word: str, known: dict[str, Parameter], rest: Iterator[str]
) -> Iterator[tuple[str, str | None]]:
    """Yield the flags of one word: `-fn5` and `-fn 5` are `-f` and `-n` with 5."""
    for place, letter in enumerate(word[1:], start=2):
        if _is_valued(known, flag := f"-{letter}"):
            yield flag, word[place:].removeprefix("=") or next(rest, None)
            return
        yield flag, None


def _is_valued(known: dict[str, Parameter], flag: str) -> bool:
    return flag in known and known[flag].kind != "switch"


def _filled(places: Sequence[Parameter], words: Sequence[str]) -> dict[str, object]:
    """Return what stands in each place: one word after the other, and all that are left in the one that takes
    many.
    """
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
