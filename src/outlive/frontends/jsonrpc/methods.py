"""The table of methods, and the way from a parsed frame to the frames of its answer.

A request goes in a straight line: `requested` finds its method and checks its parameters, `Requested.answer`
runs it, turns every failure into an error, and keeps a batch together. How it runs beside others of its
connection is `connection`'s to see to.
"""

import asyncio
import functools
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from outlive.core.errors import AccessDenied, InvalidRequest, LimitExceeded, OutliveError, ProtocolViolation
from outlive.core.events import AuditEvent
from outlive.frontends.jsonrpc.context import BytesHandler, Concurrency, Context, Method, Result, table_of
from outlive.frontends.jsonrpc.controls import CONTROLS, write_bytes
from outlive.frontends.jsonrpc.files import FILES, write_piece
from outlive.frontends.jsonrpc.queries import QUERIES
from outlive.frontends.jsonrpc.starts import STARTS
from outlive.operations.files import FileWrite
from outlive.operations.requests import decode_request
from outlive.operations.table import all_operations
from outlive.protocols.jsonrpc.answers import encode_batch, encode_error, encode_result
from outlive.protocols.jsonrpc.params import ProcessParams
from outlive.protocols.jsonrpc.requests import MAX_BATCH_ANSWER_BYTES, Batch, Request, RequestRefusal
from outlive.protocols.websocket_frames import binary_frame, text_frame


async def _carry_out(name: str, context: Context, params: msgspec.Struct, label: str | None) -> Result:
    shape = all_operations()[name].request
    if shape is not None and type(params) is not shape:  # the tolerant one
        params = shape(**msgspec.structs.asdict(params))
    return Result(await context.operations.carry_out(name, params, context.owner(label)))


