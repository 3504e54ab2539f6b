"""WebSocket frames from server to client as bytes (RFC 6455, section 5): unmasked, unfragmented, no
extension.

They are built by hand because one write of many frames is what makes streaming fast (a send call costs 5-19
us, a frame built here some 0.1 us). In the other direction only two kinds are read here: the usual frame, a
request in one piece (`lone_text`), and one with much to write (`LargeBinary`). The `websockets` library reads
all others.
"""

import struct
from collections.abc import Iterator

TEXT = 0x81  # FIN + opcode 1
BINARY = 0x82  # FIN + opcode 2

# Section 5.2: up to 125 the length is in the header's second byte; 126 and 127 there announce 16 or 64 bits
# behind it.
_SHORT_MAX = 125
_MEDIUM_MAX = 0xFFFF
_MEDIUM_MARK = 126
_LONG_MARK = 127
_MASKED = 0x80
_KEY_BYTES = 4
_pack_medium = struct.Struct("!BBH").pack
_pack_long = struct.Struct("!BBQ").pack


def frame_header(kind: int, length: int) -> bytes:
    """Return the header of a frame of `kind` with `length` payload bytes."""
    if length <= _SHORT_MAX:
        return bytes((kind, length))
    if length <= _MEDIUM_MAX:
        return _pack_medium(kind, _MEDIUM_MARK, length)
    return _pack_long(kind, _LONG_MARK, length)


def text_frame(payload: bytes) -> bytes:
    """Return a text frame around UTF-8 bytes."""
    return frame_header(TEXT, len(payload)) + payload


def binary_frame(payload: bytes) -> bytes:
    """Return a binary frame."""
    return frame_header(BINARY, len(payload)) + payload


def split_frames(frames: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (kind, payload) of whole frames built by this module.

    For transports that take messages one by one.
    """
    position = 0
    while position < len(frames):
        kind, length = frames[position], frames[position + 1]
        position += 2
        if length == _MEDIUM_MARK:
            (length,) = struct.unpack_from("!H", frames, position)
            position += 2
        elif length == _LONG_MARK:
            (length,) = struct.unpack_from("!Q", frames, position)
            position += 8
        yield kind, frames[position : position + length]
        position += length


def lone_text(data: bytes) -> bytes | None:
    """Return the payload of `data` if that is one text frame of a client: masked, complete, at most 64 KiB.

    Else None.
    """
    if len(data) < 2 + _KEY_BYTES or data[0] != TEXT:
        return None
    # A client must mask (section 5.1): without that bit the length is below 0 here, and the frame is refused.
    length, key_at = data[1] - _MASKED, 2
    is_long = length == _LONG_MARK
    if length == _MEDIUM_MARK:
        length, key_at = int.from_bytes(data[2:4], "big"), 4
    begin = key_at + _KEY_BYTES
    if length < 0 or is_long or begin + length != len(data):
        return None
    # Bytes are masked one by one (section 5.3); as two large numbers, all of them are unmasked at once.
    key = (data[key_at:begin] * (length // _KEY_BYTES + 1))[:length]
    return (int.from_bytes(data[begin:], "big") ^ int.from_bytes(key, "big")).to_bytes(length, "big")


class LargeBinary:
    """A client's binary frame that does not come at once: its payload so far, in one piece.

    Attributes:
        key: The key with which it is masked.
        payload: The payload so far, still masked. It grows with the bytes that come, not by what the header
            announces.
    """

    __slots__ = ("_size", "key", "payload")

    def __init__(self, key: bytes, size: int) -> None:
        self.key = key
        self.payload = bytearray()
        self._size = size

    @classmethod
    def begin(cls, data: bytes, at: int, *, max_bytes: int) -> tuple["LargeBinary", int] | None:
        """Return the frame whose header is at `at`, and the position of its payload.

        None for every other frame, for a small one or one of more than `max_bytes`, and if the header is not
        complete.
        """
        if len(data) < at + 2 or data[at] != BINARY:
            return None
        # Only the longer forms of a length: a small frame is complete soon, and is read in the usual way.
        length, key_at = data[at + 1] - _MASKED, at + 2
        if length == _MEDIUM_MARK:
            key_at += 2
        elif length == _LONG_MARK:
            key_at += 8
        else:
            return None
        # The payload follows the mask's key (section 5.2).
        begin = key_at + _KEY_BYTES
        size = int.from_bytes(data[at + 2 : key_at], "big")
        if begin > len(data) or not 0 < size <= max_bytes:
            return None
        return cls(data[key_at:begin], size), begin

    @property
    def is_whole(self) -> bool:
        """Whether all of it has come."""
        return len(self.payload) == self._size

    def take(self, data: bytes, at: int) -> int:
        """Take the bytes that belong to it, from `at` on; return how many these were."""
        # A view and one append: each byte is copied once, however large the frame is.
        part = memoryview(data)[at : at + self._size - len(self.payload)]
        self.payload += part
        return len(part)
