"""Output as a text that is read in an editor, while it comes: `CleanText`. Pure.

What a line says is decided by `plain.plain_text`: no escape sequences, and of what was overwritten the last.
"""

import codecs

from outlive.protocols.plain import plain_text

# A line is held until its newline, since a carriage return in it takes back what stands before. A longer one goes out in pieces.
_LONGEST = 1024 * 1024


class CleanText:
    """Pieces of both streams in, whole clean lines out, as UTF-8; bytes that are none become U+FFFD."""

    __slots__ = ("_decoders", "_held")

    def __init__(self) -> None:
        """Begin with nothing held."""
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]
        self._held = ["", ""]

    def feed(self, stream: int, data: bytes) -> bytes:
        """Take the next bytes of a stream (0 stdout, 1 stderr), and return the lines that end in them."""
        text = self._held[stream] + self._decoders[stream].decode(data)
        cut = len(text) if len(text) > _LONGEST else text.rfind("\n") + 1
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
