"""The help of a verb or a group as text: usage, sentences, arguments, flags, verbs. Pure."""

import textwrap
from collections.abc import Sequence

from outlive.cli.parameters import Parameter

_WIDTH = 78
_COLUMN = 30  # the most of a line that flags take before their sentence
_HELP = Parameter("help", "switch", "", "Show this message and exit.", ("--help", "-h"))


def usage(path: str, parameters: Sequence[Parameter], *, is_group: bool) -> str:
    """Return the one line that says how to call it."""
    ends = ["COMMAND [ARGS]..."] if is_group else [one.metavar for one in parameters if not one.flags]
    return textwrap.fill(
        " ".join(["Usage:", path, "[OPTIONS]", *ends]),
        _WIDTH,
        subsequent_indent=" " * 7,
        break_on_hyphens=False,
    )


def help_page(
    path: str,
    about: str,
    parameters: Sequence[Parameter],
    *,
    verbs: Sequence[tuple[str, str]] = (),
) -> str:
    """Return everything that is known of a verb; of a group with the verbs in it, each with its sentence.

    Args:
        path: How it is called: "outlive keeper stop".
        about: Paragraphs, an empty line between two.
        parameters: What it takes.
        verbs: Of a group.
    """
    shown = [one for one in parameters if not one.is_hidden]
    blocks = [usage(path, shown, is_group=bool(verbs))]
    blocks += [_wrapped(paragraph, "  ") for paragraph in about.split("\n\n")]
    if arguments := [(one.metavar, one.sentence) for one in shown if not one.flags]:
        blocks.append(_listing("Arguments", arguments))
    blocks.append(_listing("Options", [(_flags(one), one.sentence) for one in (*shown, _HELP) if one.flags]))
    if verbs:
        room = _WIDTH - 6 - max(len(name) for name, _ in verbs)
        blocks.append(_listing("Commands", [(name, shortened(sentence, room)) for name, sentence in verbs]))
    return "\n\n".join(blocks) + "\n"


def shortened(text: str, limit: int) -> str:
    """Return the first sentence of a text, cut between words where it is longer than `limit`."""
    words = text.split()
    end = next((number for number, word in enumerate(words, 1) if word.endswith(".")), len(words))
    sentence = " ".join(words[:end])
    if len(sentence) <= limit:
        return sentence
    while len(sentence) + 3 > limit and " " in sentence:
        sentence = sentence.rpartition(" ")[0]
    return f"{sentence}..."


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)


def _flags(one: Parameter) -> str:
    """Return the names of a flag, the short one first, and what stands for its value."""
    names = ", ".join(sorted(one.flags, key=len))
    if one.off:
        names += f" / {one.off}"
    return f"{names} {one.metavar}" if one.metavar else names


def _listing(title: str, rows: Sequence[tuple[str, str]]) -> str:
    width = min(max(len(name) for name, _ in rows), _COLUMN) + 2
    lines = [f"{title}:"]
    for name, sentence in rows:
        indent = " " * (width + 2)
        text = textwrap.wrap(sentence, _WIDTH - width - 2, break_on_hyphens=False) or [""]
        if len(name) <= width - 2:
            lines.append(f"  {name.ljust(width)}{text[0]}".rstrip())
        else:
            lines += [f"  {name}", f"{indent}{text[0]}"]
        lines += [f"{indent}{line}" for line in text[1:]]
    return "\n".join(lines)
