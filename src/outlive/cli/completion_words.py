"""Which words may stand at the end of an unfinished command line: read from the tree of verbs. Pure.

Not typer's own way: that parses the line, for which it imports pydantic, and so takes three times as long as typer itself
at every press of the key.
"""

from collections.abc import Sequence
from typing import Any

from typer.core import TyperArgument, TyperGroup, TyperOption


def candidates(command: Any, words: Sequence[str]) -> list[tuple[str, str]]:  # noqa: ANN401 -- typer names no type for it
    """Return (word, help) for everything that the last of `words` may become; nothing means a file, or anything.

    An argument's choices are what its metavar lists: "a|b|c".
    """
    *before, unfinished = words or [""]
    place = 0  # among the arguments
    wanted: TyperOption | None = None  # the option whose value comes next
    for word in before:
        if wanted is not None:
            wanted = None
        elif word.startswith("-"):
            option = _options(command).get(word)
            wanted = option if option is not None and not option.is_flag else None
        elif isinstance(command, TyperGroup):
            if word not in command.commands:
                return []
            command = command.commands[word]
        else:
            place += 1
    if wanted is not None:
        found = _choices(wanted)
    elif unfinished.startswith("-"):
        found = [(name, option.help or "") for name, option in _options(command).items()] + [("--help", "")]
    elif isinstance(command, TyperGroup):
        found = [(name, below.get_short_help_str(100)) for name, below in command.commands.items()]
    else:
        arguments = [one for one in command.params if isinstance(one, TyperArgument)]
        found = _choices(arguments[place]) if place < len(arguments) else []
    return [(word, " ".join(about.split())) for word, about in found if word.startswith(unfinished)]


def _options(command: Any) -> dict[str, TyperOption]:  # noqa: ANN401 -- as above
    return {
        name: option
        for option in command.params
        if isinstance(option, TyperOption) and not option.hidden
        for name in (*option.opts, *option.secondary_opts)
    }


def _choices(parameter: TyperOption | TyperArgument) -> list[tuple[str, str]]:
    words = (parameter.metavar or "").split("|")
    # What stands for a word of the user's own is written in capitals, or with signs: NAME=VALUE, TEXT|:PORT.
    is_choice = len(words) > 1 and all(word.replace("_", "").replace("-", "").islower() for word in words)
    return [(word, "") for word in words] if is_choice else []
