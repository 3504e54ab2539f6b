"""Where a reader stands in a process's output: `Position`, which makes exactly-once out of what is told. Pure."""

from outlive.client.messages import OutputMissing, OutputPiece
from outlive.client.results import Gap, Output, Stream
from outlive.core.cursor import Cursor
from outlive.core.errors import ProtocolViolation


class Position:
    """The cursor behind everything that was passed on.

    Whatever connections came and went: bytes before it are never passed on again, and a hole is never passed over.
    """

    __slots__ = ("cursor",)

    def __init__(self, cursor: Cursor) -> None:
        """Begin at `cursor`."""
        self.cursor = cursor

    def take(self, told: OutputPiece | OutputMissing) -> Output | Gap | None:
        """Return what of this is new, and stand behind it; None when nothing is.

        Raises:
            ProtocolViolation: It begins behind the position: bytes in between were never told.
        """
        here = self.cursor.stdout if told.stream == "stdout" else self.cursor.stderr
        start = told.end - len(told.data) if isinstance(told, OutputPiece) else told.start
        if start > here:
            text = f"The server left out bytes {here} to {start} of {told.stream}."
            raise ProtocolViolation("invalid_request", text, hint="Follow again from the last cursor.")
        if told.end <= here:
            return None
        behind = self._behind(told.stream, told.end)
        self.cursor = behind
        if isinstance(told, OutputPiece):
            return Output(told.stream, told.data[here - start :], behind, told.redacted)
        return Gap(told.stream, here, told.end, behind)

    def _behind(self, stream: Stream, end: int) -> Cursor:
        if stream == "stdout":
            return Cursor(end, self.cursor.stderr)
        return Cursor(self.cursor.stdout, end)
