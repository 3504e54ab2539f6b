"""The requests that the keeper has not answered yet: numbers, deadlines, what happens when it restarts.

Touches no socket; `keeper_link` sends them. Only the loop's thread uses it.
"""

import asyncio
import socket
from collections.abc import Callable

from outlive.core.errors import BackendUnavailable, OutliveError, error_from_slug
from outlive.protocols.keeper import decode_message

Reply = dict[str, object]
Settle = Callable[[Reply | OutliveError], None]


class KeeperRequest:
    """One question; `future` is what its caller waits for, `settle` is called even if no caller waits any
    more.
    """

    __slots__ = (
        "future",
        "is_repeatable",
        "is_sent",
        "message",
        "number",
        "payload",
        "sent_with",
        "settle",
        "timer",
    )

    def __init__(
        self,
        number: int,
        message: Reply,
        payload: bytes | memoryview,
        *,
        is_repeatable: bool,
        settle: Settle | None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.message = {**message, "req": number}
        self.payload = payload
        self.future: asyncio.Future[Reply] = loop.create_future()
        self.is_repeatable = is_repeatable
        self.is_sent = False
        self.sent_with: socket.socket | None = None  # what travels with it; its caller closes it
        self.settle = settle
        self.timer: asyncio.TimerHandle | None = None

    def finish(self, outcome: Reply | OutliveError) -> None:
        """Hand over the outcome."""
        if self.timer is not None:
            self.timer.cancel()
        if not self.future.done():  # a cancelled caller has cancelled it
            if isinstance(outcome, OutliveError):
                self.future.set_exception(outcome)
            else:
                self.future.set_result(outcome)
        if self.settle is not None:
            self.settle(outcome)


class Unanswered:
    """One entry for each waiting caller, and those of cancelled callers until their deadline.

    `trouble` is why the keeper cannot be reached, `is_reachable` whether it can.
    """

    def __init__(self) -> None:
        self.trouble: OutliveError | None = None
        self.is_reachable = False
        self._requests: dict[int, KeeperRequest] = {}
        self._number = 0

    def __contains__(self, request: KeeperRequest) -> bool:
        """Tell whether `request` still waits for its answer."""
        return request.number in self._requests

    def add(
        self,
        message: Reply,
        payload: bytes | memoryview,
        *,
        deadline_s: float | None,
        is_repeatable: bool,
        settle: Settle | None = None,
    ) -> KeeperRequest:
        """Enter a question; after `deadline_s` it is answered with an error and forgotten."""
        self._number += 1
        request = KeeperRequest(self._number, message, payload, is_repeatable=is_repeatable, settle=settle)
        self._requests[request.number] = request
        if deadline_s is not None:
            loop = asyncio.get_running_loop()
            request.timer = loop.call_later(deadline_s, self._expire, request, deadline_s)
        return request

    def forget(self, request: KeeperRequest) -> None:
        """Drop a question without an outcome."""
        self._requests.pop(request.number, None)

    def answer(self, packet: bytes) -> None:
        """Take over a reply; one whose question is forgotten is dropped.

        Raises:
            ValueError: The packet is no message.
        """
        reply, _ = decode_message(packet)
        number = reply.get("req")
        request = self._requests.pop(number, None) if isinstance(number, int) else None
        if request is None:
            return
        if reply.get("ok"):
            request.finish(reply)
            return
        details = reply.get("details")
        request.finish(
            error_from_slug(
                str(reply.get("error")),
                str(reply.get("message", "The keeper refused.")),
                details=details if isinstance(details, dict) else None,
            )
        )

    def outstanding(self) -> list[KeeperRequest]:
        """Return all of them in the order in which they were asked."""
        return list(self._requests.values())

    def fail_unrepeatable(self) -> None:
        """Fail what was sent to a keeper that died and cannot be repeated.

        The rest waits for the next one.
        """
        for request in self.outstanding():
            if request.is_sent and not request.is_repeatable:
                self._fail(
                    request,
                    BackendUnavailable(
                        "keeper_restarted", "The keeper restarted before it answered this request."
                    ),
                )

    def fail_vain(self) -> None:
        """Fail all of them if waiting is in vain: no keeper comes back into a folder that is gone."""
        if self.trouble is not None and self.trouble.code == "folder_gone":
            self.fail_all(self.trouble)

    def fail_all(self, error: OutliveError) -> None:
        """Answer all of them with `error`."""
        for request in self.outstanding():
            self._fail(request, error)

    def silence(self, deadline_s: float) -> OutliveError:
        """Return the error for a question that was not answered in time."""
        if self.trouble is not None:
            return self.trouble
        if not self.is_reachable:
            text = f"The keeper could not be reached for {deadline_s:.0f} s."
            return BackendUnavailable("keeper_unavailable", text)
        return BackendUnavailable("timeout", f"The keeper did not answer within {deadline_s:.0f} s.")

    def _expire(self, request: KeeperRequest, deadline_s: float) -> None:
        if request.message.get("op") == "stop":
            # What was to end ends, however late the keeper answers, and whichever supervisor does.
            request.finish(self.silence(deadline_s))
        else:
            self._fail(request, self.silence(deadline_s))

    def _fail(self, request: KeeperRequest, error: OutliveError) -> None:
        if self._requests.pop(request.number, None) is not None:
            request.finish(_of_start(request, error) if isinstance(error, BackendUnavailable) else error)


def _of_start(request: KeeperRequest, error: BackendUnavailable) -> BackendUnavailable:
    """Return the error for a caller; nothing that was sent to be started is to be started again unseen."""
    if request.message.get("op") != "start" or not request.is_sent:
        return error
    process_id = request.message["id"]
    hint = f"It may run, as {process_id}: look at it before you start it again."
    return BackendUnavailable(
        error.code, error.message, hint=hint, details={**error.details, "process_id": process_id}
    )
