"""A verb's manual page, made from what its help page is made of. Pure (roff, as man(7) describes it)."""

from collections.abc import Sequence

from outlive.cli.help.help_page import flag_words, usage
from outlive.cli.parameters import Parameter


def man_page(
    path: str,
    about: str,
    parameters: Sequence[Parameter],
    *,
    version: str,
    examples: Sequence[tuple[str, str]] = (),
    verbs: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the page of a verb or of a group.

    Args:
        path: How it is called: "outlive keeper stop".
        about: Paragraphs, an empty line between two.
        parameters: What it takes.
        version: Of the program.
        examples: Command lines, each with what it is for or "".
        verbs: Of a group: the names of its verbs, and their sentences.
    """
    name = path.replace(" ", "-")
    first, *others = about.split("\n\n")
    shown = [one for one in parameters if not one.is_hidden]
    words = usage(path, shown, is_group=bool(verbs)).removeprefix("Usage: ").split()
    lines = [f'.TH "{_escaped(name.upper())}" 1 "" "outlive {_escaped(version)}" "User Commands"']
    lines += [".SH NAME", f"{_escaped(name)} \\- {_escaped(first)}"]
    lines += [".SH SYNOPSIS", f".B {_escaped(path)}", _escaped(" ".join(words[len(path.split()) :]))]
    if others:
        lines.append(".SH DESCRIPTION")
        lines.append("\n.PP\n".join(_escaped(" ".join(text.split())) for text in others))
    if verbs:
        lines.append(".SH COMMANDS")
        for verb, sentence in verbs:
            lines += [".TP", f".BR {_escaped(f'{name}-{verb}')} (1)", _escaped(sentence)]
    places = [one for one in shown if not one.flags]
    if places:
        lines.append(".SH ARGUMENTS")
        for one in places:
            lines += [".TP", f".I {_escaped(one.metavar)}", _escaped(one.sentence)]
    if flags := [one for one in shown if one.flags]:
        lines.append(".SH OPTIONS")
        for one in flags:
            lines += [".TP", f".B {_escaped(flag_words(one))}", _escaped(one.sentence)]
    if examples:
        lines.append(".SH EXAMPLES")
        for line, purpose in examples:
            lines += [".TP", f".B {_escaped(line)}", _escaped(purpose)]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    r"""Return text as roff prints it: a "-" that can be copied, no "\" and no line that begins a request."""
    shown = text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    return f"\\&{shown}" if shown.startswith((".", "\\(aq")) else shown
