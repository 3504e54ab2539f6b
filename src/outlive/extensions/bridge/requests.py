"""What is sent to an extension, and which answer belongs to which request (`RequestMatcher`).

No I/O, no clock.

Each function returns the UTF-8 bytes of one message: the four requests of the documented protocol, and
messages that only our own extension gets. A `request_id` is never used again; answers repeat it.

`RequestMatcher` serves one connection. An answer ends its request once. One that comes again, too late, or
without a request is distinguished for the log, and changes nothing (promise S3.3). Time limits are the
caller's, which then calls `expire`.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import msgspec

from outlive.core.terminal import TerminalInfo
from outlive.core.values import dataclass
from outlive.extensions.bridge.answers import Broken, Failure, Pong, Success, TerminalCreated

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
