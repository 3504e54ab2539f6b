"""What a viewer asks for when it connects: `Opening`, the query of its address, and the subprotocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest

CONTROLLED = "outlive.terminal.v1"  # text frames are control messages
PLAIN = (
    "outlive.terminal.plain"  # as without any: a browser that offers a token must be answered with something
)

_SWITCHES = {"": False, "0": False, "false": False, "1": True, "true": True}
_MOST_CELLS = 65535  # struct winsize holds 16 bits (ioctl_tty(2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Where to begin (None: with the newest history), whether to look only, the window's size, and if secrets are shown."""

    cursor: Cursor | None = None
    readonly: bool = False
    raw: bool = False
    size: tuple[int, int] | None = None  # rows, columns

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "Opening":
        """Read the members of a query string; unknown ones are ignored.

        Raises:
            InvalidRequest: A member makes no sense.
        """
        text = query.get("cursor", "")
        return cls(
            cursor=Cursor.parse(text) if text else None,
            readonly=_switch(query, "readonly"),
            raw=_switch(query, "raw"),
            size=_size(query),
        )


def chosen_subprotocol(offered: Sequence[str]) -> str | None:
    """Return the one to answer with: control messages where they are offered; None where neither is."""
    return next((known for known in (CONTROLLED, PLAIN) if known in offered), None)


def _switch(query: Mapping[str, str], name: str) -> bool:
    value = _SWITCHES.get(query.get(name, "").lower())
    if value is None:
        raise InvalidRequest("invalid_params", f"{name} is 1 or 0.")
    return value


def _size(query: Mapping[str, str]) -> tuple[int, int] | None:
    rows, cols = query.get("rows", ""), query.get("cols", "")
    if not rows and not cols:
        return None
    return _cells("rows", rows), _cells("cols", cols)


def _cells(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= _MOST_CELLS):
        raise InvalidRequest(
            "invalid_params", f"{name} is a number from 1 to {_MOST_CELLS}, beside the other one."
        )
    return int(text)
