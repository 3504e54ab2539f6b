"""What a command would start, as far as its text tells: `read_command`, a `Reading` of simple commands. Pure.

A line is read by `grammar`, a script of a shell line by line, words are taken as they are. Programs that run the words
behind their own, or a line among them, are looked through: what they would start counts for deny and ask as well.
What cannot be read is opaque, and the reason is kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from outlive.core.command import Command
from outlive.policy.deciding import deciding_variables
from outlive.policy.grammar import parse_line
from outlive.policy.rules import JudgedCommand
from outlive.policy.starters import LINE_STARTERS, SHELLS, WORD_STARTERS

__all__ = ["Reading", "read_command"]

_MAX_WORDS = 256  # of a command that is looked through: each of them could be a program
_MAX_DEPTH = 8  # of lines within lines
_JOINING = frozenset({"eval", "parallel", "watch"})  # all their words are one line
_APPENDING = frozenset({"entr", "parallel", "xargs"})  # they add words that nobody knows
_MOVING = frozenset({"cd", "chdir", "popd", "pushd"})
_PLAIN_ENDS = frozenset({";", "+"})  # where find's -exec ends
_OPAQUE_LINE = "the line holds more than words, quotes, &&, ||, ; and |"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The simple commands, those that others would start (`is_inner`) behind them.

    `opaque` says why not everything is known; None when it is. `hides` says why an allow list cannot let it pass
    whatever the programs are: the same, and variables that decide what a name means.
    """

    commands: tuple[JudgedCommand, ...]
    opaque: str | None = None
    hides: str | None = None


def read_command(command: Command, own: Mapping[str, str]) -> Reading:
    """Return what a command would start; `own` is the environment that it is added to."""
    reasons: list[str] = []
    outer = _outer(command, reasons)
    if _is_moved(outer):
        reasons.append("a path is relative to where the line moves to")
    hidden = _hidden_by_variables(command, own, is_line=command.line is not None)
    inner: list[JudgedCommand] = []
    for one in outer:
        inner.extend(_within(one, reasons, depth=0))
    if command.script is not None and not _is_shell(command):
        # An allow list decides by the interpreter alone: a rule that allows one allows everything.
        opaque: str | None = (
            f"what {command.argv[0] if command.argv else 'it'!r} makes of the script is not known"
        )
    else:
        opaque = None
    opaque = next(iter(reasons), None) or opaque
    for name in hidden:
        if name != "PATH":  # the programs are looked up in the PATH that the command gets
            opaque = opaque or f"the variable {name[:40]} may make a shell run something first"
    hides = next(iter(reasons), None)
    if hidden:
        hides = hides or f"the variable {hidden[0][:40]} decides what a name means"
    return Reading(commands=(*outer, *inner), opaque=opaque, hides=hides)


def _outer(command: Command, reasons: list[str]) -> list[JudgedCommand]:
    if command.line is not None:
        return _commands_of(command.line, reasons, is_inner=False)
    words = command.argv or ("",)
    if command.script is None:
        return [JudgedCommand(argv=words)]
    found = [JudgedCommand(argv=(*words, "script"))]
    if _is_shell(command):
        # Only "\n" ends a line for a shell, and only blanks may stand before "#".
        for raw in command.script.split("\n"):
            line = raw.strip(" \t")
            if line and not line.startswith("#"):
                found += _commands_of(line, reasons, is_inner=False)
    return found


def _is_moved(commands: Sequence[JudgedCommand]) -> bool:
    """Tell whether a program is named by a relative path behind a `cd`."""
    has_moved = False
    for command in commands:
        program = command.argv[0]
        if has_moved and "/" in program and not program.startswith("/"):
            return True
        has_moved = has_moved or command.name in _MOVING
    return False


def _is_shell(command: Command) -> bool:
    return bool(command.argv) and (command.argv or ("",))[0].rpartition("/")[2] in SHELLS


def _hidden_by_variables(command: Command, own: Mapping[str, str], *, is_line: bool) -> list[str]:
    changed = deciding_variables(command, own)
    if not is_line:
        return [
            name for name in changed if name != "PATH"
        ]  # the program was looked up, and is started by its path
    if "PATH" not in changed and any(
        not folder.startswith("/") for folder in own.get("PATH", "/").split(":")
    ):
        changed.append("PATH")  # "." or an empty entry: the working folder decides
    return changed


def _commands_of(line: str, reasons: list[str], *, is_inner: bool) -> list[JudgedCommand]:
    commands = parse_line(line)
    if commands is None:
        reasons.append(_OPAQUE_LINE)
        return []
    return [
        JudgedCommand(argv=one.argv, open_words=one.open_words, is_line=True, is_inner=is_inner)
        for one in commands
    ]


def _within(command: JudgedCommand, reasons: list[str], *, depth: int) -> Iterator[JudgedCommand]:
    """Yield what a command would start by its own words; append a reason where that is not known."""
    name = command.name
    if name not in WORD_STARTERS and name not in LINE_STARTERS:
        return
    if depth == _MAX_DEPTH or len(command.argv) > _MAX_WORDS:
        reasons.append(f"{name!r} nests commands too deeply, or has too many words, to be looked through")
        return
    if name in LINE_STARTERS:
        yield from _lines_within(command, reasons, depth=depth)
    if name not in WORD_STARTERS:
        return
    if name == "env" and any(_splits(word) for word in command.argv[1:]):
        reasons.append("env -S splits a text into words in its own way")
    for place in range(1, len(command.argv)):
        if place in command.open_words or not command.argv[place]:
            continue
        # Which of the words is the program depends on the options: each of them could be.
        suffix = _suffix(command, place)
        yield suffix
        if suffix.name in LINE_STARTERS:
            yield from _lines_within(suffix, reasons, depth=depth)


def _suffix(command: JudgedCommand, place: int) -> JudgedCommand:
    words = command.argv[place:]
    end = next((at for at, word in enumerate(words) if word in _PLAIN_ENDS), len(words))
    return replace(
        command,
        argv=words[: end or len(words)],
        open_words=tuple(
            one - place for one in command.open_words if place < one < place + (end or len(words))
        ),
        is_inner=True,
        ends_open=any(word.rpartition("/")[2] in _APPENDING for word in command.argv[:place]),
    )


def _lines_within(command: JudgedCommand, reasons: list[str], *, depth: int) -> Iterator[JudgedCommand]:
    if command.name in _JOINING:
        if command.open_words:
            reasons.append(f"{command.name!r} runs what a pattern becomes")
        lines = [" ".join(command.argv[1:])]
    else:
        lines = list(_behind_option(command.argv[1:]))
    for line in lines:
        if not line.strip(" \t"):
            continue
        for one in _commands_of(line, reasons, is_inner=True):
            yield one
            yield from _within(one, reasons, depth=depth + 1)


def _behind_option(words: Sequence[str]) -> Iterator[str]:
    """Yield the lines that stand behind -c, or behind options that hold a "c" (`-lc`), or in --command=."""
    is_due = False
    for word in words:
        if word.startswith("--command="):
            yield word.partition("=")[2]
        elif word.startswith(("-", "+")):
            is_due = is_due or word == "--command" or (not word.startswith("--") and "c" in word)
        elif is_due:
            yield word
            is_due = False


def _splits(word: str) -> bool:
    return word.startswith("--s") or (word.startswith("-") and not word.startswith("--") and "S" in word)
