"""How a host's file is edited: one value of its text is read, set or removed, nothing else changes.

The editors are pure, text in, text out, and all work in the same way. A parser that is not ours says what the
text means; the edit is a piece put into the text or cut out of it; the parser then says whether the result
means the old document with exactly this one value changed. Where it does not, the text is refused: a file
that cannot be edited safely stays as it is.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from outlive.core.values import dataclass

FormatName = Literal["json", "jsonc", "toml", "yaml"]
UNIT = "  "  # the indentation of what is written into a text that has none of its own


class NotEditable(ValueError):
    """The text is not of the format, or not of a form that can be changed; the message says where."""


class Format(Protocol):
    """Puts pieces into a text and cuts them out; `Editor` judges the result.

    Each method raises `NotEditable` for what it cannot do.
    """

    def parsed(self, text: str) -> object:
        """Return the document that a text means."""

    def put(self, text: str, path: Sequence[str], value: object) -> str:
        """Return the text with the value at the path set; tables on the way are made."""

    def remove(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the value at the path, and perhaps without tables that are empty then."""


@dataclass(frozen=True, slots=True)
class Editor:
    """Changes one value of a text; `path` is the names from the outermost table to the value.

    Each method raises `NotEditable` for a text that it does not understand, or cannot change without harm.
    """

    form: Format

    def value_at(self, text: str, path: Sequence[str]) -> object | None:
        """Return the value at the path; None where there is none."""
        return _lookup(self.form.parsed(text), path)

    def put(self, text: str, path: Sequence[str], *, value: object) -> str:
        """Return the text with the value at the path set; tables on the way are made."""
        old = self.form.parsed(text)
        if value == (found := _lookup(old, path)) is not None and type(found) is type(value):
            return text
        new = self.form.put(text, path, value)
        return _verified(new, self.form.parsed(new), with_value(old, path, value))

    def remove(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the value at the path, and without the tables around it that are empty
        then.
        """
        old = self.form.parsed(text)
        _lookup(old, path)
        new = self.form.remove(text, path)
        return _verified(new, without_value(self.form.parsed(new), path), without_value(old, path))


def _lookup(document: object, path: Sequence[str]) -> object | None:
    found: object | None = document
    for position, name in enumerate(path):
        if found is None:
            return None
        if not isinstance(found, Mapping):
            raise NotEditable(f'"{".".join(path[:position])}" is no table')
        found = found.get(name)
    return found


def with_value(document: object, path: Sequence[str], value: object) -> dict[str, object]:
    """Return a parsed document with the value at the path set: what an edited text has to mean."""
    table = dict(document) if isinstance(document, Mapping) else {}
    name, *rest = path
    table[name] = with_value(table.get(name), rest, value) if rest else value
    return table


def without_value(document: object, path: Sequence[str]) -> dict[str, object]:
    """Return a parsed document without the value at the path and the tables that are empty then."""
    table = dict(document) if isinstance(document, Mapping) else {}
    name, *rest = path
    if name in table:
        inner = without_value(table[name], rest) if rest else {}
        if inner:
            table[name] = inner
        else:
            del table[name]
    return table


def _verified(new_text: str, meaning: object, wanted: object) -> str:
    if meaning != wanted:
        raise NotEditable("it is written in a way in which a change would harm other parts of it")
    return new_text


def nested(path: Sequence[str], value: object) -> object:
    """Return tables in each other, one a name, with the value in the innermost."""
    for name in reversed(path):
        value = {name: value}
    return value


def newline_of(text: str) -> str:
    """Return how the text ends its lines."""
    return "\r\n" if "\r\n" in text else "\n"
