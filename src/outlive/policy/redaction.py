"""Redacting secrets in what is shown: `Redactor`. Pure.

Every byte of a secret becomes one "*" (line ends stay), so offsets and lengths stay true. Whether a byte is
redacted depends only on the text around it, at most `REACH_BYTES` to either side, never on the pieces in
which the text is read: a reader of a piece also looks at so many bytes before and behind it. At the end of a
text that still grows, `examine` reports from where on the decision is open.

Every literal with which a secret can begin is searched for at once (decision 86): ordinary text costs one
look at 5 to 20 GB/s.
"""

import functools
import json
import re
from collections.abc import Iterable, Sequence

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from outlive.policy.secret_patterns import PASSWORD_IN_ADDRESS, PATTERNS, REACH_BYTES, ExtraPattern

LEAST_VALUE_BYTES = 4  # shorter values ("1", "yes") occur everywhere: redacting them would reveal them
_SHORT_BYTES = 32
# Of a value: an automaton of longer words that repeat themselves takes minutes to build.
_BEGINNING_BYTES = 32
_PIECE_BYTES = REACH_BYTES // 2
_LINE_BYTES = 8  # each line of a value that is at least so long is redacted, too
# Line ends stay, so a search for lines finds the same ones in redacted text.
_STARS = bytes(byte if byte in b"\r\n" else ord("*") for byte in range(256))

_Span = tuple[int, int]
_ANCHORS: Sequence[bytes] = [anchor for pattern in PATTERNS for anchor in pattern.anchors]
_BY_ANCHOR = [pattern for pattern in PATTERNS for _ in pattern.anchors]
_LONGEST = max(map(len, _ANCHORS))
_ADDRESS, _CUT_ADDRESS = PASSWORD_IN_ADDRESS.whole(), PASSWORD_IN_ADDRESS.unfinished()
_ADDRESS_BYTES = 3 + 64 + 1 + 256 + 1
_BEGINNING = re.compile(b"|".join(map(re.escape, (*_ANCHORS, *PASSWORD_IN_ADDRESS.anchors))))


# A pattern is compiled when its anchor occurs first: all of them take 7 ms, and most logs have none.
@functools.cache
def _whole(place: int) -> re.Pattern[bytes]:
    return _BY_ANCHOR[place].whole()


@functools.cache
def _unfinished(place: int) -> re.Pattern[bytes]:
    return _BY_ANCHOR[place].unfinished()


