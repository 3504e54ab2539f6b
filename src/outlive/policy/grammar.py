"""A shell line as simple commands, if and only if it is certain what the shell will run: `parse_line`.

Understood are: words of plain characters, single and double quotes without expansions, `&&`, `||`, `;`, `|`
and `&`; `$NAME` as an argument of a program that is not known to start others; `2>&1` and the like, `< FILE`,
`> FILE`, `>> FILE`, `&> FILE` behind the program; before it assignments of a few harmless names with literal
values.

Everything else (substitutions, here-documents, escapes, compound commands, other assignments, comments, line
breaks, more than 64 Ki characters …) makes the whole line opaque: this module then says nothing about it. Its
promise is one-sided: a line which it accepts means to bash and to a POSIX shell what it says here (a property
test compares it with the real bash).
"""

import re
from typing import Literal, NamedTuple

from outlive.core.values import dataclass
from outlive.policy.starters import reason_for

Joint = Literal["", "&&", "||", ";", "|", "&"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleCommand:
    """One command of a line.

    `argv` holds its words without the quotes; the first one is plain text. `joint` is the operator before the
    command, "" for the first. `open_words` are the positions of words, behind the first, that the shell may
    replace by any number of others: an unquoted pattern (`*.py`), a tilde or a variable is in them (a
    variable is written as `*`). `reads` and `into` are the files behind `<`, and behind `>` and its kin.
    """

    joint: Joint = ""
    argv: tuple[str, ...]
    open_words: tuple[int, ...] = ()
    reads: tuple[str, ...] = ()
    into: tuple[str, ...] = ()

    @property
    def is_literal(self) -> bool:
        """Whether the words are exactly those that the program will get."""
        return not self.open_words

    @property
    def writes(self) -> bool:
        """Whether output goes into a file other than /dev/null."""
        return any(file != _NOWHERE for file in self.into)


_BLANKS = " \t"
_OPERATORS: tuple[Joint, ...] = ("&&", "||", ";", "|", "&")
_ENDS_WORD = frozenset(" \t;|&<>")
# Characters without a special meaning in an unquoted word; for "=", "!", "#" and "~" that depends on the
# position.
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+\-^=!#]+|[^\x00-\x7f]+")
_PATTERN = re.compile(r"[*?\[\]~]+")
_SINGLE_QUOTED = re.compile(r"'([^'\x00]*)'")
_DOUBLE_QUOTED = re.compile(r'"([^"$`\\\x00]*)"')  # history expansion ("!") is for interactive shells only
# A name that the environment can hold; "_" alone, digits and signs are the shell's own. Braces may hold only
# the name.
_NAME = r"(?!_\b)[A-Za-z_][A-Za-z0-9_]*"
_VARIABLE = re.compile(rf"\$(?:{_NAME}|\{{{_NAME}\}})")
_QUOTED_VARIABLES = re.compile(rf'"((?:[^"$`\\\x00]|\$(?:{_NAME}|\{{{_NAME}\}}))*)"')

# Names that decide neither what runs nor what a line means, and values that cannot name a file (except of a
# time zone).
_ASSIGNMENT = re.compile(
    r"(?:(?:LANG|LC_[A-Z]+|CI|NO_COLOR|TERM)=[A-Za-z0-9_.@:,+\-]*|TZ=[A-Za-z0-9_.@:,+\-/]*)(?=[ \t])"
)
# Duplicates with one digit on each side (to bash "2>&12" and "2>&1x" are something else), then what opens a
# file.
_DUPLICATE = re.compile(r"[0-9]?>&[0-9](?=[ \t;|&]|\Z)")
_OPENING = re.compile(r"(?:(&>>?)|([0-9]?)(>>|>\||>)|(<))(?![<>&(|])")
_NETWORK = ("/dev/tcp/", "/dev/udp/")  # bash opens a connection (bash(1), "REDIRECTION")
_NOWHERE = "/dev/null"

# Words that begin or shape compound commands when they are the first word (bash 5.2 manual, section 3.2.5;
# POSIX.1-2017, 2.4), bash's additional ones included. Quotes take that meaning away, but a quoted one is
# refused all the same.
_RESERVED = frozenset(
    "! [[ ]] { } case coproc do done elif else esac fi for function if in namespace "  # noqa: SIM905 -- a table of words
    "select then time until while".split()
)


# A whole word of plain characters: nearly all words are, and one match costs a fifth of the loop below.
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:,@%+\-^]+(?=[ \t;|&]|\Z)")
# Longer lines are opaque: at worst some 30 ms of the event loop, and lines written by hand are shorter.
_MAX_CHARACTERS = 64 * 1024


class _Word(NamedTuple):
    text: str
    is_open: bool
    end: int
    has_variable: bool = False


class _Parts(NamedTuple):
    """The words and redirections between two operators."""

    words: list[_Word]
    reads: list[str]
    into: list[str]
    end: int


