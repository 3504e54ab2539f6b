"""What a returning client says in its URL: `?session_id=…&cursor=…&output=…` (promise S0.14)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import get_args

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidRequest
from outlive.protocols.jsonrpc.params import OutputMode

_MODES: tuple[OutputMode, ...] = get_args(OutputMode)
_MAX_CURSORS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """Where to continue.

    `cursor` belongs to the process that the session started last, `named` to the processes it names; a process with
    neither is told from its beginning. `output` None keeps each process's own way of output.
    """

    session_id: str = ""
    cursor: Cursor | None = None
    named: Mapping[str, Cursor] = field(default_factory=lambda: MappingProxyType({}))
    output: OutputMode | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "Resumption":
        """Read the members of a query string; `cursor` is one cursor or "process_id:cursor,process_id:cursor".

        Raises:
            InvalidRequest: A cursor is none, or the output mode is unknown.
        """
        session_id, text = query.get("session_id", ""), query.get("cursor", "")
        output = next((mode for mode in _MODES if mode == query.get("output")), None)
        if output is None and query.get("output"):
            raise InvalidRequest("invalid_params", f"output is one of {', '.join(_MODES)}.")
        if ":" not in text:
            cursor = Cursor.parse(text) if text else None
            return cls(session_id=session_id, cursor=cursor, output=output)
        pairs = text.split(",")
        if len(pairs) > _MAX_CURSORS:
            raise InvalidRequest("invalid_cursor", f"At most {_MAX_CURSORS} cursors fit into one URL.")
        named: dict[str, Cursor] = {}
        for pair in pairs:
            process_id, _, position = pair.partition(":")
            named[process_id.strip()] = Cursor.parse(position.strip())
        return cls(session_id=session_id, named=MappingProxyType(named), output=output)

    def position(self, process_id: str) -> Cursor:
        """Return where a process continues that `cursor` does not mean."""
        return self.named.get(process_id, BEGINNING)
