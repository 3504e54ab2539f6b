"""What a command would start, as far as its text shows: `read_command`, which returns a `Reading` of simple
commands. Pure.

A line is read by `grammar`, a shell script line by line, words are taken as they are. Some programs run the
words behind their own, or a line among them: they are looked through, and what they would start counts for
deny and ask as well. What cannot be read is called opaque, with the reason. What follows from that is decided
in `judgement`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from outlive.core.command import Command
from outlive.core.values import dataclass, replace
from outlive.policy.grammar import parse_line
from outlive.policy.rules import JudgedCommand
from outlive.policy.starters import LINE_STARTERS, SHELLS, WORD_STARTERS, deciding_variables

_MAX_WORDS = 256  # of a command that is looked through: each of them could be a program
_MAX_DEPTH = 8  # of lines within lines
# Characters of lines, nested ones counted again: at worst some 50 ms of the event loop.
_MAX_READ = 128 * 1024
_JOINING = frozenset({"eval", "parallel", "watch"})  # programs that read all their words as one line
_APPENDING = frozenset({"entr", "parallel", "xargs"})  # programs that add words which are not known here
_MOVING = frozenset({"cd", "chdir", "popd", "pushd"})
_PLAIN_ENDS = frozenset({";", "+"})  # the end of find's -exec
# One step of the preparation that `outlive run` puts before a program (`_prepared`).
_STEP = r"(?:umask [0-7]{4}|trap '' [0-9]+(?: [0-9]+)*|exec(?: (?:<&-|>&-|2>&-))+)"
_PREPARATION = re.compile(rf"{_STEP}(?:; {_STEP})*")
_BECOME = '; exec "$@"'
_SHAPE_WORDS = 5  # /bin/sh -c TEXT NAME PROGRAM
_TOO_MUCH = "there is too much of it, or too deeply nested, to be read"
_OPAQUE_LINE = (
    "the line holds more than words, quotes, &&, ||, ;, |, &, redirections, and variables as "
    "arguments of programs that start no others"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The simple commands, and behind them those that they would start (`is_inner`).

    `opaque` says why not everything is known; None when everything is. `hides` says why an allow list cannot
    let the command pass, whatever the programs are: the same reason, or variables that decide what a name
    means.
    """

    commands: tuple[JudgedCommand, ...]
    opaque: str | None = None
    hides: str | None = None


def read_command(command: Command, own: Mapping[str, str]) -> Reading:
    """Return what a command would start; `own` is the environment to which its variables are added."""
    reader = _Reader()
    outer = _outer(command, reader)
    if _is_moved(outer):
        reader.reasons.append("a path is relative to where the line moves to")
    inner = [within for one in outer for within in reader.within(one, depth=0)]
    opaque = hides = reader.reasons[0] if reader.reasons else None
    for name in _hidden_by_variables(command, own, is_line=any(one.is_line for one in outer)):
        hides = hides or f"the variable {name[:40]} decides what a name means"
        if name != "PATH":  # an allow or deny list looks programs up in the PATH that the command gets
            opaque = opaque or f"the variable {name[:40]} may make a shell run something first"
    if command.script is not None and not _is_shell(command):
        # An allow list decides by the interpreter alone: a rule that allows one allows every script.
        opaque = opaque or f"what {outer[0].argv[0]!r} makes of the script is not known"
    return Reading(commands=(*outer, *inner), opaque=opaque, hides=hides)


def _outer(command: Command, reader: "_Reader") -> list[JudgedCommand]:
    if command.line is not None:
        first, newline, rest = command.line.partition("\n")
        is_prepared = bool(newline) and _PREPARATION.fullmatch(first) is not None
        return reader.commands_of(rest if is_prepared else command.line, is_inner=False)
    words = command.argv or ("",)
    if command.script is None:
        prepared = _prepared(words)
        return [JudgedCommand(argv=words) if prepared is None else JudgedCommand(argv=prepared, is_line=True)]
    found = [JudgedCommand(argv=(*words, "script"))]
    if _is_shell(command):
        # For a shell only "\n" ends a line, and only blanks may stand before "#".
        for raw in command.script.split("\n"):
            line = raw.strip(" \t")
            if line and not line.startswith("#"):
                found += reader.commands_of(line, is_inner=False)
                if reader.is_tired:
                    break
    return found


