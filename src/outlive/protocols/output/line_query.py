"""What a search in output looks for: `LineQuery`, a text or a regular expression, in lines of UTF-8 bytes.

Also what every line that matches it must contain (`needed_literals`), for an index of what blocks of a log
contain. Pure.

Beside `pattern`, which reads what models write as they mean it, this one takes a person at their word: a text
is a text, the case counts unless it is said not to, and what is no regular expression is refused. The engine
is RE2 for both (decision 174).

A wrong answer of `needed_literals` would hide a match, so whatever is not understood for certain has no
literals: then the log itself is read. A test compares with RE2. What is compared is folded on both sides
(`fold`): letters are small, as far as RE2 takes a capital for the same.
"""

import re
from collections.abc import Iterator

from outlive.core.errors import InvalidRequest
from outlive.operations.search import MAX_TEXT_CHARACTERS
from outlive.protocols.output.pattern import compile_lines, matching_lines


class LineQuery:
    """Finds lines that match.

    Attributes:
        text: As the caller has written it.
        is_regex: It is a regular expression.
        ignores_case: Letters match in either case.
    """

    __slots__ = ("_compiled", "ignores_case", "is_regex", "text")

    def __init__(self, text: str, *, is_regex: bool = False, ignores_case: bool = False) -> None:
        """Compile `text`.

        Raises:
            InvalidRequest: It is empty, too long, has a line end, or is no regular expression.
        """
        if not text or len(text) > MAX_TEXT_CHARACTERS or "\n" in text:
            raise InvalidRequest(
                "invalid_params",
                f"What is looked for has 1 to {MAX_TEXT_CHARACTERS} characters, and no line end.",
                hint="Look for a few words of one line.",
            )
        self.text, self.is_regex, self.ignores_case = text, is_regex, ignores_case
        try:
            pattern = text if is_regex else re.escape(text)
            self._compiled = compile_lines(pattern, is_case_sensitive=not ignores_case)
        except ValueError as error:
            raise InvalidRequest(
                "invalid_params",
                f"{text[:80]!r} is no regular expression: {str(error)[:200]}.",
                hint=(
                    "RE2 has no look-around and no back-references; without regex it is looked for as "
                    "it stands."
                ),
            ) from None

    def lines(self, data: bytes) -> Iterator[tuple[int, int, int, int]]:
        """Yield each line of `data` that matches: where it begins and ends, and where its first match begins
        and ends.
        """
        return matching_lines(self._compiled, data)


# In the middle of a text so much is enough to exclude a block, and blocks overlap by more than so much
# (`store.search.log_index`).
MAX_LITERAL_BYTES = 60
MIN_LITERAL_BYTES = 5  # of fewer an index of pairs of bytes knows nothing
# Redaction puts stars in the place of bytes, so a star in what is looked for says nothing about what was
# written.
_STAR = "*"
# RE2 takes these for "s" and "k" where case does not count (Unicode, CaseFolding.txt).
_LONG_S, _KELVIN = "\u017f".encode(), "\u212a".encode()
_TOKENS = re.compile(
    r"(?P<escape>\\.)|(?P<class>\[\^?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\])|(?P<count>\{\d*,?\d*\})|(?P<sign>.)",
    re.DOTALL,
)
# Behind a backslash: classes, ends of words, and signs that no line holds as they are written. None takes
# more characters with it.
_PLAIN_ESCAPES = frozenset("dDsSwWbBAztnrfva")


def fold(data: bytes) -> bytes:
    """Return bytes in which letters that RE2 may take for each other are the same."""
    data = data.lower()
    if b"\xc5" in data or b"\xe2" in data:
        data = data.replace(_LONG_S, b"s").replace(_KELVIN, b"k")
    return data


def needed_literals(query: LineQuery) -> tuple[bytes, ...] | None:
    """Return folded texts of which each matching line, folded, contains one at least; None where none are
    known.
    """
    alternatives = _alternatives(query.text) if query.is_regex else [[query.text]]
    if alternatives is None:
        return None
    found = []
    for pieces in alternatives:
        literal = max((_usable(piece, query) for piece in pieces), key=len, default=b"")
        if len(literal) < MIN_LITERAL_BYTES:
            return None
        found.append(literal)
    return tuple(found)


def _usable(piece: str, query: LineQuery) -> bytes:
    """Return the longest part of a text that an index can be asked for."""
    parts = piece.split(_STAR)
    if query.ignores_case:
        # Other alphabets have capitals, too, which `fold` does not know.
        parts = [word for part in parts for word in re.split(r"[^\x00-\x7f]+", part)]
    encoded = (fold(part.encode("utf-8", "replace"))[:MAX_LITERAL_BYTES] for part in parts)
    return max(encoded, key=len, default=b"")


def _alternatives(pattern: str) -> list[list[str]] | None:
    """Return for each alternative of a pattern the texts that it needs; None where that is not certain."""
    if "(?" in pattern or "\\Q" in pattern:
        return None  # flags and groups with names: rare, and each with rules of its own
    needs = _Needs()
    for token in _TOKENS.finditer(pattern):
        if not needs.take(token):
            return None
    needs.finish()
    return needs.alternatives


class _Needs:
    """What was read of a pattern so far; `alternatives` has the texts of each."""

    def __init__(self) -> None:
        self.alternatives: list[list[str]] = [[]]
        self._text = ""
        self._depth = 0

    def take(self, token: re.Match[str]) -> bool:
        """Take the next token; return whether it is understood."""
        kind, sign = token.lastgroup, token[0]
        if kind == "escape":
            return self._escape(sign[1:])
        if kind == "sign" and sign in "()[":
            self.finish()
            self._depth += {"(": 1, ")": -1}.get(sign, 0)
            return self._depth >= 0 and sign != "["  # a class without an end
        if self._depth:
            return True  # a group may be absent, or have alternatives: nothing of it is needed for certain
        if kind == "sign" and sign not in ".^$+*?{|":
            self._text += sign
            return True
        if kind == "count" or sign in "*?{":
            self._text = self._text[:-1]  # what it is about may be absent
        self.finish()
        if sign == "|":
            self.alternatives.append([])
        return True

    def finish(self) -> None:
        """End a text: what follows need not come at once behind it."""
        if self._text:
            self.alternatives[-1].append(self._text)
        self._text = ""

    def _escape(self, escaped: str) -> bool:
        if not escaped.isascii() or escaped.isalnum():
            self.finish()
            return escaped in _PLAIN_ESCAPES  # with \x41, \pN and \123 what follows belongs to it
        if not self._depth:
            self._text += escaped
        return True