def parse_line(line: str) -> tuple[SimpleCommand, ...] | None:
    """Return the simple commands of `line` in their order; None when the line is opaque.

    It assumes a non-interactive shell (`bash -c`, `sh -c`) without aliases. It says nothing about what a
    program does with its words, nor about functions and builtins of the shell: `eval` is a first word like
    any other.
    """
    if len(line) > _MAX_CHARACTERS:
        return None
    commands: list[SimpleCommand] = []
    joint: Joint = ""
    position = _skip_blanks(line, 0)
    while position < len(line):
        parts = _read_parts(line, position)
        command = None if parts is None else _simple_command(joint, parts)
        if parts is None or command is None:
            return None
        commands.append(command)
        position = parts.end
        following = next((operator for operator in _OPERATORS if line.startswith(operator, position)), None)
        if following is None:
            return tuple(commands)
        joint = following
        position = _skip_blanks(line, position + len(following))
    # The line is empty, or ended behind an operator: only a semicolon or an ampersand may be the last one.
    return tuple(commands) if joint in {";", "&"} else None


def _skip_blanks(line: str, position: int) -> int:
    while position < len(line) and line[position] in _BLANKS:
        position += 1
    return position


def _read_parts(line: str, position: int) -> _Parts | None:
    """Read words and redirections up to an operator or the end; None for anything unknown."""
    while (assigned := _ASSIGNMENT.match(line, position)) is not None:
        position = _skip_blanks(line, assigned.end())
    words: list[_Word] = []
    reads: list[str] = []
    into: list[str] = []
    is_over = False
    while position < len(line):
        if words and (duplicate := _DUPLICATE.match(line, position)) is not None:
            position = _skip_blanks(line, duplicate.end())
            continue
        if line.startswith(_OPERATORS, position) and not line.startswith("&>", position):
            break
        if is_over:
            return None
        opening = _OPENING.match(line, position) if words else None
        if opening is not None:
            file = _read_file(line, opening.end())
            if file is None:
                return None
            (into if opening[4] is None else reads).append(file.text)
            position = _skip_blanks(line, file.end)
            # A shell that does not know "&>" reads it as "&" and ">": there a word behind it would be a
            # program.
            is_over = opening[1] is not None
            continue
        word = _read_word(line, position)
        if word is None:
            return None
        if line[word.end : word.end + 1] in {"<", ">"} and line[position : word.end].isdigit():
            return None  # a descriptor of several digits, or one that is read from
        words.append(word)
        position = _skip_blanks(line, word.end)
    return _Parts(words, reads, into, position)


def _read_file(line: str, position: int) -> _Word | None:
    """Read the word behind a redirection, which must name exactly one file, and no network connection."""
    position = _skip_blanks(line, position)
    if position >= len(line) or line.startswith(_OPERATORS, position):
        return None
    file = _read_word(line, position)
    if file is None or not file.text or file.is_open or file.text.startswith(_NETWORK):
        return None
    if line[file.end : file.end + 1] in {"<", ">"} and line[position : file.end].isdigit():
        return None
    return file


def _read_word(line: str, start: int) -> _Word | None:
    """Read quoted and unquoted pieces up to a blank, an operator or the end; None for anything unknown."""
    plain = _PLAIN_WORD.match(line, start)
    if plain is not None:
        return _Word(plain.group(), is_open=False, end=plain.end())
    if line[start] == "#":
        return None  # a comment
    pieces: list[str] = []
    is_open = has_variable = is_split = False
    position = start
    while position < len(line) and line[position] not in _ENDS_WORD:
        for shape in (_PLAIN, _PATTERN, _SINGLE_QUOTED, _DOUBLE_QUOTED, _VARIABLE, _QUOTED_VARIABLES):
            found = shape.match(line, position)
            if found is not None:
                break
        else:
            return None
        text = found.group(found.lastindex or 0)
        if not _is_visible(text):
            return None
        if shape in {_VARIABLE, _QUOTED_VARIABLES}:
            has_variable = is_open = True
            # The shell splits it into any number of words, with any beginnings.
            is_split |= shape is _VARIABLE
            text = _VARIABLE.sub("*", text)
        is_open |= shape is _PATTERN
        pieces.append(text)
        position = found.end()
    if position == start:
        return None
    return _Word("*" if is_split else "".join(pieces), is_open, position, has_variable)


def _is_visible(text: str) -> bool:
    # Invisible characters are not worth a guess, and lone surrogates cannot be passed to a program.
    return text.replace("\n", "").replace("\t", "").isprintable()


def _simple_command(joint: Joint, parts: _Parts) -> SimpleCommand | None:
    words = parts.words
    if not words:
        return None
    first = words[0]
    if not first.text or first.is_open or "=" in first.text or first.text in _RESERVED:
        return None  # nothing to run, a program chosen by a pattern, an assignment, a compound command
    if first.text.startswith("%"):
        return None  # job control: bash reads "%1" as "fg %1"
    # The value of a variable is not known here: it could make a program that starts others start anything.
    if any(word.has_variable for word in words) and reason_for(first.text.rpartition("/")[2]) is not None:
        return None
    return SimpleCommand(
        joint=joint,
        argv=tuple(word.text for word in words),
        open_words=tuple(place for place, word in enumerate(words) if word.is_open),
        reads=tuple(parts.reads),
        into=tuple(parts.into),
    )
