"""The control messages of outlive.terminal.v1: JSON objects in text frames, distinguished by `type`.

Output and input never come this way: they are binary frames of raw bytes.

What a viewer asks for when it connects (`Opening`, the subprotocol), and where its view of the output begins
(`sane_start`).

A view never begins within a character or an escape sequence. Sequences are those of ECMA-48 (5th edition,
sections 5.3 to 5.6), read as terminals do: a new ESC, CAN or SUB ends an unfinished one. Bytes are sent in
`frontends.terminal`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest, ProtocolViolation
from outlive.core.values import dataclass
from outlive.operations.refusals import broken_json

LEAST_BOUND_BYTES = 4096  # of `ahead` and `lag`: less would be a message for each line
_Cells = Annotated[int, Meta(ge=1, le=65535)]  # struct winsize holds 16 bits (ioctl_tty(2))


class ResizeMessage(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="resize"):
    """The viewer's window has this size now, and so has the terminal."""

    rows: _Cells
    cols: _Cells


class SendSignal(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="signal"):
    """A signal by name or number: for the main process, the process group that it leads, or the whole
    tree.
    """

    name: str | int
    to: Literal["process", "group", "tree"] = "process"


class EndOfFile(msgspec.Struct, frozen=True, tag_field="type", tag="eof"):
    """No more input: a terminal is typed its end-of-file character, a pipe is closed."""


class Where(msgspec.Struct, frozen=True, tag_field="type", tag="where"):
    """Asks for a `cursor` message."""


class TakeHold(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="hold"):
    """The viewer wants to hold the terminal: if it is free, or with `over` in any case."""

    over: bool = False


class Release(msgspec.Struct, frozen=True, tag_field="type", tag="release"):
    """The viewer lets go of the terminal."""


class AckMessage(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="ack"):
    """The viewer has drawn so many bytes more of the output; for those that bound what is sent ahead."""

    bytes: Annotated[int, Meta(ge=0)]


class LagBound(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="lag"):
    """From now on the viewer skips when it is more than so many bytes behind the output's end.

    Null: never.
    """

    bytes: Annotated[int, Meta(ge=LEAST_BOUND_BYTES)] | None


# What viewers send.
ClientMessage = ResizeMessage | SendSignal | EndOfFile | Where | TakeHold | Release | AckMessage | LagBound


class HelloMessage(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="hello"):
    """The first message.

    Output follows from `cursor` on; rows and cols are null where there is no terminal (any more).

    `end` is where the output ended at that time: questions of the terminal before it (for the cursor's
    position, for instance) were meant for earlier viewers, and a terminal emulator should not answer them.
    """

    cursor: str
    end: str
    rows: int | None
    cols: int | None
    state: str
    process_id: str
    readonly: bool
    terminal: bool


class CursorReport(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="cursor"):
    """All output before this cursor has been sent, nothing behind it."""

    cursor: str


class GapMessage(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="gap"):
    """Bytes `first` to `last` of a stream are no longer in the log; output goes on at `cursor`."""

    stream: Literal["stdout", "stderr"]
    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")
    cursor: str


class Skipped(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="skipped"):
    """The viewer was further behind than it wants to be: `bytes` of output are left out, and it goes on at
    `cursor`, near the end.

    `modes` is to be written to the terminal before that: what the skipped output has switched
    (`protocols.terminal.carried_modes`).
    """

    bytes: int
    modes: str
    cursor: str


class Redacted(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="redacted"):
    """In the output between the previous message and `cursor`, `count` secrets are redacted (each is counted
    once).
    """

    count: int
    cursor: str


class Exited(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="exited"):
    """The process has ended; code and signal are null when its end cannot be known.

    `error` is set if the end was forced.
    """

    exit_code: int | None
    signal: int | None
    state: str
    error: str | None
    cursor: str


class Closed(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="closed"):
    """Nothing will come any more: no process holds the terminal."""

    cursor: str


class HolderMessage(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="holder"):
    """Which viewer holds the terminal, and how many take part; for those that do."""

    holder: Literal["you", "other", "none"]
    viewers: int


class Resized(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="resized"):
    """The terminal has this size now; for viewers that take part."""

    rows: int
    cols: int


class Notice(msgspec.Struct, kw_only=True, frozen=True, tag_field="type", tag="notice"):
    """A request of the viewer failed; `reason` is the error's stable word."""

    reason: str
    message: str
    about: str


# What the server sends.
ServerMessage = (
    HelloMessage
    | CursorReport
    | GapMessage
    | Skipped
    | Redacted
    | Exited
    | Closed
    | HolderMessage
    | Resized
    | Notice
)

# Made once: `type` selects the struct, and unknown members are skipped.
_decoder = msgspec.json.Decoder(ClientMessage)
_encoder = msgspec.json.Encoder()


