"""Requests to answers: runs what was asked, turns every failure into an error, keeps a batch together."""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence

import msgspec

from outlive.core.errors import AccessDenied, InvalidRequest, OutliveError
from outlive.core.events import AuditEvent
from outlive.frontends.jsonrpc.context import Context
from outlive.frontends.jsonrpc.methods import BoundCall, Concurrency, prepare, refuse
from outlive.protocols.jsonrpc.answers import encode_batch, encode_error, encode_result
from outlive.protocols.jsonrpc.requests import Batch, Request, RequestRefusal
from outlive.protocols.websocket_frames import text_frame

WORK_A_TURN = 32  # requests, of which most take some 0.1 ms: then others are looked at
_logger = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What goes out for one request or batch: frames for one write, and what happens behind it."""

    frames: bytes
    followups: Sequence[Callable[[], None]] = ()


class _Outcome(msgspec.Struct, frozen=True):
    """One request's part: its response (None for a notification), what follows it, what happens behind it."""

    response: bytes | None
    notifications: tuple[bytes, ...] = ()
    then: Callable[[], None] | None = None


class _Job(msgspec.Struct, frozen=True):
    """One entry: a prepared call, or the error that it got instead."""

    request_id: bytes | None
    label: str | None
    call: BoundCall | None
    error: OutliveError | None

    async def run(self, context: Context) -> _Outcome:
        """Return the outcome; raises nothing but a cancellation."""
        error = self.error
        if self.call is not None:
            begun = time.monotonic()
            try:
                context.access.require(self.call.scope)
                reply = await self.call.run(context, self.label)
            except OutliveError as refusal:
                error = refusal
                if isinstance(error, AccessDenied):
                    path = {"path": f"/ws/mcp {self.call.method}"}
                    by = context.owner(self.label)
                    context.engine.events.publish(
                        AuditEvent(what="access", by=by, decision="denied", reason=error.code, details=path)
                    )
            except Exception:
                reference = secrets.token_hex(4)
                _logger.exception("a request failed", extra={"reference": reference})
                error = OutliveError(
                    "internal_error",
                    f"Something went wrong (reference {reference}).",
                    details={"reference": reference},
                )
            else:
                context.observe(self.call.method, time.monotonic() - begun)
                response = None if self.request_id is None else encode_result(self.request_id, reply.result)
                return _Outcome(response, reply.notifications, reply.then)
        if error is None:
            raise AssertionError("a job without a call has an error")
        return _Outcome(None if self.request_id is None else encode_error(self.request_id, error))


class RequestBatch:
    """What one text frame asks for. `lane` tells how it may run beside other frames of its connection."""

    __slots__ = ("_is_batch", "_jobs", "lane")

    def __init__(self, jobs: Sequence[_Job], *, is_batch: bool) -> None:
        """Keep prepared jobs; made by `work_of`."""
        self._jobs = jobs
        self._is_batch = is_batch
        self.lane = max([job.call.lane for job in jobs if job.call is not None], default=Concurrency.IN_ORDER)

    def __len__(self) -> int:
        """Return how many requests it is."""
        return len(self._jobs)

    def refuse(self, error: OutliveError) -> Answer:
        """Return the answer when nothing of this is done."""
        return self._answer(
            [
                _Outcome(None if job.request_id is None else encode_error(job.request_id, error))
                for job in self._jobs
            ]
        )

    async def run(self, context: Context) -> Answer:
        """Do what is asked, one entry after the other."""
        outcomes = []
        for number, job in enumerate(self._jobs, 1):
            outcomes.append(await job.run(context))
            if number % WORK_A_TURN == 0:
                await asyncio.sleep(0)
        return self._answer(outcomes)

    def _answer(self, outcomes: Sequence[_Outcome]) -> Answer:
        responses: list[bytes] = []
        notifications: list[bytes] = []
        followups: list[Callable[[], None]] = []
        for outcome in outcomes:
            if outcome.response is not None:
                responses.append(outcome.response)
            notifications += outcome.notifications
            if outcome.then is not None:
                followups.append(outcome.then)
        if self._is_batch and responses:
            responses = [encode_batch(responses)]
        return Answer(frames=b"".join(map(text_frame, responses + notifications)), followups=followups)


def work_of(frame: Request | RequestRefusal | Batch) -> RequestBatch:
    """Return the work in a parsed frame; parameters are checked here."""
    if isinstance(frame, Batch):
        return RequestBatch([_job(entry) for entry in frame.entries], is_batch=True)
    return RequestBatch([_job(frame)], is_batch=False)


def _job(entry: Request | RequestRefusal) -> _Job:
    if isinstance(entry, RequestRefusal):
        return _Job(entry.request_id, None, None, entry.error)
    try:
        call = prepare(entry.method, entry.params, entry.payload)
    except InvalidRequest as error:
        call = refuse(entry.method, error)
    except OutliveError as error:
        return _Job(entry.request_id, None, None, error)
    return _Job(entry.request_id, entry.label, call, None)
