"""What one connection has asked and heard: `Conversation`, frames in and values out. Pure.

Knows neither sockets nor who waits: `channel` does.
"""

from collections import deque
from collections.abc import Mapping

from outlive.client.messages import (
    Attached,
    Ended,
    Heard,
    OutputMissing,
    OutputPiece,
    ServerAnswer,
    ServerHello,
    encode_input,
    encode_request,
    read_frame,
)
from outlive.client.results import ProcessEvent
from outlive.core.cursor import Cursor

FOLLOWER = 0  # who hears what is told of the followed process; requests count from 1

# What is told while nobody takes it, because another caller of this connection waits for an answer that comes behind it.
# Beyond that it is left out, and asked for again: the log is the queue.
_MAX_KEPT_BYTES = 4 * 1024 * 1024
_EVENT_BYTES = 4096  # what an event counts for: it carries a process


class Conversation:
    """Requests by number, and what was told of the one process that is followed here, or of the events.

    Attributes:
        attached: The processes whose output is told now, for the last `attach` of each.
        is_listening: Events are told.
        has_left_out: Something was left out since: ask again, once everything kept is taken.
    """

    def __init__(self) -> None:
        """Nothing was asked."""
        self.is_listening = self.has_left_out = False
        self.attached: set[str] = set()
        self._asked = FOLLOWER
        self._answers: dict[int, ServerAnswer | None] = {}
        self._attaching: dict[int, tuple[str, bool]] = {}  # the process, and whether beside others
        self._events_id: int | None = None
        self._told: deque[Heard] = deque()
        self._kept_bytes = 0

    def ask(self, method: str, params: Mapping[str, object]) -> tuple[int, str]:
        """Return the number of a new request and its text."""
        self._asked += 1
        self._answers[self._asked] = None
        return self._asked, encode_request(self._asked, method, params)

    def ask_input(self, process_id: str, data: bytes | memoryview) -> tuple[int, bytes]:
        """Do the same for a `write` whose bytes go as they are."""
        self._asked += 1
        self._answers[self._asked] = None
        return self._asked, encode_input(self._asked, process_id, data)

    def ask_attach(
        self, process_id: str, cursor: Cursor, *, raw: bool = False, beside: bool = False
    ) -> tuple[int, str]:
        """Do the same for `attach`: from its answer on, what is told of the process is kept.

        Without `beside` nothing else is followed any more; with it, what the answer says of the process is kept as well,
        in its place among the events.
        """
        params: dict[str, object] = {"process_id": process_id, "cursor": str(cursor), "output": "binary"}
        if raw:
            params["raw"] = True
        asked = self.ask("attach", params)
        if not beside:
            self.drop_told()
        # What an earlier attach still tells of it comes before this one's answer.
        self.attached.discard(process_id)
        self._attaching = {number: one for number, one in self._attaching.items() if one[0] != process_id}
        self._attaching[asked[0]] = process_id, beside
        return asked

    def ask_events(self, params: Mapping[str, object]) -> tuple[int, str]:
        """Do the same for `events`: from its answer on, what happens is kept."""
        asked = self.ask("events", params)
        self.drop_told()
        self._events_id = asked[0]
        return asked

    def drop_told(self) -> None:
        """Follow nothing any more."""
        self.is_listening = self.has_left_out = False
        self.attached.clear()
        self._attaching.clear()
        self._events_id = None
        self._told.clear()
        self._kept_bytes = 0

    def answer(self, request_id: int) -> ServerAnswer | None:
        """Return the answer to a request, None as long as there is none."""
        return self._answers.get(request_id)

    def forget(self, request_id: int) -> None:
        """Nobody waits for that answer any more."""
        self._answers.pop(request_id, None)

    def next_told(self) -> Heard | None:
        """Take the oldest of what was told; None when there is nothing."""
        if not self._told:
            return None
        told = self._told.popleft()
        self._kept_bytes -= _size(told)
        return told

    @property
    def has_told(self) -> bool:
        """Whether the follower has something to do."""
        return bool(self._told) or self.has_left_out

    def take(self, frame: str | bytes) -> int | None:
        """Take in a frame; return whose turn it is: a request's number, or FOLLOWER. None: nobody's.

        Raises:
            ProtocolViolation: Whatever sent this is no outlive server.
            OutliveError: The server ends the connection, and says why.
        """
        message = read_frame(frame)
        match message:
            case ServerAnswer(request_id=None, error=error) if error is not None:
                raise error
            case ServerAnswer(request_id=request_id) if request_id in self._answers:
                return self._answered(request_id, message)
            case OutputPiece() | OutputMissing() | Ended() if message.process_id in self.attached:
                self._keep(message)
                return FOLLOWER
            case ProcessEvent() if self.is_listening:
                self._keep(message)
                return FOLLOWER
            case (
                ServerHello()
                | ServerAnswer()
                | OutputPiece()
                | OutputMissing()
                | Ended()
                | ProcessEvent()
                | Attached()
                | None
            ):
                return None

    def _answered(self, request_id: int, answer: ServerAnswer) -> int:
        self._answers[request_id] = answer
        attached = self._attaching.pop(request_id, None)
        if attached is not None and answer.result is not None:
            # Noticed here and not when the caller wakes: the next frame may be output already.
            process_id, beside = attached
            self.attached.add(process_id)
            if beside:
                self._keep(Attached(process_id, answer.result))
        if request_id == self._events_id:
            self.is_listening = answer.error is None
        return request_id

    def _keep(self, told: Heard) -> None:
        size = _size(told)
        if self.has_left_out or (self._told and self._kept_bytes + size > _MAX_KEPT_BYTES):
            self.has_left_out = True
            return
        self._told.append(told)
        self._kept_bytes += size


def _size(told: Heard) -> int:
    if isinstance(told, OutputPiece):
        return len(told.data)
    return _EVENT_BYTES if isinstance(told, ProcessEvent | Attached) else 1
