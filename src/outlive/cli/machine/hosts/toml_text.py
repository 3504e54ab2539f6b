"""Changing one value of a TOML text and nothing else: comments, order and spacing stay to the byte.

A short scanner finds where each statement (a header, a key with its value) begins and ends; what it means is
asked of the standard library's parser, before and after the edit. A new entry is a table of its own at the
end of the text, which is right in every TOML document in which its section is no inline table.

Source: toml.io/en/v1.0.0, "Table" and "Inline Table".
"""

import json
from collections.abc import Mapping, Sequence
from typing import Literal

from outlive.cli.machine.hosts.editor import (
    NotEditable,
    lookup,
    newline_of,
    verified,
    with_value,
    without_value,
)
from outlive.core.documents import BadDocument, decode_toml
from outlive.core.values import dataclass

_QUOTES = ('"""', "'''", '"', "'")  # the longer ones first


class TomlText:
    """The editor of TOML."""

    def value_at(self, text: str, path: Sequence[str]) -> object | None:
        """Return the value at the path (`Editor.value_at`)."""
        return lookup(_parsed(text), path)

    def put(self, text: str, path: Sequence[str], *, value: object) -> str:
        """Return the text with the value set (`Editor.put`): a table is written anew, another value in its
        place.
        """
        old = _parsed(text)
        if (found := lookup(old, path)) == value and type(found) is type(value):
            return text
        if isinstance(value, Mapping):
            new = _appended(_without(text, path), path, value)
        else:
            new = _with_field(text, path, value)
        return verified(new, _parsed(new), with_value(old, path, value))

    def remove(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the value (`Editor.remove`)."""
        old = _parsed(text)
        if lookup(old, path) is None:
            return text
        new = _without(text, path)
        return verified(new, without_value(_parsed(new), path), without_value(old, path))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statement:
    """One header or one key with its value."""

    kind: Literal["header", "key"]
    path: tuple[str, ...]  # from the outermost table
    start: int  # of its first line
    value_start: int
    value_end: int
    end: int  # behind its last line's end


def _parsed(text: str) -> dict[str, object]:
    try:
        return decode_toml(text)
    except BadDocument as error:
        raise NotEditable(str(error)) from None


def _with_field(text: str, path: Sequence[str], value: object) -> str:
    """Set one key: in its place where it stands already, else behind the last key of its table."""
    statements = _statements(text)
    wanted = tuple(path)
    for one in statements:
        if one.kind == "key" and one.path == wanted:
            return text[: one.value_start] + _written(value) + text[one.value_end :]
    place: _Statement | None = None
    for one in statements:
        if one.kind == "header" and one.path == wanted[:-1]:
            place = one
        elif place is not None and one.kind == "header":
            break
        elif place is not None:
            place = one
    if place is None:
        raise NotEditable(f'"{".".join(wanted[:-1])}" is no table with a header of its own')
    newline = newline_of(text)
    head = text[: place.end]
    head += "" if head.endswith("\n") else newline
    return f"{head}{_key(path[-1])} = {_written(value)}{newline}{text[place.end :]}"


def _appended(text: str, path: Sequence[str], value: Mapping[str, object]) -> str:
    newline = newline_of(text)
    lines = [f"[{'.'.join(map(_key, path))}]"]
    lines += [f"{_key(name)} = {_written(one)}" for name, one in value.items()]
    before = "" if not text or text.endswith("\n") else newline
    before += newline if text.strip() else ""
    return text + before + "".join(line + newline for line in lines)


def _without(text: str, path: Sequence[str]) -> str:
    """Return the text without each statement at or below the path, and without the blank line in front of a
    table.
    """
    gone = tuple(path)
    cuts: list[tuple[int, int]] = []
    for one in _statements(text):
        if one.path[: len(gone)] != gone:
            continue
        if cuts and not text[cuts[-1][1] : one.start].strip():
            cuts[-1] = (cuts[-1][0], one.end)
        else:
            cuts.append((one.start, one.end))
    for start, end in reversed(cuts):
        head, tail = text[:start], text[end:]
        for newline in ("\r\n", "\n"):
            if head.strip() and head.endswith(newline * 2) and (not tail.strip() or tail.startswith(newline)):
                head = head.removesuffix(newline)
                break
        text = head + tail
    return text


def _statements(text: str) -> list[_Statement]:
    """Return the statements of a text that the parser has accepted, in their order."""
    found: list[_Statement] = []
    table: tuple[str, ...] = ()
    position = 0
    while (position := _skip_blank(text, position)) < len(text):
        start = text.rfind("\n", 0, position) + 1
        kind: Literal["header", "key"] = "header" if text[position] == "[" else "key"
        if kind == "header":
            value_start = _end_of(text, position, until="\n")
            name = text[position:value_start].strip().strip("[]")
            table = path = _path_of(f"{name} = 0")
            value_end = value_start
        else:
            equals = _end_of(text, position, until="=")
            path = (*table, *_path_of(f"{text[position:equals]} = 0"))
            value_start = equals + 1
            while text[value_start] in " \t":
                value_start += 1
            value_end = _end_of(text, value_start, until="\n")
            value_end = value_start + len(text[value_start:value_end].rstrip())
        position = text.find("\n", value_end)
        position = len(text) if position < 0 else position + 1
        found.append(
            _Statement(
                kind=kind,
                path=path,
                start=start,
                value_start=value_start,
                value_end=value_end,
                end=position,
            )
        )
    return found


def _path_of(statement: str) -> tuple[str, ...]:
    """Return the names of a key, which the parser has read: dots, quotes and all."""
    names: list[str] = []
    value: object = decode_toml(statement)
    while isinstance(value, dict):
        ((name, value),) = value.items()
        names.append(name)
    return tuple(names)


def _skip_blank(text: str, position: int) -> int:
    """Return where the next statement begins: behind blanks, line ends and comments."""
    while position < len(text):
        if text[position] == "#":
            position = text.find("\n", position)
            position = len(text) if position < 0 else position
        elif text[position] not in " \t\r\n":
            break
        else:
            position += 1
    return position


def _end_of(text: str, position: int, *, until: str) -> int:
    """Return where the sign `until`, or a comment, ends what begins here: outside of strings and brackets."""
    depth = 0
    while position < len(text):
        mark = text[position]
        quote = next((one for one in _QUOTES if text.startswith(one, position)), None)
        if quote is not None:
            position = _string_end(text, position + len(quote), quote)
            continue
        if mark == "#":
            if depth == 0:
                return position
            position = text.find("\n", position)
        elif depth == 0 and mark == until:
            return position
        elif mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1
        position += 1
    return len(text)


def _string_end(text: str, position: int, quote: str) -> int:
    while not text.startswith(quote, position):
        position += 2 if text[position] == "\\" and quote[0] == '"' else 1
    position += len(quote)
    # Up to two quotes may stand in front of the three that end a string.
    while len(quote) == 3 and text.startswith(quote[0], position):
        position += 1
    return position


def _key(name: str) -> str:
    is_bare = bool(name) and all((one.isascii() and one.isalnum()) or one in "_-" for one in name)
    return name if is_bare else _written(name)


def _written(value: object) -> str:
    """Return a value as TOML; its strings are those of JSON but for DEL, which has to be escaped here."""
    match value:
        case Mapping():
            inner = ", ".join(f"{_key(str(name))} = {_written(one)}" for name, one in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case list() | tuple():
            return f"[{', '.join(map(_written, value))}]"
        case bool() | int() | str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
        case _:
            raise AssertionError("an entry has strings, whole numbers, lists and tables")
