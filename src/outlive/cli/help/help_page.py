"""The help of a verb or a group as text: usage, sentences, examples, arguments, flags, verbs by topic.

Pure.
"""

import textwrap
from collections.abc import Sequence

from outlive.cli.parameters import Parameter

_WIDTH = 78
_EXPLAINED = 2  # topics of a group whose verbs are explained; all together would fill two screens
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
    path: str, about: str, parameters: Sequence[Parameter], *, examples: Sequence[tuple[str, str]] = ()
) -> str:
    """Return everything that is known of a verb.

    Args:
        path: How it is called: "outlive keeper stop".
        about: Paragraphs, an empty line between two.
        parameters: What it takes.
        examples: Command lines, each with what it is for or "".
    """
    shown = [one for one in parameters if not one.is_hidden]
    blocks = [usage(path, shown, is_group=False)]
    blocks += [_wrapped(paragraph, "  ") for paragraph in about.split("\n\n")]
    if examples:
        blocks.append(_example_block(examples))
    if arguments := [(one.metavar, one.sentence) for one in shown if not one.flags]:
        blocks.append(_listing("Arguments", arguments))
    own = [one for one in (*shown, _HELP) if one.flags and not one.is_common]
    blocks.append(_listing("Options", [(flag_words(one), one.sentence) for one in own]))
    if common := [flag_words(one) for one in shown if one.is_common]:
        program = path.partition(" ")[0]
        blocks.append(_wrapped(f"Also {', '.join(common)}: see `{program} --help`.", ""))
    return "\n\n".join(blocks) + "\n"


def group_page(
    path: str,
    about: str,
    parameters: Sequence[Parameter],
    *,
    verbs: Sequence[tuple[str, str]],
    topics: Sequence[tuple[str, str]] = (),
    common: Sequence[Parameter] = (),
) -> str:
    """Return what is known of a group: its verbs, each with its first sentence, by topics where it has some.

    Args:
        path: How it is called: "outlive keeper".
        about: Paragraphs, an empty line between two.
        parameters: What may stand before the verb.
        verbs: Names and sentences.
        topics: Titles, and the names below each.
        common: What most of its verbs take.
    """
    sentences = dict(verbs)
    width = max(map(len, sentences))
    room = _WIDTH - 4 - width
    listed = {name for _, names in topics for name in names.split()}
    others = " ".join(name for name in sentences if name not in listed)
    blocks = [usage(path, parameters, is_group=True)]
    blocks += [_wrapped(paragraph, "  ") for paragraph in about.split("\n\n")]
    explained = topics[:_EXPLAINED] if topics else [("Commands", others)]
    for title, names in explained:  # each has a verb at least
        rows = [(name.ljust(width), shortened(sentences[name], room)) for name in names.split()]
        blocks.append(_listing(title, rows))
    if topics:
        rest = [*topics[_EXPLAINED:], *([("Others", others)] if others else [])]
        blocks.append(_listing("More", [(title, ", ".join(names.split())) for title, names in rest]))
    blocks.append(_listing("Options", [(flag_words(one), one.sentence) for one in (*parameters, _HELP)]))
    if common:
        blocks.append(
            _listing("Options of most commands", [(flag_words(one), one.sentence) for one in common])
        )
    blocks.append(f"`{path} COMMAND --help` explains a command, with examples.")
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


def _example_block(examples: Sequence[tuple[str, str]]) -> str:
    """Return examples, each line with what it is for behind it, or above it where one of them does not
    fit.
    """
    width = max(len(line) for line, _ in examples)
    if all(width + len(purpose) + 6 <= _WIDTH for _, purpose in examples):
        lines = [
            f"  {line.ljust(width)}  # {purpose}" if purpose else f"  {line}" for line, purpose in examples
        ]
    else:
        lines = [
            text
            for line, purpose in examples
            for text in (f"  # {purpose}" if purpose else "", f"  {line}")
            if text
        ]
    return "\n".join(["Examples:", *lines])


def flag_words(one: Parameter) -> str:
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
