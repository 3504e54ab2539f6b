"""Output as lines that are cheap to read (promise S4.13), and output that is too long for a result (promise
S1.8). Pure.

Cheap lines are without ANSI sequences and overwritten text; `output` leaves out more of them. Each one has
the cursors before and behind it, so that everything that is left out can be asked for exactly. Of an output
that is too long, head and tail are shown; the second half of this module chooses the parts and makes them
text. Bytes are read, and redacted, in `store`.
"""

import codecs
import re
from collections.abc import Sequence

from outlive.core.cursor import Cursor
from outlive.core.redactions import HiddenSpans, Redactions
from outlive.core.values import dataclass

# Strings to the terminal (ECMA-48, 8.3.27 DCS, 8.3.89 OSC, 8.3.143 SOS, 8.3.94 PM, 8.3.2 APC): they show
# nothing. A program that died in one has no end to it: CAN, SUB or the end of the line is one.
CONTROL_STRING = (
    r"\x1b(?:\][^\x07\x1b\n\x18\x1a]*(?:\x07|\x1b\\|[\x18\x1a])?"
    r"|[PX^_][^\x1b\n\x18\x1a]*(?:\x1b\\|[\x18\x1a])?)"
)
# These, ECMA-48 control sequences, two-character escapes; then control characters except \b \t \n \r.
_ANSI = re.compile(
    CONTROL_STRING + r"|\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~]?)|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line without its newline; `start` and `end` are the cursors before and behind its bytes.

    `redacted`: how many secrets in it are redacted. `is_mark`: the text stands for lines that are not shown.
    `is_error`: it reports an error. `is_open`: the same line goes on in the next one, without a newline.
    """

    text: str
    start: Cursor
    end: Cursor
    redacted: int = 0
    is_mark: bool = False
    is_error: bool = False
    is_open: bool = False

    @property
    def size(self) -> int:
        """How many bytes of both streams it stands for."""
        return self.end.stdout + self.end.stderr - self.start.stdout - self.start.stderr


class LineSplitter:
    """Makes lines of pieces of both streams, in the order of writing, as a terminal would show them."""

    def __init__(self, cursor: Cursor) -> None:
        """Begin at `cursor`."""
        self.cursor = self._start = cursor
        self.lines: list[Line] = []
        self._pending: list[str] = []
        self._redactions = Redactions()
        self._told = 0  # of the redactions' total, how many are in closed lines
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]

    def feed(self, stream: int, data: bytes, hidden: HiddenSpans = ()) -> None:
        """Take the next bytes of a stream (0 stdout, 1 stderr), and the spans of them that are redacted."""
        # Only "\n" ends a line here; a carriage return stays in it, and `strip_ansi` shows what is left after
        # it.
        pieces = data.split(b"\n")
        for piece in pieces[:-1]:
            self._advance(stream, len(piece) + 1, hidden)
            self._pending.append(self._decoders[stream].decode(piece + b"\n")[:-1])
            self._close()
        if pieces[-1]:
            self._advance(stream, len(pieces[-1]), hidden)
            self._pending.append(self._decoders[stream].decode(pieces[-1]))

    def skip(self, stream: int, size: int) -> None:
        """Record bytes that the log no longer holds as a line that says so."""
        self.finish()
        self._advance(stream, size)
        self._pending.append(f"[... {size} bytes are no longer kept ...]")
        self._close()

    def finish(self) -> None:
        """Close a last line that has no newline."""
        self._pending += [decoder.decode(b"", final=True) for decoder in self._decoders]
        if "".join(self._pending):
            self._close()

    def _advance(self, stream: int, size: int, hidden: HiddenSpans = ()) -> None:
        stdout, stderr = self.cursor.stdout, self.cursor.stderr
        # A secret counts where it begins to be shown, also if it goes on in a later piece.
        begin = stderr if stream else stdout
        self._redactions.count(stream, begin, begin + size, hidden)
        self.cursor = Cursor(stdout, stderr + size) if stream else Cursor(stdout + size, stderr)

    def _close(self) -> None:
        redacted = self._redactions.total - self._told
        self._told += redacted
        line = Line(text="".join(self._pending), start=self._start, end=self.cursor, redacted=redacted)
        self.lines.append(line)
        self._pending.clear()
        self._start = self.cursor


def without_escapes(text: str, *, instead: str = "") -> str:
    """Return text with something `instead` of each escape sequence and control character."""
    return _ANSI.sub(instead, text)


def strip_ansi(text: str) -> str:
    """Return text without escape sequences and control characters.

    Characters that were overwritten are gone.
    """
    plain = _overwritten(without_escapes(text))
    if "\r" not in plain:
        return plain
    # A progress bar redraws its line after each carriage return: the last version that shows something
    # counts.
    return next((part for part in reversed(plain.split("\r")) if part.strip()), "")


def _overwritten(text: str) -> str:
    """Return text as it looks after each backspace was carried out (line editors and man pages use them)."""
    if "\b" not in text:
        return text
    kept: list[str] = []
    back = line = 0  # the cursor's distance from the end, and the beginning of its line
    for char in text:
        if char == "\b":
            back = min(back + 1, len(kept) - line)
        elif char in "\r\n":
            kept.append(char)
            back, line = 0, len(kept)
        elif back:
            kept[-back] = char
            back -= 1
        else:
            kept.append(char)
    return "".join(kept)


def plain_text(text: str) -> str:
    """Return a terminal's text with every line as `strip_ansi` returns it, and otherwise unchanged."""
    plain = _overwritten(_ANSI.sub("", text.replace("\r\n", "\n")))
    if "\r" not in plain:
        return plain
    return "\n".join(strip_ansi(line.rstrip("\r")) for line in plain.split("\n"))


# A line is held until its newline, since a carriage return in it takes back what stands before. A longer one
# goes out in pieces.
_LONGEST_HELD = 1024 * 1024


class CleanText:
    """Pieces of both streams in, whole clean lines out, as UTF-8; bytes that are none become U+FFFD."""

    __slots__ = ("_decoders", "_held")

    def __init__(self) -> None:
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]
        self._held = ["", ""]

    def feed(self, stream: int, data: bytes) -> bytes:
        """Take the next bytes of a stream (0 stdout, 1 stderr), and return the lines that end in them."""
        text = self._held[stream] + self._decoders[stream].decode(data)
        cut = len(text) if len(text) > _LONGEST_HELD else text.rfind("\n") + 1
        self._held[stream] = text[cut:]
        return plain_text(text[:cut]).encode() if cut else b""

    def rest(self) -> bytes:
        """Return what has no newline at the end."""
        texts = [
            held + decoder.decode(b"", final=True)
            for held, decoder in zip(self._held, self._decoders, strict=True)
        ]
        self._held = ["", ""]
        return "".join(plain_text(text) for text in texts).encode()


