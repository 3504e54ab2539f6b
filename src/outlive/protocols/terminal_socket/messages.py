"""The control messages of outlive.terminal.v1: JSON objects in text frames, distinguished by `type`.

Output and input never come this way: they are binary frames of raw bytes.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlive.core.errors import ProtocolViolation

_Cells = Annotated[int, Meta(ge=1, le=65535)]  # struct winsize holds 16 bits (ioctl_tty(2))


class ResizeMessage(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="resize"):
    """The viewer's window has this size now, and so has the terminal."""

    rows: _Cells
    cols: _Cells


class SendSignal(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="signal"):
    """A signal by name or number: for the main process, the process group that it leads, or the whole tree."""

    name: str | int
    to: Literal["process", "group", "tree"] = "process"


class EndOfFile(msgspec.Struct, frozen=True, tag_field="type", tag="eof"):
    """No more input: a terminal is typed its end-of-file character, a pipe is closed."""


class Where(msgspec.Struct, frozen=True, tag_field="type", tag="where"):
    """Asks for a `cursor` message."""


# What viewers send.
ClientMessage = ResizeMessage | SendSignal | EndOfFile | Where


class HelloMessage(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="hello"):
    """The first message. Output follows from `cursor` on; rows and cols are null where there is no terminal (any more).

    `end` is where the output ended at that time: questions of the terminal before it (for the cursor's position, for instance)
    were meant for earlier viewers, and a terminal emulator should not answer them.
    """

    cursor: str
    end: str
    rows: int | None
    cols: int | None
    state: str
    process_id: str
    readonly: bool
    terminal: bool


class CursorTold(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="cursor"):
    """All output before this cursor has been sent, nothing behind it."""

    cursor: str


class GapMessage(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="gap"):
    """Bytes `first` to `last` of a stream are no longer in the log; output goes on at `cursor`."""

    stream: Literal["stdout", "stderr"]
    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")
    cursor: str


class Redacted(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="redacted"):
    """In the output between the previous message and `cursor`, `count` secrets are redacted (each is counted once)."""

    count: int
    cursor: str


class Exited(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="exited"):
    """The process has ended; code and signal are null when its end cannot be known. `error` is set if the end was forced."""

    exit_code: int | None
    signal: int | None
    state: str
    error: str | None
    cursor: str


class Closed(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="closed"):
    """Nothing will come any more: no process holds the terminal."""

    cursor: str


class Notice(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="notice"):
    """A request of the viewer failed; `reason` is the error's stable word."""

    reason: str
    message: str
    about: str


# What the server sends.
ServerMessage = HelloMessage | CursorTold | GapMessage | Redacted | Exited | Closed | Notice

# Made once: `type` selects the struct, and unknown members are skipped.
_decoder = msgspec.json.Decoder(ClientMessage)
_encoder = msgspec.json.Encoder()
_MAX_SHOWN = 200  # characters of a fault that are repeated to the client


def decode_message(text: str) -> ClientMessage:
    """Read a text frame of a client; unknown members are ignored.

    Raises:
        ProtocolViolation: `invalid_request`: it is no message of this protocol.
    """
    try:
        message: ClientMessage = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        shown = str(error)[:_MAX_SHOWN]
        raise ProtocolViolation(
            "invalid_request",
            f"This text is no message of outlive.terminal.v1: {shown}",
            hint='Input goes into binary frames; a message looks like {"type":"resize","rows":24,"cols":80}.',
        ) from None
    return message


def encode_message(message: ServerMessage) -> bytes:
    """Return the payload of a text frame."""
    return _encoder.encode(message)


def kind_of(message: ClientMessage) -> str:
    """Return the message's `type`."""
    return str(message.__struct_config__.tag)
