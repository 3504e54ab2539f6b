"""Changing one value of a JSON text and nothing else, with comments and trailing commas where the host reads
them.

The text around the value stays as it is to the byte: order, spacing, line ends, comments, how numbers are
written. What JSON does not have (comments, trailing commas) is replaced by blanks first, so that every
position stays the same: the standard library's decoder reads the blanked text, and the edit is made in the
real one.

Sources: RFC 8259; code.visualstudio.com "JSON with Comments"; zed.dev/docs/configuring-zed;
opencode.ai/docs/config.
"""

import json
import re
from collections.abc import Sequence

from outlive.core.documents import BadDocument, checked_json
from outlive.core.values import dataclass
from outlive.extensions.hosts.editor import UNIT, NotEditable, nested, newline_of

_BLANKS = " \t\r\n"
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonText:
    """The format JSON; `has_comments` says whether comments and trailing commas belong to it."""

    has_comments: bool

    def parsed(self, text: str) -> object:
        """Return the document (`Format.parsed`); a blank text counts as {}."""
        return _root(self._source(text)).value if text.strip() else {}

    def put(self, text: str, path: Sequence[str], value: object) -> str:
        """Replace the value, or add a member behind the last one (`Format.put`)."""
        text = text if text.strip() else "{}\n"
        source = self._source(text)
        place = _root(source)
        style = _Style.of(source, place)
        for depth, name in enumerate(path):
            found = place.find(name)
            if found is None:
                value = nested(path[depth + 1 :], value)
                return _insert(source, place, name, value=value, style=style, depth=depth)
            if depth == len(path) - 1:
                return text[: found.value_start] + style.written(value, found.before) + text[found.end :]
            place = _scan(source, found.value_start)
        raise AssertionError("a path has at least one name")

    def remove(self, text: str, path: Sequence[str]) -> str:
        """Cut the member out (`Format.remove`).

        The outermost object that would be empty afterwards goes with it, unless a comment stands in it.
        """
        if not text.strip():
            return text
        source = self._source(text)
        place = _root(source)
        cut_from, cut_name = place, path[0]
        outer: _JsonMember | None = None
        for name in path:
            place = place if outer is None else _scan(source, outer.value_start)
            found = place.find(name)
            if found is None:
                return text
            if len(place.members) > 1 or outer is None or source.has_comment_around(found, outer):
                cut_from, cut_name = place, name
            outer = found
        return _cut(source, cut_from, cut_name)

    def _source(self, text: str) -> "_Source":
        return _Source.of(text) if self.has_comments else _Source(text=text, plain=text)