def _prepared(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the words that a shell executes after it has prepared umask, signals and descriptors; None for
    other commands.

    `outlive run` starts a program like this when its own surroundings are unusual. A command of exactly this
    shape does nothing else. The shell looks the program up.
    """
    if len(words) < _SHAPE_WORDS or words[:2] != ("/bin/sh", "-c"):
        return None
    preparation, behind, rest = words[2].rpartition(_BECOME)
    if not behind or rest or _PREPARATION.fullmatch(preparation) is None or words[4].startswith("-"):
        return None
    return words[4:]


def _is_moved(commands: Sequence[JudgedCommand]) -> bool:
    """Return whether a program is named by a relative path behind a `cd`."""
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
    # Without a shell the program was looked up by us and is started by its path: PATH decides nothing more.
    changed = deciding_variables(command, own)
    if not is_line:
        return [name for name in changed if name != "PATH"]
    if "PATH" not in changed and any(
        not folder.startswith("/") for folder in own.get("PATH", "/").split(":")
    ):
        changed.append("PATH")  # "." or an empty entry: the working folder decides what a name means
    return changed


class _Reader:
    """Reads lines up to a limit: nested lines can be made to grow without end."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self._room = _MAX_READ

    @property
    def is_tired(self) -> bool:
        """Whether the limit is reached, so that no more is read."""
        return self._room < 0

    def commands_of(self, line: str, *, is_inner: bool) -> list[JudgedCommand]:
        """Return the simple commands of a line."""
        self._room -= len(line)
        commands = None if self.is_tired else parse_line(line)
        if commands is None:
            self.reasons.append(_TOO_MUCH if self.is_tired else _OPAQUE_LINE)
            return []
        return [
            JudgedCommand(
                argv=one.argv,
                open_words=one.open_words,
                is_line=True,
                is_inner=is_inner,
                writes=one.writes,
                reads=one.reads,
                into=one.into,
            )
            for one in commands
        ]

    def within(self, command: JudgedCommand, *, depth: int) -> Iterator[JudgedCommand]:
        """Yield what a command would start by its own words."""
        name = command.name
        if name not in WORD_STARTERS and name not in LINE_STARTERS:
            return
        if depth == _MAX_DEPTH or len(command.argv) > _MAX_WORDS:
            self.reasons.append(_TOO_MUCH)
            return
        if name in LINE_STARTERS:
            yield from self._lines_within(command, depth=depth)
        if name not in WORD_STARTERS:
            return
        if name == "env" and any(map(_splits, command.argv[1:])):
            self.reasons.append("env -S splits a text into words in its own way")
        for place in range(1, len(command.argv)):
            if place in command.open_words or not command.argv[place]:
                continue
            # Which of the words is the program depends on the options, so each word is taken for one.
            suffix = _suffix(command, place)
            yield suffix
            if suffix.name in LINE_STARTERS:
                yield from self._lines_within(suffix, depth=depth)

    def _lines_within(self, command: JudgedCommand, *, depth: int) -> Iterator[JudgedCommand]:
        if command.name in _JOINING:
            if command.open_words:
                self.reasons.append(f"{command.name!r} runs what a pattern becomes")
            lines = [" ".join(command.argv[1:])]
        else:
            lines = list(_behind_option(command.argv[1:]))
        for line in lines:
            if not line.strip(" \t") or self.is_tired:
                continue
            for one in self.commands_of(line, is_inner=True):
                yield one
                yield from self.within(one, depth=depth + 1)


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


def _behind_option(words: Sequence[str]) -> Iterator[str]:
    """Yield the lines behind -c, behind options that contain a "c" (`-lc`), and in --command=."""
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