def _tolerant(shape: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return a shape that takes and ignores unknown members, as every method does (promise S0.3)."""
    if not shape.__struct_config__.forbid_unknown_fields:
        return shape
    return msgspec.defstruct(
        shape.__name__, (), bases=(shape,), kw_only=True, frozen=True, forbid_unknown_fields=False
    )


@functools.cache
def methods() -> Mapping[str, Method]:
    """Return all methods by their names; made at the first call, which imports extensions' operations."""
    # The operations that every door answers alike need nothing of this one's own.
    alike = table_of(
        *(
            Method(
                one.name,
                _tolerant(one.request),
                one.answer,
                functools.partial(_carry_out, one.name),
                Concurrency.IN_ORDER if one.pace == "brief" else Concurrency.LONG,
            )
            for one in all_operations().values()
            if one.request is not None and one.answer is not None
        )
    )
    return MappingProxyType(STARTS | CONTROLS | QUERIES | alike | FILES)


TURN_REQUESTS = 32  # of which most take some 0.1 ms: then other tasks run
_logger = logging.getLogger(__name__)
# The methods that take bytes behind a line of JSON, each with what it takes then, and what does it.
_WITH_BYTES: Mapping[str, tuple[type[msgspec.Struct], BytesHandler]] = MappingProxyType(
    {"write": (ProcessParams, write_bytes), "file_write": (FileWrite, write_piece)}
)


class _Entry(msgspec.Struct, frozen=True):
    """One request of a frame: its method with checked parameters, or the error that it gets instead.

    An error of the parameters has its method beside it: a caller that may not call a method at all learns
    that first, as over REST and MCP, whatever the parameters are.
    """

    request_id: bytes | None
    label: str | None = None
    method: Method | None = None
    params: msgspec.Struct | None = None
    payload: memoryview | None = None  # what a binary frame brought with it
    error: OutliveError | None = None

    async def run(self, context: Context) -> Result | OutliveError:
        """Return what the method gives, or why it does not; raises nothing but a cancellation."""
        method = self.method
        if method is None:
            assert self.error is not None
            return self.error
        begun = time.monotonic()
        try:
            context.access.require(all_operations()[method.name].scope)
            if self.error is not None:
                return self.error
            if self.payload is None:
                result = await method.answer(context, self.params, self.label)
            else:
                result = await _WITH_BYTES[method.name][1](context, self.params, self.payload)
        except AccessDenied as error:
            context.engine.events.publish(
                AuditEvent(
                    what="access",
                    by=context.owner(self.label),
                    decision="denied",
                    reason=error.code,
                    details={"path": f"/ws/mcp {method.name}"},
                )
            )
            return error
        except OutliveError as error:
            return error
        except Exception:
            reference = secrets.token_hex(4)
            _logger.exception("a request failed", extra={"reference": reference})
            text = f"Something went wrong (reference {reference})."
            return OutliveError("internal_error", text, details={"reference": reference})
        context.observe(method.name, time.monotonic() - begun)
        return result


class Requested(msgspec.Struct, frozen=True, kw_only=True):
    """What one frame asks for. `concurrency` says how it may run beside other frames of its connection."""

    entries: Sequence[_Entry]
    is_batch: bool
    concurrency: Concurrency

    async def answer(self, context: Context) -> tuple[bytes, list[Callable[[], None]]]:
        """Do what is asked, one request after the other.

        Return frames for one write, and what happens behind it.

        The responses of a batch lie in memory until all are there: what would come behind
        `MAX_BATCH_ANSWER_BYTES` is not done.
        """
        responses: list[bytes] = []
        notifications: list[bytes] = []
        followups: list[Callable[[], None]] = []
        answered_bytes = 0
        for number, entry in enumerate(self.entries, 1):
            is_full = answered_bytes > MAX_BATCH_ANSWER_BYTES and entry.request_id is not None
            result = _batch_is_full() if is_full else await entry.run(context)
            before = len(responses)
            if isinstance(result, OutliveError):
                context.engine.redaction.finish(result, getattr(entry.params, "env_secrets", {}))
                if entry.request_id is not None:
                    responses.append(encode_error(entry.request_id, result))
            else:
                if entry.request_id is not None and result.payload is None:
                    responses.append(encode_result(entry.request_id, result.members))
                elif entry.request_id is not None and self.is_batch:
                    error = ProtocolViolation("binary_frame", "Bytes are asked for in a request of its own.")
                    responses.append(encode_error(entry.request_id, error))
                elif entry.request_id is not None and result.payload is not None:
                    head = encode_result(entry.request_id, result.members)
                    return binary_frame(b"\n".join((head, result.payload))), followups
                notifications += result.notifications
                if result.then is not None:
                    followups.append(result.then)
            answered_bytes += sum(map(len, responses[before:]))
            if number % TURN_REQUESTS == 0:
                await asyncio.sleep(0)
        return self._framed(responses, notifications), followups

    def refuse(self, error: OutliveError) -> bytes:
        """Return the frames of the answer when nothing of this is done."""
        asked = [one.request_id for one in self.entries if one.request_id is not None]
        return self._framed([encode_error(request_id, error) for request_id in asked], [])

    def _framed(self, responses: list[bytes], notifications: list[bytes]) -> bytes:
        if self.is_batch and responses:
            responses = [encode_batch(responses)]
        return b"".join(map(text_frame, responses + notifications))


def _batch_is_full() -> LimitExceeded:
    return LimitExceeded(
        "batch_limit", f"This batch was answered with {MAX_BATCH_ANSWER_BYTES} bytes already."
    )


def requested(frame: Request | RequestRefusal | Batch) -> Requested:
    """Return what a parsed frame asks for; methods are found and parameters checked here."""
    if isinstance(frame, Batch):
        found = [_entry_of(one) for one in frame.entries]
        return Requested(
            entries=[entry for entry, _ in found],
            is_batch=True,
            concurrency=max(concurrency for _, concurrency in found),
        )
    entry, concurrency = _entry_of(frame)
    return Requested(entries=(entry,), is_batch=False, concurrency=concurrency)


def _entry_of(request: Request | RequestRefusal) -> tuple[_Entry, Concurrency]:
    """Return a request with its method and checked parameters, and how it may run beside others."""
    if isinstance(request, RequestRefusal):
        return _Entry(request.request_id, error=request.error), Concurrency.IN_ORDER
    request_id, method = request.request_id, methods().get(request.method)
    error: OutliveError
    if method is None:
        error = ProtocolViolation("method_not_found", f"There is no method {request.method[:40]!r}.")
        return _Entry(request_id, error=error), Concurrency.IN_ORDER
    shape = method.shape
    if request.payload is not None:
        if method.name not in _WITH_BYTES:
            error = ProtocolViolation("binary_frame", f"{method.name} is asked for in a text frame.")
            return _Entry(request_id, error=error), Concurrency.IN_ORDER
        shape = _WITH_BYTES[method.name][0]
    try:
        params = decode_request(request.params, shape)
    except InvalidRequest as refusal:
        return _Entry(request_id, request.label, method, error=refusal), Concurrency.IN_ORDER
    # A start that wants the session's one place is answered in order; only those beside it are not.
    concurrency = method.concurrency if getattr(params, "concurrent", True) else Concurrency.IN_ORDER
    return _Entry(request_id, request.label, method, params, request.payload), concurrency
