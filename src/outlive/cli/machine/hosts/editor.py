"""What every format's editor does: one value of a configuration file's text is read, set or removed, nothing
else changes.

The editors are pure, text in, text out, and all work in the same way. A parser that is not ours says what the
text means; the edit is a piece put into the text or cut out of it; the parser then says whether the result
means the old document with exactly this one value changed. Where it does not, the text is refused: a file
that cannot be edited safely stays as it is.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

Format = Literal["json", "jsonc", "toml", "yaml"]
UNIT = "  "  # the indentation of what is written into a text that has none of its own


class NotEditable(ValueError):
    """The text is not of the format, or not of a form that can be changed; the message says where."""


class Editor(Protocol):
    """Changes one value of a text; `path` is the names from the outermost table to the value."""

    def value_at(self, text: str, path: Sequence[str]) -> object | None:
        """Return the value at the path; None where there is none.

        Raises:
            NotEditable: The text cannot be understood.
        """
        ...

    def put(self, text: str, path: Sequence[str], *, value: object) -> str:
        """Return the text with the value at the path set; tables on the way are made.

        Raises:
            NotEditable: The text cannot be understood, or not changed without harm.
        """
        ...

    def remove(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the value at the path, and without the tables around it that are empty
        then.

        Raises:
            NotEditable: The text cannot be understood, or not changed without harm.
        """
        ...


def lookup(document: object, path: Sequence[str]) -> object | None:
    """Return the value at the path of a parsed document; None where there is none.

    Raises:
        NotEditable: Something on the way is no table.
    """
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


def verified(new_text: str, meaning: object, wanted: object) -> str:
    """Return the edited text, whose meaning a parser has told.

    Raises:
        NotEditable: It means something else than it should.
    """
    if meaning != wanted:
        raise NotEditable("it is written in a way in which a change would harm other parts of it")
    return new_text


def newline_of(text: str) -> str:
    """Return how the text ends its lines."""
    return "\r\n" if "\r\n" in text else "\n"