def decode_message(text: str) -> ClientMessage:
    """Read a text frame of a client; unknown members are ignored.

    Raises:
        ProtocolViolation: `invalid_request`: it is no message of this protocol.
    """
    try:
        message: ClientMessage = _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        is_json = isinstance(error, msgspec.ValidationError)
        why = "its type, or a member, is not known" if is_json else broken_json(error)
        raise ProtocolViolation(
            "invalid_request",
            f"This text is no message of outlive.terminal.v1: {why}.",
            hint='Input goes into binary frames; a message looks like {"type":"resize","rows":24,"cols":80}.',
        ) from None
    return message


def encode_message(message: ServerMessage) -> bytes:
    """Return the payload of a text frame."""
    return _encoder.encode(message)


def kind_of(message: ClientMessage) -> str:
    """Return the message's `type`."""
    return str(message.__struct_config__.tag)


CONTROLLED = "outlive.terminal.v1"  # text frames are control messages
# The same as without a subprotocol: a browser that offers a token as one must be answered with something.
PLAIN = "outlive.terminal.plain"

_SWITCHES = {"": False, "0": False, "false": False, "1": True, "true": True}
_MOST_CELLS = 65535  # struct winsize holds 16 bits (ioctl_tty(2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Where to begin (None: with the newest history), whether to look only, the window's size, and if secrets
    are shown.

    `hold`: None does not take part in holding the terminal; "watch" does, "free" holds it if no viewer does,
    "over" in any case.
    `ahead`, `lag`: the most bytes that are sent before they are acknowledged, and that the viewer is behind;
    None: any number.
    """

    cursor: Cursor | None = None
    readonly: bool = False
    raw: bool = False
    size: tuple[int, int] | None = None  # rows, columns
    hold: Literal["watch", "free", "over"] | None = None
    ahead: int | None = None
    lag: int | None = None

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
            hold=_hold(query.get("hold", "")),
            ahead=_bound(query, "ahead"),
            lag=_bound(query, "lag"),
        )


def chosen_subprotocol(offered: Sequence[str]) -> str | None:
    """Return the subprotocol to answer with: control messages if they are offered; None if neither is."""
    return next((known for known in (CONTROLLED, PLAIN) if known in offered), None)


def _switch(query: Mapping[str, str], name: str) -> bool:
    value = _SWITCHES.get(query.get(name, "").lower())
    if value is None:
        raise InvalidRequest("invalid_params", f"{name} is 1 or 0.")
    return value


def _hold(text: str) -> Literal["watch", "free", "over"] | None:
    match text:
        case "":
            return None
        case "watch" | "free" | "over":
            return text
    raise InvalidRequest("invalid_params", "hold is watch, free or over.")


def _size(query: Mapping[str, str]) -> tuple[int, int] | None:
    rows, cols = query.get("rows", ""), query.get("cols", "")
    if not rows and not cols:
        return None
    # One of them alone is refused by the other's check.
    return _cells("rows", rows), _cells("cols", cols)


def _bound(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    # Eighteen digits are less than 2^63.
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) >= LEAST_BOUND_BYTES):
        raise InvalidRequest("invalid_params", f"{name} is a number of bytes, at least {LEAST_BOUND_BYTES}.")
    return int(text)


def _cells(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= _MOST_CELLS):
        raise InvalidRequest(
            "invalid_params", f"{name} is a number from 1 to {_MOST_CELLS}, beside the other one."
        )
    return int(text)


# Bytes that are examined before the wanted position: a sequence that begins there may reach beyond it. Longer
# ones are pictures.
CONTEXT_BYTES = 32 * 1024
LOOK_BYTES = 16 * 1024  # bytes that are examined behind it

# OSC also ends with BEL; the other strings (DCS, SOS, PM, APC) end with ST alone.
_SEQUENCE = re.compile(
    (
        rb"\x1b(?:\[[ -?]*[@-~]?|\][^\x07\x18\x1a\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x18\x1a\x1b]*(?:\x1b\\)?|[ "
        rb"-/]*[0-~]?)"
    ),
    re.DOTALL,
)
_LONGEST_CHARACTER = 4


def sane_start(data: bytes, wanted: int) -> int:
    """Return the first good position in `data` at or behind `wanted`: where a line begins if one does, else a
    character.

    `data` are the bytes around the wanted position, as far as they are known; the position behind the last
    one is possible.
    """
    newline = data.find(b"\n", max(0, wanted - 1))
    character = _character_start(data, wanted)
    # Sequences that reach across the wanted position, or across the newline found, push the beginning behind
    # them.
    for found in _SEQUENCE.finditer(data):
        begin, end = found.span()
        if end <= wanted:
            continue
        if begin < wanted:
            character = end
        if newline < 0 or newline + 1 <= begin:
            break
        if newline + 1 < end:
            newline = data.find(b"\n", end - 1)
    return character if newline < 0 else newline + 1


def _character_start(data: bytes, wanted: int) -> int:
    # A byte 10xxxxxx continues a character (RFC 3629, section 3); after three of them the text is no UTF-8
    # anyway.
    place = wanted
    while place < min(len(data), wanted + _LONGEST_CHARACTER - 1) and data[place] & 0xC0 == 0x80:
        place += 1
    return place
