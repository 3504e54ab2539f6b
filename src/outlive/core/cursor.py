"""Positions in a process's output: `Cursor`, the pair of both streams' byte offsets.

Everything before a cursor was delivered, everything after it was not (wire promise "Words").
One number cannot do that: while a partial line of stdout is held back, stderr goes on.

`SearchPlace`: how far a search through the output of many processes has got.
"""

from outlive.core.errors import InvalidRequest
from outlive.core.identity import ProcessId, is_process_id
from outlive.core.values import dataclass

_MAX_DIGITS = 18  # keeps every offset below 2**63, which pread and SQLite accept


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """How many bytes of stdout and of stderr are behind the position.

    Merged and pty output use `stdout` alone.
    """

    stdout: int = 0
    stderr: int = 0

    def __str__(self) -> str:
        """Return the form used on every wire: "<stdout bytes>.<stderr bytes>"."""
        return f"{self.stdout}.{self.stderr}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Read the wire form; "0" is the beginning.

        Raises:
            InvalidRequest: The text is no cursor.
        """
        first, dot, second = text.partition(".")
        if not dot:
            second = "0"
        if not (_is_offset(first) and _is_offset(second)):
            raise InvalidRequest(
                "invalid_cursor",
                f"Not a cursor: {text[:60]!r}.",
                hint='A cursor looks like "1024.0": take it from the last message, or "0" for the beginning.',
            )
        return cls(int(first), int(second))


def _is_offset(text: str) -> bool:
    return 0 < len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()


BEGINNING = Cursor()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlace:
    """Newer processes were searched, and `process_id` up to `offset` of `stream` (0 stdout, 1 stderr, which
    comes second).

    `found`: matching lines of this process so far, since a search may want only so many of each.
    """

    process_id: ProcessId
    stream: int = 0
    offset: int = 0
    found: int = 0

    def __str__(self) -> str:
        """Return the form used on every wire: "<process id>.<stream>.<offset>.<found>"."""
        return f"{self.process_id}.{self.stream}.{self.offset}.{self.found}"

    @classmethod
    def parse(cls, text: str) -> "SearchPlace":
        """Read the wire form.

        Raises:
            InvalidRequest: The text is none.
        """
        words = text.split(".")
        numbers = words[1:]
        is_one = len(words) == 4 and is_process_id(words[0]) and words[1] in {"0", "1"}
        if not is_one or not all(_is_offset(word) for word in numbers):
            hint = "Take `next` of the answer before; without a cursor the search begins anew."
            raise InvalidRequest("invalid_cursor", f"No place of a search: {text[:80]!r}.", hint=hint)
        stream, offset, found = map(int, numbers)
        return cls(process_id=ProcessId(words[0]), stream=stream, offset=offset, found=found)