class Redactor:
    """Redacts known values and, if wanted, what looks like a secret. Immutable, so all readers share one.

    Attributes:
        values: The known values, longest first, in every form that is searched for.
        seam_bytes: A beginning of a secret is at most so much longer than one byte: so many bytes before a
            piece are needed.
    """

    __slots__ = ("_anchors", "_beginnings", "_extra", "_is_plain", "_with_patterns", "seam_bytes", "values")

    def __init__(
        self, *, patterns: bool = True, values: Iterable[bytes] = (), extra: Sequence[ExtraPattern] = ()
    ) -> None:
        """Search for `values` and `extra` patterns, and for the known patterns unless these are switched
        off.
        """
        self.values = _forms(values)
        self._with_patterns = patterns
        self._extra = tuple(extra)
        self._is_plain = patterns and not self._extra and not self.values
        longest = max(_LONGEST, _ADDRESS_BYTES) if patterns else 1
        own = [one.anchor for one in extra]
        self.seam_bytes = max([longest, *map(len, own), *map(len, self.values)]) - 1
        self._anchors = _automaton(_ANCHORS) if patterns else None
        self._beginnings = _automaton(
            [*(_ANCHORS if patterns else ()), *own, *(value[:_BEGINNING_BYTES] for value in self.values)]
        )

    @property
    def is_idle(self) -> bool:
        """Whether it redacts nothing at all."""
        return self._beginnings is None

    @property
    def rules(self) -> str:
        """What it redacts in the output of all processes, as a text that is the same where the rules are: not
        the known values.
        """
        known = [one.text for one in (*_BY_ANCHOR, PASSWORD_IN_ADDRESS)] if self._with_patterns else []
        return repr((known, sorted(one.whole.pattern for one in self._extra)))

    def with_values(self, values: Iterable[bytes]) -> "Redactor":
        """Return a redactor that redacts these values as well."""
        return Redactor(patterns=self._with_patterns, values=[*self.values, *values], extra=self._extra)

    def is_suspect(self, data: bytes) -> bool:
        """Return whether a secret could begin in `data`.

        One that begins so close to its end that it is cut is not seen.
        """
        if self._is_plain and len(data) <= _SHORT_BYTES and _BEGINNING.search(data) is None:
            # Without the large search, which releases the interpreter lock and waits to get it back.
            return False
        if self._beginnings is None:
            return False
        if self._beginnings.find_matches_as_indexes(data):
            return True
        if not self._with_patterns:
            return False
        # memchr finds an "@" at 100 GB/s, and few pieces contain one.
        return (b"@" in data and _ADDRESS.search(data) is not None) or _has_cut_address(data)

    def may_begin_at_end(self, data: bytes) -> bool:
        """Return whether a known value begins in `data` and is cut off by its end."""
        return bool(self.values) and self._cut_value(data) < len(data)

    def examine(self, data: bytes) -> tuple[list[_Span], int, int]:
        """Return the secrets in `data` as (begin, end), sorted and disjoint, and from where on more bytes
        could change that.

        The second number is about patterns, the third about known values; each is the length of `data` if all
        is decided.
        """
        spans, undecided = self._patterned(data) if self._anchors is not None else ([], len(data))
        undecided = min(undecided, self._find_extra(data, spans))
        for value in self.values:
            begin = data.find(value)
            while begin >= 0:
                spans.append((begin, begin + len(value)))
                begin = data.find(value, begin + 1)
        return merged(spans), undecided, self._cut_value(data)

    def mask(self, data: bytes) -> bytes:
        """Return a complete text, redacted."""
        if not self.is_suspect(data):
            return data
        return blank(data, self.examine(data)[0])

    def mask_text(self, text: str) -> str:
        """Return a text, redacted."""
        return self.mask_counting(text)[0]

    def mask_counting(self, text: str) -> tuple[str, int]:
        """Return a text, redacted, and the number of secrets that were in it."""
        try:
            data, errors = text.encode("utf-8", "surrogateescape"), "surrogateescape"
        except UnicodeEncodeError:  # half of a surrogate pair
            data, errors = text.encode("utf-8", "surrogatepass"), "surrogatepass"
        spans = self.examine(data)[0] if self.is_suspect(data) else []
        return (blank(data, spans).decode("utf-8", errors), len(spans)) if spans else (text, 0)

    def _patterned(self, data: bytes) -> tuple[list[_Span], int]:
        spans: list[_Span] = []
        undecided = len(data)
        if self._anchors is None:
            return spans, undecided
        for place, begin, _ in self._anchors.find_matches_as_indexes(data):
            match = _whole(place).match(data, begin)
            if match is not None:
                spans.append(match.span(1))
            elif (
                len(data) - begin < REACH_BYTES
                and (match := _unfinished(place).match(data, begin)) is not None
            ):
                undecided = min(undecided, match.start(1))
        if b"@" in data:
            spans += [match.span(1) for match in _ADDRESS.finditer(data)]
        tail = data[-_ADDRESS_BYTES:]
        match = _CUT_ADDRESS.search(tail)
        if match is not None:
            undecided = min(undecided, len(data) - len(tail) + match.start(1))
        return spans, undecided

    def _find_extra(self, data: bytes, spans: list[_Span]) -> int:
        """Add the spans of the operator's patterns; return from where on these are undecided.

        Each pattern is searched for separately, and spans may overlap: what the patterns have in common is
        not known.
        """
        undecided = len(data)
        for one in self._extra:
            begin = data.find(one.anchor)
            while begin >= 0:
                if (match := one.whole.match(data, begin)) is not None:
                    spans.append(match.span(1))
                elif len(data) - begin < REACH_BYTES and (match := one.unfinished.match(data, begin)):
                    undecided = min(undecided, match.start(1))
                begin = data.find(one.anchor, begin + 1)
        return undecided

    def _cut_value(self, data: bytes) -> int:
        """Return the position of the first value that the end of `data` cuts off.

        The length of `data` if there is none.
        """
        first = len(data)
        for value in self.values:
            begin = data.find(value[:1], max(0, len(data) - len(value) + 1))
            while 0 <= begin < first:
                if value.startswith(data[begin:]):
                    first = begin
                    break
                begin = data.find(value[:1], begin + 1)
        return first


def blank(data: bytes, spans: Iterable[_Span]) -> bytes:
    """Return `data` with stars in these spans."""
    masked = bytearray(data)
    for first, last in spans:
        begin = max(0, first)
        hidden = data[begin : max(begin, last)]
        masked[begin : begin + len(hidden)] = hidden.translate(_STARS)
    return bytes(masked)


def _has_cut_address(data: bytes) -> bool:
    tail = data if len(data) <= _ADDRESS_BYTES else data[-_ADDRESS_BYTES:]
    return b"://" in tail and _CUT_ADDRESS.search(tail) is not None


def _automaton(literals: Sequence[bytes]) -> "BytesAhoCorasick | None":
    # Leftmost-first is the kind with a vectorised search in front; the other one costs ten times as much.
    return BytesAhoCorasick(literals, matchkind=MatchKind.LeftmostFirst) if literals else None


def _forms(values: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return values in the forms in which a program may print them: unchanged, in JSON, through a terminal,
    by line.
    """
    forms: set[bytes] = set()
    for whole in values:
        # A value that is longer than a reader looks back is redacted piece by piece.
        value = whole[:_PIECE_BYTES]
        forms.update(whole[at : at + _PIECE_BYTES] for at in range(0, len(whole), _PIECE_BYTES))
        if b"\n" in value:
            forms.add(value.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"))
            forms.update(line for line in whole.splitlines() if len(line) >= _LINE_BYTES)
            forms.add(value.rstrip(b"\n"))
        text = value.decode("utf-8", "surrogateescape")
        for ascii_only in (False, True):
            quoted = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            forms.add(quoted.encode("utf-8", "surrogateescape"))
    known = {form for form in forms if LEAST_VALUE_BYTES <= len(form) <= REACH_BYTES}
    return tuple(sorted(known, key=lambda form: (-len(form), form)))


def merged(spans: list[_Span]) -> list[_Span]:
    """Return the spans sorted; those that overlap or touch become one."""
    spans.sort()
    found: list[_Span] = []
    for begin, end in spans:
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
