"""The operator's own patterns for secrets (`redact_extra`): parsed, refused, or compiled. Pure.

They are regular expressions that never need backtracking, so no text can make a search slow: a pattern begins with a literal;
behind it follow characters and classes with bounds; and no part can take what the next one needs. A pattern of any other kind
is refused with a sentence; none is taken for something else than `re` would take it for. `redaction` searches with them.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from outlive.core.errors import ConfigInvalid
from outlive.policy.secret_patterns import REACH_BYTES

MOST_PATTERNS = 100  # each one costs a search of every text in which a secret may begin
_LEAST_ANCHOR_BYTES = 3  # shorter beginnings are in every line
_MOST_PARTS = 50
_MOST_READINGS = 64  # of one byte by one pattern: even a hostile text costs 50 ms for what is read at once
_UNBOUNDED = 4096  # the most that "+" and "*" take
_REPEAT = re.compile(r"\{(\d{1,5})(?:(,)(\d{0,5}))?\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
_ESCAPES = frozenset("dDwWsStrn")
_MEANINGS = {
    "|": "alternatives are written as patterns of their own",
    "^": "a pattern begins with its literal beginning, wherever that is in a line",
    "$": "a pattern ends where its last part does",
    "*": "there is nothing that could be repeated",
    "+": "there is nothing that could be repeated",
    "?": "there is nothing that could be left out",
    "{": "a brace that is meant as such is written \\{",
}


@dataclass(frozen=True, slots=True)
class _Part:
    """A character or a class, how often it occurs, and which bytes it takes."""

    text: str
    takes: frozenset[int]
    least: int = 1
    most: int = 1

    @property
    def is_literal(self) -> bool:
        return self.least == self.most == len(self.takes) == 1

    def times(self, least: int) -> str:
        # Possessive: it never gives back what it took. `_check_apart` makes sure that this changes no result.
        return f"{self.text}{{{least},{self.most}}}+"


@dataclass(frozen=True, slots=True)
class ExtraPattern:
    """One kind of secret.

    Attributes:
        anchor: Its literal beginning, which stays visible.
        whole: Matches from an anchor on; group 1 is redacted.
        unfinished: Matches where the text ends too early; group 1 begins where the secret does.
    """

    anchor: bytes
    whole: re.Pattern[bytes]
    unfinished: re.Pattern[bytes]


def parse_pattern(text: str) -> ExtraPattern:
    """Return a pattern; what is in parentheses is redacted, or everything behind the literal beginning.

    Raises:
        ValueError: The text is no pattern, or not of this kind; the sentence says what is wrong.
    """
    parts, opened, closed = _read(text)
    if opened is None:
        opened = next((place for place, part in enumerate(parts) if not part.is_literal), len(parts))
        closed = len(parts)
    anchor_end = opened
    for place, part in enumerate(parts[:opened]):
        if not part.is_literal:
            anchor_end = place
            break
    anchor = bytes(next(iter(part.takes)) for part in parts[:anchor_end])
    if len(anchor) < _LEAST_ANCHOR_BYTES or b"\n" in anchor:
        raise ValueError(
            f"it has to begin with {_LEAST_ANCHOR_BYTES} or more characters that are always the same, on one line"
        )
    before, secret, after = parts[anchor_end:opened], parts[opened:closed], parts[closed:]
    if not sum(part.least for part in secret):
        raise ValueError("there has to be something that is hidden, behind the beginning and never empty")
    if sum(part.most for part in parts) > REACH_BYTES:
        raise ValueError(
            f"it can become longer than {REACH_BYTES} bytes: give its parts bounds, as in {{20,200}}"
        )
    if len(parts) - anchor_end > _MOST_PARTS:
        raise ValueError(f"it has more than {_MOST_PARTS} parts behind its beginning")
    _check_apart(parts[anchor_end:])
    _check_density(anchor, parts[anchor_end:])
    begin = re.escape(anchor) + _row(before).encode()
    whole = re.compile(begin + f"({_row(secret)}){_row(after)}".encode())
    return ExtraPattern(anchor, whole, re.compile(begin + f"({_beginning([*secret, *after])})".encode()))


def parse_patterns(name: str, texts: Sequence[str]) -> tuple[ExtraPattern, ...]:
    """Return the patterns of the setting with this name.

    Raises:
        ConfigInvalid: There are too many, or one of them is no pattern.
    """
    if len(texts) > MOST_PATTERNS:
        text = f"{name}: there are {len(texts)} patterns, and {MOST_PATTERNS} at most can be looked for."
        raise ConfigInvalid(
            "config_invalid", text, hint="Let one pattern stand for several: classes like [abc]."
        )
    found = []
    for text in texts:
        try:
            found.append(parse_pattern(text))
        except ValueError as error:
            sentence = f"{name}: the pattern {text[:80]!r} cannot be used: {error}."
            hint = "For example acme_[A-Za-z0-9]{32}; docs/redaction.md says what a pattern looks like."
            raise ConfigInvalid("config_invalid", sentence, hint=hint) from None
    return tuple(found)


def _read(text: str) -> tuple[list[_Part], int | None, int]:
    """Return the parts, and the positions of the parentheses among them (None: there are none)."""
    parts: list[_Part] = []
    opened: int | None = None
    closed: int | None = None
    place = 0
    while place < len(text):
        char = text[place]
        if char in "()":
            if (char == "(") != (opened is None) or closed is not None or text.startswith("(?", place):
                raise ValueError("there is one pair of plain parentheses at most, around what is hidden")
            if char == "(":
                opened = len(parts)
            else:
                closed = len(parts)
            place += 1
            if char == ")" and text[place : place + 1] in {"*", "+", "?", "{"}:
                raise ValueError("what is in parentheses cannot be repeated: repeat what is in them")
            continue
        found, place = _atom(text, place)
        if len(found) == 1:
            least, most, place = _repeat(text, place)
            parts.append(_Part(found[0].text, found[0].takes, least, most))
        else:
            parts += found
    if opened is not None and closed is None:
        raise ValueError("a parenthesis is not closed")
    return parts, opened, len(parts) if closed is None else closed


def _atom(text: str, place: int) -> tuple[list[_Part], int]:
    """Return one character (as one or more bytes) or one class, and the position behind it."""
    char = text[place]
    if char in _MEANINGS:
        raise ValueError(f"{char!r} at place {place + 1} cannot be used: {_MEANINGS[char]}")
    if char == "[":
        match = _CLASS.match(text, place)
        if match is None:
            raise ValueError(f"the class that begins at place {place + 1} has no end")
        return [_part(match[0])], match.end()
    if char == "\\":
        escaped = text[place + 1 : place + 2]
        if not escaped or (escaped.isalnum() and escaped not in _ESCAPES) or not escaped.isascii():
            raise ValueError(f"\\{escaped} at place {place + 1} is not known here")
        return [_part(char + escaped)], place + 2
    if char == ".":
        return [_part(char)], place + 1
    literal = [_Part(re.escape(bytes([byte])).decode("latin-1"), frozenset([byte])) for byte in char.encode()]
    if len(literal) > 1 and text[place + 1 : place + 2] in {"*", "+", "?", "{"}:
        raise ValueError(f"{char!r} is several bytes and cannot be repeated: only ASCII can")
    return _ascii_only(literal), place + 1


def _ascii_only(parts: list[_Part]) -> list[_Part]:
    """Write bytes beyond ASCII as escapes, so that the whole pattern is ASCII: it is encoded at the end."""
    return [
        _Part(f"\\x{next(iter(part.takes)):02x}", part.takes) if min(part.takes) > 127 else part
        for part in parts
    ]


def _part(text: str) -> _Part:
    if not text.isascii():
        raise ValueError(f"{text[:40]!r}: a class is of ASCII characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            compiled = re.compile(text.encode())
    except FutureWarning:  # [[:alpha:]], [a--b], [a&&b]: sets, which a later version of `re` may understand
        sentence = f"{text[:40]!r}: signs that may get a meaning in classes are written with \\"
        raise ValueError(sentence) from None
    except re.error as error:
        raise ValueError(f"{text[:40]!r}: {error.msg}") from None
    takes = frozenset(byte for byte in range(256) if compiled.fullmatch(bytes([byte])))
    if not takes:
        raise ValueError(f"{text[:40]!r} takes nothing")
    return _Part(text, takes)


def _repeat(text: str, place: int) -> tuple[int, int, int]:
    """Return how often the part before `place` occurs, and the position behind that."""
    sign = text[place : place + 1]
    least, most, end = 1, 1, place
    if sign in {"*", "+", "?"}:
        least, most, end = int(sign == "+"), 1 if sign == "?" else _UNBOUNDED, place + 1
    elif sign == "{":
        match = _REPEAT.match(text, place)
        if match is None:
            raise ValueError(f"the braces at place {place + 1} hold no {{5}}, {{5,}} or {{5,9}}")
        least = int(match[1])
        most = least if match[2] is None else int(match[3]) if match[3] else max(least, _UNBOUNDED)
        end = match.end()
    if most < least or not most:
        raise ValueError(f"the braces at place {place + 1} allow nothing")
    if end > place and text[end : end + 1] in {"*", "+", "?", "{"}:
        raise ValueError(f"{text[end]!r} at place {end + 1} cannot follow a repetition")
    return least, most, end


def _check_apart(parts: Sequence[_Part]) -> None:
    """Refuse a part that can take what a later one needs: it would have to give bytes back."""
    for place, part in enumerate(parts):
        if part.least == part.most:
            continue
        for later in parts[place + 1 :]:
            if part.takes & later.takes:
                raise ValueError(
                    f"{part.text} can take what {later.text} behind it needs: nobody could say where one ends. "
                    "Let them have no character in common, or give the first one a fixed number"
                )
            if later.least:
                break


def _check_density(anchor: bytes, parts: Sequence[_Part]) -> None:
    """Refuse a pattern that a text of nothing but beginnings would make read the same bytes over and over."""
    # The smallest distance between two occurrences of the beginning.
    period = next(size for size in range(1, len(anchor) + 1) if anchor[size:] == anchor[: len(anchor) - size])
    if period < _LEAST_ANCHOR_BYTES:
        raise ValueError("its beginning repeats itself: take one that does not, or more of it")
    repeated = [part for part in parts if part.most > 1]
    if any(not any(byte in part.takes for part in repeated) for byte in anchor):
        return  # what follows the beginning ends before the next beginning does
    most = _MOST_READINGS * period
    if sum(part.most for part in parts) > most:
        raise ValueError(
            f"its beginning can occur in what follows it, again and again: let that have {most} bytes at most in all, as in "
            f"{{8,{most}}}, or leave a character of the beginning out of it"
        )


def _beginning(parts: Sequence[_Part]) -> str:
    """Return a pattern that matches a text which ends anywhere within these parts."""
    rest = ""
    for part in reversed(parts):
        further = f"|{part.times(part.least)}{rest}" if rest else ""
        rest = rf"(?:{part.times(0)}\Z{further})"
    return rest


def _row(parts: Sequence[_Part]) -> str:
    return "".join(part.times(part.least) for part in parts)
