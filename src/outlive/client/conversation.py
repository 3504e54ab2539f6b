"""The state of one connection: `Conversation`, requests and their answers, and the messages not taken yet. Pure.

Frames go in, values come out. Sockets, and the callers that wait, belong to `channel`.
"""

from collections import deque
from collections.abc import Mapping

from outlive.client.messages import (
    Attached,
    Ended,
    FollowedMessage,
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

FOLLOWER = 0  # stands for the caller that takes the messages of followed processes; requests count from 1

# Messages are kept while their follower does not take them, because another caller reads on to its own answer. Beyond this bound
# they are dropped, and the follower attaches again at its cursor: the output log is the queue.
_MAX_KEPT_BYTES = 4 * 1024 * 1024
_EVENT_BYTES = 4096  # the size that an event counts for: it carries the description of a process


class Conversation:
    """Requests by number, and the messages about followed processes and events that were not taken yet.

    Attributes:
        attached: The processes whose output is accepted now, for the last `attach` of each.
        is_listening: Whether events are accepted.
        has_left_out: Whether messages were dropped: ask again, once everything kept is taken.
    """

    def __init__(self) -> None:
        """Begin without requests."""
        self.is_listening = self.has_left_out = False
        self.attached: set[str] = set()
        self._asked = FOLLOWER
        self._answers: dict[int, ServerAnswer | None] = {}
        self._attaching: dict[int, tuple[str, bool]] = {}  # the process, and whether beside others
        self._events_id: int | None = None
        self._messages: deque[FollowedMessage] = deque()
        self._kept_bytes = 0

    def ask(self, method: str, params: Mapping[str, object]) -> tuple[int, str]:
        """Return the number of a new request and its text."""
        self._asked += 1
        self._answers[self._asked] = None
        return self._asked, encode_request(self._asked, method, params)

    def ask_input(self, process_id: str, data: bytes | memoryview) -> tuple[int, bytes]:
        """Return the number and the binary frame of a `write` request."""
        self._asked += 1
        self._answers[self._asked] = None
        return self._asked, encode_input(self._asked, process_id, data)

    def ask_attach(
        self, process_id: str, cursor: Cursor, *, raw: bool = False, beside: bool = False
    ) -> tuple[int, str]:
        """Return the number and text of an `attach` request: from its answer on, messages about the process are kept.

        Without `beside` nothing else is followed any more. With it, the answer is kept among the messages as well, in its order,
        since a caller could not tell otherwise whether an event is newer.
        """
        params: dict[str, object] = {"process_id": process_id, "cursor": str(cursor), "output": "binary"}
        if raw:
            params["raw"] = True
        asked = self.ask("attach", params)
        if not beside:
            self.drop_messages()
        # Messages of an earlier attach to it come before this one's answer, and are ignored.
        self.attached.discard(process_id)
        self._attaching = {number: one for number, one in self._attaching.items() if one[0] != process_id}
        self._attaching[asked[0]] = process_id, beside
        return asked

    def ask_events(self, params: Mapping[str, object]) -> tuple[int, str]:
        """Return the number and text of an `events` request: from its answer on, events are kept."""
        asked = self.ask("events", params)
        self.drop_messages()
        self._events_id = asked[0]
        return asked

    def drop_messages(self) -> None:
        """Follow nothing any more."""
        self.is_listening = self.has_left_out = False
        self.attached.clear()
        self._attaching.clear()
        self._events_id = None
        self._messages.clear()
        self._kept_bytes = 0

    def answer(self, request_id: int) -> ServerAnswer | None:
        """Return the answer to a request, None as long as there is none."""
        return self._answers.get(request_id)

    def forget(self, request_id: int) -> None:
        """Drop a request whose caller no longer waits."""
        self._answers.pop(request_id, None)

    def next_message(self) -> FollowedMessage | None:
        """Take the oldest message; None when there is none."""
        if not self._messages:
            return None
        message = self._messages.popleft()
        self._kept_bytes -= _size(message)
        return message

    @property
    def has_message(self) -> bool:
        """Whether the follower has something to do."""
        return bool(self._messages) or self.has_left_out

    def take(self, frame: str | bytes) -> int | None:
        """Take in a frame; return the caller that it is for: a request's number, FOLLOWER, or None.

        Raises:
            ProtocolViolation: The frame does not come from an outlive server.
            OutliveError: The server ends the connection, for this reason.
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
            # Recorded here and not when the caller wakes: the next frame may be output already.
            process_id, beside = attached
            self.attached.add(process_id)
            if beside:
                self._keep(Attached(process_id, answer.result))
        if request_id == self._events_id:
            self.is_listening = answer.error is None
        return request_id

    def _keep(self, message: FollowedMessage) -> None:
        size = _size(message)
        if self.has_left_out or (self._messages and self._kept_bytes + size > _MAX_KEPT_BYTES):
            self.has_left_out = True
            return
        self._messages.append(message)
        self._kept_bytes += size


def _size(message: FollowedMessage) -> int:
    if isinstance(message, OutputPiece):
        return len(message.data)
    return _EVENT_BYTES if isinstance(message, ProcessEvent | Attached) else 1
