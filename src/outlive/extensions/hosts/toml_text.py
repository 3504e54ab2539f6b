"""TOML: a statement is the fewest lines that the standard library's parser takes for a document.

So there is no scanner of ours. A new entry is a table of its own at the end of the text, which is right in
every TOML document in which its section is no inline table.

Source: toml.io/en/v1.0.0, "Table" and "Inline Table".
"""

import contextlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from outlive.core.documents import MAX_TOML_BYTES, BadDocument, decode_toml
from outlive.core.values import dataclass
from outlive.extensions.hosts.editor import NotEditable, newline_of

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_LATER_END = re.compile(r"\"\"\"|'''|\]")  # one of them ends a statement of several lines
_MAX_PARSED = 4 * MAX_TOML_BYTES  # characters, a few seconds; usual files are parsed twice
_MAX_TRIES = 100  # signs of equality in a key, or of comments in a value


class TomlText:
    """The format TOML."""

    def parsed(self, text: str) -> object:
        """Return the document (`Format.parsed`)."""
        try:
            return decode_toml(text)
        except BadDocument as error:
            raise NotEditable(str(error)) from None

    def put(self, text: str, path: Sequence[str], value: object) -> str:
        """Write a table anew at the end, another value in its place or behind its table's last key."""
        newline = newline_of(text)
        if isinstance(value, Mapping):
            text = self.remove(text, path)
            before = "" if not text else newline if text.endswith("\n") else newline * 2
            lines = [f"[{'.'.join(map(_key, path))}]", *(_pair(name, one) for name, one in value.items())]
            return text + before + "".join(line + newline for line in lines)
        statements = list(_statements(text))
        texts = [one.text for one in statements]
        rows = [number for number, one in enumerate(statements) if one.path and one.table == (*path[:-1],)]
        for number, one in enumerate(statements):
            if one.path == (*path,):
                head, rest = one.text[: one.value_start], one.text[one.value_start :]
                end = _first_end(rest, r"[ \t]*(?:#|\r?\n|\Z)", frame="x = {}")
                texts[number] = f"{head} {_written(value)}{rest[end:]}"
                break
        else:
            if not rows:
                raise NotEditable(f'"{".".join(path[:-1])}" is no table with a header of its own')
            last = texts[rows[-1]]
            texts[rows[-1]] = (
                last + ("" if last.endswith("\n") else newline) + _pair(path[-1], value) + newline
            )
        return "".join(texts)

    def remove(self, text: str, path: Sequence[str]) -> str:
        """Drop each statement at or below the path, and the blank line in front of a table."""
        gone = (*path,)
        # NUL, which no TOML has, stands where something was.
        marked = "".join("\0" if one.path[: len(gone)] == gone else one.text for one in _statements(text))
        marked = re.sub(r"\0\s*(?=\0)", "", marked)
        return re.sub(r"(?:(?<=\n)\r?\n)?\0(?=\r?\n|\Z)|\0", "", marked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    """One header (its table is its path), one key with its value, or a line without either (its path is
    empty).
    """

    text: str  # whole lines
    path: tuple[str, ...]  # from the outermost table
    table: tuple[str, ...]
    value_start: int


def _statements(text: str) -> Iterator[_Statement]:
    """Yield the statements of a text that the parser has accepted; together they are the text."""
    table: tuple[str, ...] = ()
    piece, parsed = "", 0
    for line in _LINE.findall(text):
        may_end = not piece or _LATER_END.search(line)
        piece += line
        if not may_end:
            continue
        parsed += len(piece)
        if parsed > _MAX_PARSED:
            raise NotEditable("it has values of too many lines")
        with contextlib.suppress(BadDocument):
            path = _path_of(decode_toml(piece))
            equals = 0
            if piece.lstrip().startswith("["):
                table = path
            elif path:
                equals = _first_end(piece, "=", frame="{}= 0")
                path = (*table, *_path_of(decode_toml(f"{piece[:equals]}= 0")))
            yield _Statement(text=piece, path=path, table=table, value_start=equals + 1)
            piece = ""


def _path_of(value: object) -> tuple[str, ...]:
    """Return the names that lead to the only value of a document."""
    names: list[str] = []
    while isinstance(value, dict) and value:
        name, value = next(iter(value.items()))
        names.append(name)
    return tuple(names)


def _first_end(text: str, mark: str, *, frame: str) -> int:
    """Return where the first mark stands up to which the parser takes the text, put into the frame."""
    for found in itertools.islice(re.finditer(mark, text), _MAX_TRIES):
        with contextlib.suppress(BadDocument):
            decode_toml(frame.format(text[: found.start()]))
            return found.start()
    raise NotEditable("a key or a value is too long")


def _pair(name: object, value: object) -> str:
    return f"{_key(str(name))} = {_written(value)}"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _written(name)


def _written(value: object) -> str:
    """Return a value as TOML; its strings are those of JSON but for DEL, which has to be escaped here."""
    match value:
        case Mapping():
            return "{" + ", ".join(_pair(name, one) for name, one in value.items()) + "}"
        case list() | tuple():
            return f"[{', '.join(map(_written, value))}]"
        case bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
        case _:
            raise NotEditable("it holds a date or a time")
