"""Positions in a process's output: `Cursor`, the pair of both streams' byte offsets.

Everything before a cursor was delivered, everything after it was not (wire promise "Words").
One number cannot do that: while a partial line of stdout is held back, stderr goes on.
"""

from dataclasses import dataclass

from outlive.core.errors import InvalidRequest

_MAX_DIGITS = 18  # keeps every offset below 2**63, which pread and SQLite accept


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """How many bytes of stdout and of stderr are behind the position; merged and pty output use `stdout` alone."""

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
