"""Which answer belongs to which request of ours: `RequestMatcher`, one for each connection. No I/O, no clock.

An answer settles its request once. What comes again, too late, or was never asked for is told apart for the log, and
changes nothing (promise S3.3).
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from outlive.protocols.bridge.answers import Broken, Failure, Pong, Success, TerminalCreated

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
