"""Frames of the stream between relays here, the ferry, and the hub in a container, without any input or output. Pure.

A frame is three numbers of 32 bits, lowest byte first (size of what follows, channel, type), then its bytes; the types are
those of `runner/stream.h`. The daemon puts the container's bytes into frames of its own, which `Unpacker` takes off.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum

_HEAD = struct.Struct("<III")
_DAEMONS_HEAD = struct.Struct(">B3xI")
_MOST = 32768 + 64
_STDOUT = 1

Frame = tuple[int, int, bytes]  # type, channel, body


class Type(IntEnum):
    """What a ferry itself says or understands; all others it hands on."""

    HELLO = 1
    ABANDON = 9
    PING = 10
    UNKNOWN = 29
    KEY = 30
    PONG = 31
    LINK_UP = 40
    LINK_DOWN = 41


def encode(kind: int, channel: int, body: bytes = b"") -> bytes:
    """Return a frame's bytes."""
    return _HEAD.pack(len(body), channel, kind) + body


class Frames:
    """Takes bytes as they come, in whatever pieces, and gives whole frames. Keeps less than one frame."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are whole now; to be used up before the next call.

        Raises:
            ValueError: What came is no frame; nothing after it can be understood.
        """
        data = self._rest + data if self._rest else data
        at = 0
        try:
            while len(data) - at >= _HEAD.size:
                size, channel, kind = _HEAD.unpack_from(data, at)
                if size > _MOST:
                    raise ValueError(f"a frame of {size} bytes")
                end = at + _HEAD.size + size
                if end > len(data):
                    break
                body, at = data[at + _HEAD.size : end], end
                yield kind, channel, body
        finally:
            self._rest = data[at:]


class Unpacker:
    """Takes off the daemon's own frames (Docker Engine API, "Stream format"), and leaves out what is not stdout."""

    def __init__(self) -> None:
        """Begin before a frame."""
        self._head = b""
        self._left = 0
        self._is_wanted = False
        self.complaint = b""  # what came on stderr, its beginning

    def feed(self, data: bytes) -> bytes:
        """Return the bytes of stdout among what came."""
        view, pieces = memoryview(data), []
        while view:
            if not self._left:
                wanted = _DAEMONS_HEAD.size - len(self._head)
                self._head += view[:wanted]
                view = view[wanted:]
                if len(self._head) == _DAEMONS_HEAD.size:
                    stream, self._left = _DAEMONS_HEAD.unpack(self._head)
                    self._is_wanted = stream == _STDOUT
                    self._head = b""
                continue
            piece = view[: self._left]
            self._left -= len(piece)
            view = view[len(piece) :]
            if self._is_wanted:
                pieces.append(piece)
            elif len(self.complaint) < _MOST:
                self.complaint += piece
        return b"".join(pieces)
