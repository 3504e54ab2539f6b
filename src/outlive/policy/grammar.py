"""A shell line as simple commands, if and only if it is certain what the shell will run: `parse_line`.

Understood: words of plain characters, single and double quotes without expansions, `&&`, `||`, `;` and `|`.
Everything else (substitutions, redirections, escapes, compound commands, assignments, comments, background jobs, line
breaks, more than 64 Ki characters …) makes the whole line opaque: this module then says nothing about it. Its promise is one-sided: what it accepts
means to bash and to a POSIX shell what it says (a property test compares it with the real bash).
"""

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["Joint", "SimpleCommand", "parse_line"]

Joint = Literal["", "&&", "||", ";", "|"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """One command of a line.

    `argv` holds its words with the quotes removed; the first is plain text. `joint` is the operator before it, ""
    for the first. `open_words` are the places of words behind the first that the shell may still replace by any
    number of others: an unquoted pattern (`*.py`) or tilde stands in them.
    """

    joint: Joint = ""
    argv: tuple[str, ...]
    open_words: tuple[int, ...] = ()

    @property
    def is_literal(self) -> bool:
        """Whether the words are what the program will get."""
        return not self.open_words


_BLANKS = " \t"
_OPERATORS: tuple[Joint, ...] = ("&&", "||", ";", "|")
# Characters that mean themselves wherever they stand in an unquoted word; "=", "!", "#" and "~" depend on the place.
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+\-^=!#]+|[^\x00-\x7f]+")
_PATTERN = re.compile(r"[*?\[\]~]+")
_SINGLE_QUOTED = re.compile(r"'([^'\x00]*)'")
_DOUBLE_QUOTED = re.compile(r'"([^"$`\\\x00]*)"')  # history expansion ("!") is for interactive shells only

# Words that begin or shape compound commands when they stand first (bash 5.2 manual, section 3.2.5; POSIX.1-2017,
# 2.4); bash's further ones included. Quoting takes that meaning away, but a quoted one is refused all the same.
_RESERVED = frozenset(
    "! [[ ]] { } case coproc do done elif else esac fi for function if in namespace "  # noqa: SIM905 -- a table of words
    "select then time until while".split()
)


# A whole word of plain characters: nearly all are, and one match costs a fifth of the loop below.
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:,@%+\-^]+(?=[ \t;|]|&&|\Z)")
# Longer lines are opaque: some 30 ms of the event loop at worst, and nobody writes them by hand.
_MAX_CHARACTERS = 64 * 1024


class _Word(NamedTuple):
    text: str
    has_pattern: bool
    end: int


def parse_line(line: str) -> tuple[SimpleCommand, ...] | None:
    """Return the simple commands of `line` in their order; None when the line is opaque.

    Assumes a non-interactive shell (`bash -c`, `sh -c`) without aliases, and says nothing about what a program
    does with its words, nor about functions and builtins of the shell: `eval` is a first word like any other.
    """
    if len(line) > _MAX_CHARACTERS:
        return None
    commands: list[SimpleCommand] = []
    joint: Joint = ""
    position = _skip_blanks(line, 0)
    while position < len(line):
        words: list[_Word] = []
        while position < len(line) and not line.startswith(_OPERATORS, position):
            word = _read_word(line, position)
            if word is None:
                return None
            words.append(word)
            position = _skip_blanks(line, word.end)
        command = _simple_command(joint, words)
        if command is None:
            return None
        commands.append(command)
        following = next((operator for operator in _OPERATORS if line.startswith(operator, position)), None)
        if following is None:
            return tuple(commands)
        joint = following
        position = _skip_blanks(line, position + len(following))
    # The line is empty, or ended behind an operator: only a last semicolon may stand there.
    return tuple(commands) if joint == ";" else None


def _skip_blanks(line: str, position: int) -> int:
    while position < len(line) and line[position] in _BLANKS:
        position += 1
    return position


def _read_word(line: str, start: int) -> _Word | None:
    """Read quoted and unquoted pieces up to a blank, an operator or the end; None for anything unknown."""
    plain = _PLAIN_WORD.match(line, start)
    if plain is not None:
        return _Word(plain.group(), has_pattern=False, end=plain.end())
    if line[start] == "#":
        return None  # a comment
    pieces: list[str] = []
    has_pattern = False
    position = start
    while (
        position < len(line) and line[position] not in _BLANKS and not line.startswith(_OPERATORS, position)
    ):
        for shape in (_PLAIN, _PATTERN, _SINGLE_QUOTED, _DOUBLE_QUOTED):
            found = shape.match(line, position)
            if found is not None:
                break
        else:
            return None
        text = found.group(found.lastindex or 0)
        if not _is_visible(text):
            return None
        has_pattern |= shape is _PATTERN
        pieces.append(text)
        position = found.end()
    return _Word("".join(pieces), has_pattern, position)


def _is_visible(text: str) -> bool:
    # Invisible characters are not worth a guess, and lone surrogates cannot be passed on.
    return text.replace("\n", "").replace("\t", "").isprintable()


def _simple_command(joint: Joint, words: list[_Word]) -> SimpleCommand | None:
    if not words:
        return None
    first = words[0]
    if not first.text or first.has_pattern or "=" in first.text or first.text in _RESERVED:
        return None  # nothing to run, a program chosen by a pattern, an assignment, a compound command
    if first.text.startswith("%"):
        return None  # job control: bash takes "%1" for "fg %1"
    return SimpleCommand(
        joint=joint,
        argv=tuple(word.text for word in words),
        open_words=tuple(place for place, word in enumerate(words) if word.has_pattern),
    )
