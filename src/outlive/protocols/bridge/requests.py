"""What is sent to an extension: the four requests of the document, and what only our own extension is told.

Every function returns the UTF-8 bytes of one message. `request_id` is unique for ever; answers repeat it.

Which answer belongs to which request of ours: `RequestMatcher`, one for each connection. No I/O, no clock.

An answer settles its request once. What comes again, too late, or was never asked for is told apart for the log, and
changes nothing (promise S3.3).
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from outlive.core.terminal import TerminalInfo
from outlive.protocols.bridge.answers import Broken, Failure, Pong, Success, TerminalCreated

_ENCODER = msgspec.json.Encoder()
_Value = str | list[dict[str, str]]


def ping(request_id: str) -> bytes:
    """Ask whether somebody is there."""
    return _ENCODER.encode({"type": "ping", "id": request_id})


def create_terminal(request_id: str, name: str) -> bytes:
    """Ask for a new terminal of this name."""
    return _message("create_terminal", request_id, terminalName=name)


def execute(request_id: str, terminal_id: str, command: str) -> bytes:
    """Ask for a command to be typed; always into a terminal that the extension itself has named (promise S3.5)."""
    return _message("execute", request_id, command=command, terminalId=terminal_id)


def close_terminal(request_id: str, terminal_id: str) -> bytes:
    """Ask for a terminal to be closed."""
    return _message("close_terminal", request_id, terminalId=terminal_id)


def show_terminal(request_id: str, terminal: TerminalInfo) -> bytes:
    """Tell our own extension to show a terminal of the engine's."""
    return _message("show_terminal", request_id, **_seen(terminal))


def terminals(request_id: str, known: Sequence[TerminalInfo]) -> bytes:
    """Tell our own extension which terminals of the engine's it may show."""
    return _message("terminals", request_id, terminals=[_seen(one) for one in known])


def terminal_closed(request_id: str, terminal_id: str) -> bytes:
    """Tell our own extension that a terminal of the engine's has ended."""
    return _message("terminal_closed", request_id, terminalId=terminal_id)


def terminal_created(request_id: str, terminal: TerminalInfo) -> bytes:
    """Answer our own extension, which has asked for a terminal of the engine's under this id."""
    return _message("terminal_created", request_id, **_seen(terminal))


def failed(request_id: str, error: str, *, code: str, hint: str) -> bytes:
    """Answer our own extension that it could not be done."""
    return _message("error", request_id, error=error, code=code, hint=hint)


def _seen(terminal: TerminalInfo) -> dict[str, str]:
    """Return how a terminal of the engine's is told: `path` is where its bytes come from, on this server."""
    return {
        "terminalId": terminal.terminal_id,
        "terminalName": terminal.terminal_name,
        "path": f"/ws/terminal/{terminal.terminal_id}",  # a process id: nothing to quote
    }


def _message(kind: str, request_id: str, **members: _Value) -> bytes:
    return _ENCODER.encode({"type": kind, "id": request_id, "data": members})


Asking = Literal["ping", "create_terminal", "execute", "close_terminal"]
Answer = Pong | TerminalCreated | Success | Failure | Broken
_Why = Literal["again", "late", "unasked", "not a pong"]

_FITTING: dict[Asking, tuple[type[Answer], ...]] = {
    "ping": (Pong,),
    "create_terminal": (TerminalCreated, Failure, Broken),
    "execute": (Success, Failure, Broken),
    "close_terminal": (Success, Failure, Broken),
}
_REMEMBERED = 256  # ended requests whose ids are still told apart from those that never were


@dataclass(frozen=True, slots=True)
class Settled:
    """An answer ended a request; a `Broken` one tells what is wrong with it."""

    request_id: str
    asking: Asking
    answer: Answer


@dataclass(frozen=True, slots=True)
class Ignored:
    """An answer that ends nothing."""

    why: _Why


class RequestMatcher:
    """The requests that wait for an answer, by id."""

    def __init__(self) -> None:
        """Nothing was asked yet."""
        self._open: dict[str, Asking] = {}
        self._ended: OrderedDict[str, _Why] = OrderedDict()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._open)

    def begin(self, request_id: str, asking: Asking) -> None:
        """Wait for the answer to a request; ids are never used again."""
        if request_id in self._open or request_id in self._ended:
            raise AssertionError("an id of ours is unique")
        self._open[request_id] = asking

    def take(self, answer: Answer) -> Settled | Ignored:
        """Find the request of an answer. One of a kind that does not fit ends it, too: it says nothing else any more."""
        request_id = answer.request_id
        asking = None if request_id is None else self._open.get(request_id)
        if request_id is None or asking is None:
            return Ignored(self._ended.get(request_id or "", "unasked"))
        if not isinstance(answer, _FITTING[asking]):
            if asking == "ping":
                return Ignored("not a pong")
            answer = Broken(f"{type(answer).__name__} is no answer to {asking}", request_id)
        self._end(request_id, "again")
        return Settled(request_id, asking, answer)

    def expire(self, request_id: str) -> bool:
        """Wait no longer for an answer; tell whether it was waited for."""
        if request_id not in self._open:
            return False
        self._end(request_id, "late")
        return True

    def _end(self, request_id: str, why: _Why) -> None:
        del self._open[request_id]
        self._ended[request_id] = why
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)
