"""What is sent to an extension, and what it sends. Pure.

Each request is a function that returns the UTF-8 bytes of one message: those of the documented protocol, and
those that only our own extension gets. A `request_id` is never used again; answers repeat it.

`parse_message` makes one value of each text frame and never raises (promises S3.3, S3.3.broken). The peer is
another party's program: ids, names and texts are bounded, and made printable where people read them.

`RequestMatcher` serves one connection. An answer ends its request once. One that comes again, too late, or
without a request is distinguished for the log, and changes nothing (promise S3.3). Time limits are the
caller's, which then calls `expire`.
"""

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import msgspec

from outlive.core.documents import decode_json
from outlive.core.errors import InvalidRequest
from outlive.core.terminal import TerminalInfo
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


_ENCODER = msgspec.json.Encoder()
_Value = str | list[dict[str, str]]


def ping(request_id: str) -> bytes:
    """Ask whether the extension answers."""
    return _ENCODER.encode({"type": "ping", "id": request_id})


def create_terminal(request_id: str, name: str) -> bytes:
    """Ask for a new terminal of this name."""
    return _message("create_terminal", request_id, terminalName=name)


def execute(request_id: str, terminal_id: str, command: str) -> bytes:
    """Ask for a command to be typed, always into a terminal that the extension itself has named (promise
    S3.5).
    """
    return _message("execute", request_id, command=command, terminalId=terminal_id)


def close_terminal(request_id: str, terminal_id: str) -> bytes:
    """Ask for a terminal to be closed."""
    return _message("close_terminal", request_id, terminalId=terminal_id)


def show_terminal(request_id: str, terminal: TerminalInfo) -> bytes:
    """Ask our own extension to show a terminal of the engine."""
    return _message("show_terminal", request_id, **_seen(terminal))


def terminals(request_id: str, known: Sequence[TerminalInfo]) -> bytes:
    """List for our own extension the terminals of the engine that it may show."""
    return _message("terminals", request_id, terminals=[_seen(one) for one in known])


def terminal_closed(request_id: str, terminal_id: str) -> bytes:
    """Report to our own extension that a terminal of the engine has ended."""
    return _message("terminal_closed", request_id, terminalId=terminal_id)


def terminal_created(request_id: str, terminal: TerminalInfo) -> bytes:
    """Answer our own extension, which has asked under this id for a terminal of the engine."""
    return _message("terminal_created", request_id, **_seen(terminal))


def failed(request_id: str, error: str, *, code: str, hint: str) -> bytes:
    """Answer our own extension that its request failed."""
    return _message("error", request_id, error=error, code=code, hint=hint)


def _seen(terminal: TerminalInfo) -> dict[str, str]:
    """Return a terminal of the engine as the extension sees it; its bytes come from `path` on this server."""
    return {
        "terminalId": terminal.terminal_id,
        "terminalName": terminal.terminal_name,
        "path": f"/ws/terminal/{terminal.terminal_id}",  # a process id: nothing to quote
    }


def _message(kind: str, request_id: str, **members: _Value) -> bytes:
    return _ENCODER.encode({"type": kind, "id": request_id, "data": members})


RequestKind = Literal["ping", "create_terminal", "execute", "close_terminal"]
Answer = Pong | TerminalCreated | Success | Failure | Broken
_Why = Literal["again", "late", "unasked", "not a pong"]

# The answers that fit each request; any other answer ends the request as broken.
_FITTING: dict[RequestKind, tuple[type[Answer], ...]] = {
    "ping": (Pong,),
    "create_terminal": (TerminalCreated, Failure, Broken),
    "execute": (Success, Failure, Broken),
    "close_terminal": (Success, Failure, Broken),
}
_REMEMBERED = 256  # ids of ended requests that are still distinguished from ids that were never used


@dataclass(frozen=True, slots=True)
class Settled:
    """An answer that ended a request; a `Broken` one says what is wrong with it."""

    request_id: str
    kind: RequestKind
    answer: Answer


@dataclass(frozen=True, slots=True)
class Ignored:
    """An answer that ends no request."""

    why: _Why


class RequestMatcher:
    """The requests that wait for an answer, by id."""

    def __init__(self) -> None:
        self._open: dict[str, RequestKind] = {}
        self._ended: OrderedDict[str, _Why] = OrderedDict()

    def __len__(self) -> int:
        """Return how many requests wait for an answer."""
        return len(self._open)

    def begin(self, request_id: str, kind: RequestKind) -> None:
        """Wait for the answer to a request; ids are never used again."""
        if request_id in self._open or request_id in self._ended:
            raise AssertionError("an id of ours is unique")
        self._open[request_id] = kind

    def take(self, answer: Answer) -> Settled | Ignored:
        """Find the request of an answer.

        An answer of the wrong kind ends it, too: no other answer will come.
        """
        request_id = answer.request_id
        kind = None if request_id is None else self._open.get(request_id)
        if request_id is None or kind is None:
            return Ignored(self._ended.get(request_id or "", "unasked"))
        # A wrong answer to a ping is no sign of life, so the ping goes on waiting; every other request ends.
        if not isinstance(answer, _FITTING[kind]):
            if kind == "ping":
                return Ignored("not a pong")
            answer = Broken(f"{type(answer).__name__} is no answer to {kind}", request_id)
        self._end(request_id, "again")
        return Settled(request_id, kind, answer)

    def expire(self, request_id: str) -> bool:
        """Stop waiting for an answer; return whether one was still missing."""
        if request_id not in self._open:
            return False
        self._end(request_id, "late")
        return True

    def _end(self, request_id: str, why: _Why) -> None:
        # Bounded: the oldest id is forgotten, and a very late answer to it counts as one that was never asked
        # for.
        del self._open[request_id]
        self._ended[request_id] = why
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
