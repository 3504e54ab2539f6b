"""How large a request may be: `BodyLimit`, a layer around the routes.

What a route reads its body with, and how the OpenAPI document describes it: `read_body`, `describe_body`.

Idempotency-Key: a request that is sent twice starts one command (draft-ietf-httpapi-idempotency-key-header).

Key and body are kept with the process, as hashes in the place of its connection and its request, so that they are
known after a restart, too, and as long as the process is.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec
from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, OutliveError, ProtocolViolation
from outlive.core.process import Owner
from outlive.engine import Process, ProcessFilter
from outlive.frontends.rest.context import RestContext
from outlive.frontends.rest.problems import HttpRefusal
from outlive.frontends.rest.slugs import DOCS_PATH
from outlive.operations.requests import convert_request

# What is passed on piece by piece and never held: nothing needs a limit there, and half of an input is worse than none.
_STREAMED = re.compile(r"/v1/processes/[^/]+/stdin")


class BodyLimit:
    """Lets a body of at most `limit_bytes` pass, whether its length was announced or not.

    Raises:
        HttpRefusal: `body_too_large`, out of the reading of the body.
    """

    def __init__(self, app: ASGIApp, *, limit_bytes: int) -> None:
        """Stand before `app`."""
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket."""
        if scope["type"] != "http" or _STREAMED.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if announced.isdigit() and int(announced) > self._limit_bytes:
            raise self._refusal()
        read_bytes = 0

        async def count() -> Message:
            nonlocal read_bytes
            message = await receive()
            read_bytes += len(message.get("body", b""))
            if read_bytes > self._limit_bytes:
                raise self._refusal()
            return message

        async def answer(message: Message) -> None:
            # FastAPI takes whatever the reading of a body raises for broken JSON, and answers 400: that is left out.
            if read_bytes <= self._limit_bytes:
                await send(message)

        await self._app(scope, count, answer)
        if read_bytes > self._limit_bytes:
            raise self._refusal()

    def _refusal(self) -> HttpRefusal:
        return HttpRefusal("body_too_large", f"The body has more than {self._limit_bytes} bytes.")


_JSON_TYPE = re.compile(r"application/(?:[\w.-]+\+)?json", re.IGNORECASE)
_Shape = TypeVar("_Shape", bound=msgspec.Struct)


def read_body(
    shape: type[_Shape], *, needs_type: bool = True
) -> Callable[[Request], Coroutine[None, None, _Shape]]:
    """Return a dependency: what a route's body asks for, checked.

    `needs_type`: a body without a Content-Type is refused. Pages of other origins cannot send JSON's unasked (Fetch, "CORS").

    The dependency raises:
        HttpRefusal: `not_json`: the Content-Type is another one.
        ProtocolViolation: `parse_error`.
        InvalidRequest: A member is missing, unknown, of the wrong type or impossible; `errors` in its details says which.
    """

    async def read(request: Request) -> _Shape:
        raw = await request.body()
        kind = request.headers.get("content-type", "none" if needs_type else "application/json")
        kind = kind.partition(";")[0].strip()
        if not _JSON_TYPE.fullmatch(kind):
            raise HttpRefusal("not_json", f"The Content-Type of the body is {kind[:80]}.")
        if not raw:
            raise _wrong("body", "a JSON object is needed")
        try:
            members = msgspec.json.decode(raw)
        except (ValueError, RecursionError):  # a DecodeError is a ValueError
            raise _unreadable(raw) from None
        try:
            return convert_request(members, shape)
        except InvalidRequest as error:
            name = error.details.get("parameter")
            place = (
                "body"
                if name is None
                else f"body.{name}".replace("[...]", "").replace("[", ".").replace("]", "")
            )
            raise _wrong(place, error.message) from None

    return read


def describe_body(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """Return what the OpenAPI document says of a route that reads such a body."""
    schema = {"$ref": f"#/components/schemas/{shape.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _wrong(place: str, message: str) -> InvalidRequest:
    hint = f"{DOCS_PATH} describes every parameter."
    errors = [{"place": place, "message": message}]
    return InvalidRequest("invalid_params", f"{place}: {message}", hint=hint, details={"errors": errors})


def _unreadable(raw: bytes) -> OutliveError | HTTPException:
    """Return what is wrong with a body that msgspec does not read: not everything is broken JSON."""
    try:
        json.loads(raw.decode())
    except UnicodeDecodeError:
        return HTTPException(400, "The body is no UTF-8.")
    except (ValueError, RecursionError):
        return ProtocolViolation("parse_error", "The body is no JSON.")
    # Python's parser is more lenient: NaN, numbers beyond a double, and half of a surrogate pair.
    return _wrong("body", "a number or a text in it is none (half of a surrogate pair, NaN)")


_MARK = "key:"


class IdempotentStarts:
    """Starts commands, each key's once."""

    def __init__(self, context: RestContext) -> None:
        """Nothing is remembered here but which keys are being started right now."""
        self._context = context
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start(self, command: Command, key: str | None, body: bytes) -> tuple[Process, bool]:
        """Return the process, and whether it was started now.

        Raises:
            HttpRefusal: `key_reused`: the key started something else before.
            OutliveError: As `Engine.start`.
        """
        engine = self._context.engine
        if key is None:
            return await engine.starts.start(command, owner=self._context.owner()), True
        mark = _MARK + hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
        fingerprint = hashlib.sha256(body).hexdigest()
        lock = self._locks.setdefault(mark, asyncio.Lock())
        async with lock:
            known = await self._find(self._context.owner(connection_id=mark))
            if known is None:
                owner = self._context.owner(connection_id=mark, request_id=fingerprint)
                return await engine.starts.start(command, owner=owner), True
            if known.record.owner.request_id != fingerprint:
                raise HttpRefusal("key_reused", "This Idempotency-Key was used with another body.")
            return known, False

    async def _find(self, owner: Owner) -> Process | None:
        wanted = ProcessFilter(principal=owner.principal, connection_id=owner.connection_id)
        records = await self._context.engine.queries.list(wanted, limit=1)
        return await self._context.engine.queries.find(records[0].process_id) if records else None