# Strings come first, so that nothing in them counts. The groups after a comma give nothing back once they
# have matched (Python 3.11): a row of comments is read once, and not in each way in which it could be
# divided.
_NO_JSON = re.compile(
    r"""
    "(?:[^"\\\n]|\\.)*+"?
    | (?P<comment>//[^\n]*|(?>/\*.*?\*/))
    | (?P<comma>,)(?=(?:[ \t\r\n]|//[^\n]*\n|(?>/\*.*?\*/))*+[]}])
    """,
    re.DOTALL | re.VERBOSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """A text, and the same text with blanks in the place of what is no JSON."""

    text: str
    plain: str
    comments: Sequence[tuple[int, int]] = ()
    trailing_commas: frozenset[int] = frozenset()

    @classmethod
    def of(cls, text: str) -> "_Source":
        """Find comments and trailing commas; strings are passed over."""
        comments: list[tuple[int, int]] = []
        commas: set[int] = set()
        pieces: list[str] = []
        done = 0
        for found in _NO_JSON.finditer(text):
            start, end = found.span()
            if found["comma"] is not None:
                # "[,]" has no value in front of its comma: the decoder is left to refuse it.
                before = start - 1
                while before >= 0 and text[before] in _BLANKS:
                    before -= 1
                if before < 0 or text[before] in "[{,:":
                    continue
                commas.add(start)
            elif found["comment"] is not None:
                end = start + len(text[start:end].rstrip("\r"))
                comments.append((start, end))
            else:
                continue
            pieces += [text[done:start], "".join(one if one in "\r\n" else " " for one in text[start:end])]
            done = end
        plain = "".join([*pieces, text[done:]])
        return cls(text=text, plain=plain, comments=comments, trailing_commas=frozenset(commas))

    def comments_end(self, start: int, end: int) -> int:
        """Return where the last comment of a stretch between two members ends, and `start` where there is
        none.
        """
        return max((stop for begin, stop in self.comments if start <= begin < end), default=start)

    def line_comments_end(self, start: int) -> int:
        """Return where the comments end that follow on the same line, and `start` where there are none."""
        end = position = start
        for begin, stop in self.comments:
            if begin >= position and not self.text[position:begin].strip(" \t"):
                if "\n" in self.text[begin:stop]:
                    break
                end = position = stop
        return end

    def ends_in_line_comment(self, start: int, end: int) -> bool:
        """Tell whether the last comment of a stretch goes to the end of its line."""
        inside = [begin for begin, _ in self.comments if start <= begin < end]
        return bool(inside) and self.text.startswith("//", inside[-1])

    def has_comment_around(self, inner: "_JsonMember", outer: "_JsonMember") -> bool:
        """Tell whether a comment stands in a member, outside of the member in it."""
        return any(
            outer.start < begin < outer.end and not inner.start <= begin < inner.end
            for begin, _ in self.comments
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _JsonMember:
    key: str
    before: str  # what a member that is added behind this one has before its key
    gap_start: int  # behind the brace or comma before it
    start: int  # of the key
    value_start: int
    end: int
    comma: int | None  # where its comma is
    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class _JsonObject:
    start: int
    end: int
    members: Sequence[_JsonMember]

    @property
    def value(self) -> dict[str, object]:
        return {one.key: one.value for one in self.members}

    def find(self, key: str) -> _JsonMember | None:
        found = [one for one in self.members if one.key == key]
        if len(found) > 1:
            raise NotEditable(f"{json.dumps(key)} stands there {len(found)} times")
        return found[0] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    """How this text is laid out: `unit` is None where everything stands on one line."""

    newline: str
    unit: str | None

    @classmethod
    def of(cls, source: _Source, root: _JsonObject) -> "_Style":
        newline = newline_of(source.text)
        if not root.members:
            return cls(newline=newline, unit=UNIT)
        first = root.members[0].before
        return cls(newline=newline, unit=_indent(first) or UNIT if "\n" in first else None)

    def written(self, value: object, before: str) -> str:
        """Return the value as text, for a key that stands behind `before`."""
        if self.unit is None or "\n" not in before:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return (self.newline + _indent(before)).join(lines)


def _insert(source: _Source, into: _JsonObject, key: str, *, value: object, style: _Style, depth: int) -> str:
    """Add a member behind the last one, laid out as that is."""
    text, name = source.text, json.dumps(key, ensure_ascii=False)
    outer = style.newline + (style.unit or "") * depth
    if not into.members:
        before, after = ("", "") if style.unit is None else (outer + style.unit, outer)
        start = source.comments_end(into.start + 1, into.end - 1)
        if start > into.start + 1:  # comments stay, and what is behind them
            before = outer + (style.unit or UNIT)
            tail = text[start:]
            tail = tail if "\n" in tail[: into.end - 1 - start] else outer + tail.lstrip(" \t")
            return f"{text[:start]}{before}{name}: {style.written(value, before)}{tail}"
        return (
            f"{text[: into.start]}{{{before}{name}: {style.written(value, before)}{after}}}{text[into.end :]}"
        )
    last = into.members[-1]
    before = last.before or (" " if len(into.members) == 1 else "")
    # A comment behind the last member on its line stays there, and so does the habit of a trailing comma.
    anchor = source.line_comments_end(last.end if last.comma is None else last.comma + 1)
    if "\n" not in before and source.ends_in_line_comment(last.end, anchor):
        before = outer + (style.unit or "")
    written = f"{before}{name}: {style.written(value, before)}"
    if last.comma is None:
        return f"{text[: last.end]},{text[last.end : anchor]}{written}{text[anchor:]}"
    return f"{text[:anchor]}{written},{text[anchor:]}"


def _cut(source: _Source, of: _JsonObject, key: str) -> str:
    text = source.text
    position = next(number for number, one in enumerate(of.members) if one.key == key)
    gone = of.members[position]
    start = source.comments_end(gone.gap_start, gone.start)
    end = gone.end if gone.comma is None else gone.comma + 1
    stays = text[gone.end : end - 1] if source.comments_end(gone.end, end) > gone.end else ""
    if len(of.members) == 1 and start == gone.gap_start and not stays and not text[end : of.end - 1].strip():
        return f"{text[: of.start]}{{}}{text[of.end :]}"
    if position == 0 and len(of.members) > 1 and start == gone.gap_start and not stays:
        following = of.members[1]
        if source.comments_end(end, following.start) == end:
            return text[: gone.start] + text[following.start :]
    rest = stays + text[end:]
    if source.ends_in_line_comment(gone.gap_start, start) and not rest.lstrip(" \t").startswith(("\n", "\r")):
        start = text.index("\n", start) + 1  # the line comment above must not swallow what follows
    head = text[:start]
    if gone.comma is None and position:
        comma = of.members[position - 1].comma
        assert comma is not None
        head = text[:comma] + text[comma + 1 : start]
    return head + rest


def _indent(before: str) -> str:
    return before.rpartition("\n")[2]


def _root(source: _Source) -> _JsonObject:
    try:
        # Its depth alone: of these files some grow with every conversation (`file_change` has their bound).
        checked_json(source.plain, max_bytes=len(source.plain), max_members=len(source.plain))
    except BadDocument as error:
        raise NotEditable(str(error)) from None
    root = _scan(source, _skip(source.plain, 0))
    if (rest := _skip(source.plain, root.end)) != len(source.plain):
        raise _not_json(source.plain, rest, "something follows the object")
    return root


def _scan(source: _Source, start: int) -> _JsonObject:
    """Return where the members of the object at `start` begin and end."""
    plain = source.plain
    if plain[start : start + 1] != "{":
        raise _not_json(plain, start, "an object was expected")
    members: list[_JsonMember] = []
    position = start + 1
    while True:
        key_start = _skip(plain, position)
        mark = plain[key_start : key_start + 1]
        if mark == "}" and not members:
            return _JsonObject(start=start, end=key_start + 1, members=members)
        if mark != '"':
            raise _not_json(plain, key_start, "a name in double quotes was expected")
        member = _scan_member(source, position, key_start)
        members.append(member)
        position = _skip(plain, member.end)
        mark = plain[position : position + 1]
        position += 1
        if mark == "}":
            return _JsonObject(start=start, end=position, members=members)
        if mark != ",":
            raise _not_json(plain, position - 1, "a comma or a closing brace was expected")


def _scan_member(source: _Source, gap_start: int, start: int) -> _JsonMember:
    plain = source.plain
    try:
        key, colon = _DECODER.raw_decode(plain, start)
        colon = _skip(plain, colon)
        if plain[colon : colon + 1] != ":":
            raise _not_json(plain, colon, "a colon was expected")
        value_start = _skip(plain, colon + 1)
        value, end = _DECODER.raw_decode(plain, value_start)
    except json.JSONDecodeError as error:
        raise _not_json(plain, error.pos, error.msg) from None
    except NotEditable:
        raise
    except ValueError:  # `int` refuses thousands of digits
        raise _not_json(plain, start, "a number is too long") from None
    after = _skip(source.plain, end)
    gap = source.text[gap_start:start]
    if gap.strip():  # comments stand there
        gap = newline_of(source.text) + _indent(gap) if "\n" in gap else " "
    return _JsonMember(
        key=key,
        before=gap,
        gap_start=gap_start,
        start=start,
        value_start=value_start,
        end=end,
        comma=_comma(source, end, after),
        value=value,
    )


def _comma(source: _Source, end: int, after: int) -> int | None:
    """Return where the comma between a value's end and the next sign is, a trailing one included."""
    if source.plain[after : after + 1] == ",":
        return after
    return next((one for one in range(end, after) if one in source.trailing_commas), None)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANKS:
        position += 1
    return position


def _not_json(text: str, position: int, reason: str) -> NotEditable:
    line = text.count("\n", 0, position) + 1
    if text[position : position + 2] in {"//", "/*"}:
        reason = "a comment"
    return NotEditable(f"line {line}: {reason}")
