"""What an extension sends: `parse_message` makes one value of each text frame and never raises (promises
S3.3, S3.3.broken).

The peer is another party's program: ids, names and texts are bounded, and made printable where people read
them. What an answer means for a request is decided in `requests`.
"""

import json

import msgspec

from outlive.core.documents import decode_json
from outlive.core.errors import InvalidRequest
from outlive.core.values import dataclass
from outlive.operations.requests import decode_request

MAX_ID = 256  # characters of an id; a longer text is no id
MAX_NAME = 200  # characters; longer texts are cut, here and below
MAX_ERROR = 2000
MAX_OUTPUT = 1 << 20
_MAX_PATH = 4096  # PATH_MAX, limits.h
_MAX_SHOWN = 60  # characters, for the log, of a message that is not understood


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a ping."""

    request_id: str


@dataclass(frozen=True, slots=True)
class TerminalCreated:
    """A terminal exists, under the id that the extension has given it."""

    request_id: str
    terminal_id: str
    terminal_name: str


@dataclass(frozen=True, slots=True)
class Success:
    """A request was carried out; `output` is the extension's report of it."""

    request_id: str
    output: str


@dataclass(frozen=True, slots=True)
class Failure:
    """A request was not carried out."""

    request_id: str
    error: str


@dataclass(frozen=True, slots=True)
class TerminalWanted:
    """Our own extension asks for a terminal of the engine; None leaves the choice to the engine."""

    request_id: str
    terminal_name: str | None
    cwd: str | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """A message of an unknown type, which is ignored. `kind` is short and printable."""

    kind: str


@dataclass(frozen=True, slots=True)
class Broken:
    """Not a message: no JSON, or a member is missing or wrong. `request_id` is set if it could be read."""

    reason: str
    request_id: str | None = None


Message = Pong | TerminalCreated | Success | Failure | TerminalWanted | Unknown | Broken


# Members stay undecoded at first: an answer whose `data` is wrong still has an id, and must end its request.
class _BridgeEnvelope(msgspec.Struct):
    type: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    data: msgspec.Raw = msgspec.Raw()


class _Created(msgspec.Struct, rename="camel"):
    terminal_id: str
    terminal_name: str


class _Output(msgspec.Struct):
    output: str


class _Error(msgspec.Struct):
    error: str


class _Wanted(msgspec.Struct, rename="camel"):
    terminal_name: str | None = None
    cwd: str | None = None


_ENVELOPE = msgspec.json.Decoder(_BridgeEnvelope)
_TEXT = msgspec.json.Decoder(str)
# A message without data is read as one whose data has no members.
_NO_DATA = b"{}"


def parse_message(frame: str | bytes) -> Message:
    """Return what a frame says; a binary frame is broken. Never raises."""
    if isinstance(frame, bytes):
        return Broken("a binary frame")
    try:
        envelope = _envelope(frame.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return Broken("no JSON object")
    request_id = _text(envelope.id)
    kind = _text(envelope.type)
    if kind is None:
        # An unknown type is no error: a later version of the extension may know more than this server.
        return Broken("`type` is missing, or no string", _checked(request_id))
    # An unknown type is no error: a later version of the extension may know more than this server.
    if kind not in _KINDS:
        return Unknown(_printable(kind, _MAX_SHOWN))
    known = _checked(request_id)
    if known is None:
        return Broken(f"{kind}: `id` is missing, or no string of 1 to {MAX_ID} printable characters")
    try:
        return _read(kind, known, bytes(envelope.data) or _NO_DATA)
    except InvalidRequest as error:
        return Broken(_printable(f"{kind}: {error.message}", MAX_ERROR), known)


def _read(kind: str, request_id: str, data: bytes) -> Message:
    match kind:
        case "pong":
            return Pong(request_id)
        case "terminal_created":
            made = decode_request(data, _Created)
            terminal_id = _checked(made.terminal_id)
            if terminal_id is None:
                reason = f"{kind}: `terminalId` has not 1 to {MAX_ID} printable characters"
                return Broken(reason, request_id)
            return TerminalCreated(request_id, terminal_id, _printable(made.terminal_name, MAX_NAME))
        case "success":
            return Success(request_id, _bounded(decode_request(data, _Output).output))
        case "error":
            return Failure(request_id, _printable(decode_request(data, _Error).error, MAX_ERROR))
        case "create_terminal":
            return _wanted(request_id, decode_request(data, _Wanted))
        case _:
            raise AssertionError(f"{kind} is not among _KINDS")


_KINDS = frozenset({"pong", "terminal_created", "success", "error", "create_terminal"})


def _wanted(request_id: str, wanted: _Wanted) -> Message:
    cwd = wanted.cwd or None
    if cwd is not None and (len(cwd) > _MAX_PATH or "\0" in cwd):
        return Broken("create_terminal: `cwd` is no path", request_id)
    name = _printable(wanted.terminal_name or "", MAX_NAME).strip()
    return TerminalWanted(request_id, name or None, cwd)


def _envelope(frame: bytes) -> _BridgeEnvelope:
    """Return the members of a message.

    Half of a surrogate pair, which JavaScript makes by cutting a text, becomes "?".

    Raises:
        ValueError: The frame is no JSON object.
    """
    try:
        return _ENVELOPE.decode(frame)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # Python's own decoder accepts the halves; any other fault it refuses, too.
        whole = json.dumps(decode_json(frame), ensure_ascii=False).encode("utf-8", "replace")
        return _ENVELOPE.decode(whole)


def _text(raw: msgspec.Raw) -> str | None:
    try:
        return _TEXT.decode(raw)
    except msgspec.DecodeError:
        return None


def _checked(word: str | None) -> str | None:
    """Return an id that can be shown, sent and stored; None for anything else."""
    return word if word is not None and 0 < len(word) <= MAX_ID and word.isprintable() else None


def _printable(text: str, most: int) -> str:
    """Return a text without characters that move the cursor or begin a line, cut to `most` characters."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:most])
    return shown if len(text) <= most else shown[: most - 1] + "…"


def _bounded(output: str) -> str:
    left_out = len(output) - MAX_OUTPUT
    return output if left_out <= 0 else f"{output[:MAX_OUTPUT]}\n[… {left_out} characters left out …]"