@dataclass(frozen=True, slots=True)
class Clip:
    """Bytes of a stream from `offset` on; fewer than were asked for if the log no longer holds them."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + len(self.data)


def shown_ranges(size: int, limit_bytes: int) -> list[tuple[int, int]]:
    """Return the ranges [from, to) that are shown of a stream of `size` bytes: all of it, or its head and its
    tail.
    """
    if size <= limit_bytes:
        return [(0, size)] if size else []
    head = limit_bytes - limit_bytes // 2
    return [(0, head), (size - limit_bytes // 2, size)]


def join_pieces(pieces: Sequence[Clip], size: int, *, more: str = "") -> str:
    """Return pieces of a stream of `size` bytes as text, with a visible mark where bytes are left out.

    The pieces are in order, none is empty, and no two adjoin. Invalid UTF-8 becomes U+FFFD; a character that
    a cut would damage is left out with the rest. The mark says what shows `more`.
    """
    texts: list[str] = []
    position = 0
    for piece in pieces:
        data = piece.data
        start = piece.offset
        # A character that began before the cut cannot be shown: its remaining bytes count as left out.
        if start > position:
            skipped = continuation_bytes(data)
            start, data = start + skipped, data[skipped:]
            texts.append(_mark(start - position, more))
        if piece.end < size:
            data = data[: len(data) - unfinished_bytes(data)]
        texts.append(data.decode("utf-8", "replace"))
        position = start + len(data)
    if position < size:
        texts.append(_mark(size - position, more))
    return "".join(texts)


def _mark(missing_bytes: int, more: str) -> str:
    return f"\n[... {missing_bytes} bytes omitted{more and f'; more: {more}'} ...]\n"


def continuation_bytes(data: bytes) -> int:
    """Return how many bytes (at most 3) at the beginning belong to a character before it."""
    count = 0
    while count < min(3, len(data)) and data[count] & 0xC0 == 0x80:
        count += 1
    return count


def unfinished_bytes(data: bytes) -> int:
    """Return how many bytes (at most 3) at the end are the beginning of a longer character."""
    # Backwards to the first byte of the last character; a character has four bytes at most.
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        # The first byte of a character says how many bytes it has (RFC 3629, section 3).
        width = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return back if width > back else 0
    return 0
