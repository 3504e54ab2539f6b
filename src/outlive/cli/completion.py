"""Which words may stand at the end of an unfinished command line: read from the tree of verbs. The shells' scripts ask for them.

Completing starts this program at every press of the key: of the verbs only the one that is being completed is imported.
"""

from collections.abc import Sequence

from outlive.cli.help_page import shortened
from outlive.cli.output import show
from outlive.cli.parameters import Parameter
from outlive.cli.program import PROGRAM, Group, Verb, parameters_of

_ROOM = 100  # characters of a sentence beside a word


def complete_words(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return (word, help) for everything that the last of `words` may become; nothing means a file, or anything."""
    *before, unfinished = words or [""]
    node: Group | Verb = PROGRAM
    parameters: Sequence[Parameter] = parameters_of(PROGRAM)
    place = 0  # among the places
    wanted: Parameter | None = None  # whose value comes next
    for word in before:
        if wanted is not None:
            wanted = None
        elif word.startswith("-"):
            flag = _flags(parameters).get(word)
            wanted = flag if flag is not None and flag.kind != "switch" else None
        elif isinstance(node, Group):
            below = node.find(word)
            if below is None:
                return []
            node = below
            parameters = parameters_of(node) if isinstance(node, Group) else node.action.parameters
        else:
            place += 1
    if wanted is not None:
        found = [(word, "") for word in wanted.choices]
    elif unfinished.startswith("-"):
        flags = _flags(parameters)
        found = [(word, flag.sentence) for word, flag in flags.items()] + [("--help", "")]
    elif isinstance(node, Group):
        found = [(one.name, shortened(one.about, _ROOM)) for one in node.verbs]
    else:
        places = [one for one in parameters if not one.flags]
        found = [(word, "") for word in places[place].choices] if place < len(places) else []
    return [(word, " ".join(about.split())) for word, about in found if word.startswith(unfinished)]


def show_candidates(shell: str, words: Sequence[str]) -> None:
    """Print what the last of `words` may become as the shell's script expects it; fish and zsh show the help beside it."""
    for word, about in complete_words(words):
        if shell == "fish":
            show(f"{word}\t{about}")
        elif shell == "zsh":
            show(f"{word.replace(':', chr(92) + ':')}:{about}")
        else:
            show(word)


def _flags(parameters: Sequence[Parameter]) -> dict[str, Parameter]:
    return {
        flag: one
        for one in parameters
        if not one.is_hidden
        for flag in (*one.flags, *([one.off] if one.off else []))
    }
