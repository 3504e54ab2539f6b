"""One HTTP request to /mcp and its answer: `HttpExchange`. Bytes and headers; what messages mean is not known here."""

from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from outlive.frontends.mcp.http.requests import Wants
from outlive.frontends.mcp.http.responses import EventStream, Headers, error_body, send_body
from outlive.policy.access import Access
from outlive.protocols.sse import encode_event

_INVALID_REQUEST = -32600


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpExchange:
    """The ASGI parts of a request and what its headers say."""

    scope: Scope
    receive: Receive
    send: Send
    access: Access
    revision: str | None
    wants: Wants

    @property
    def is_raw(self) -> bool:
        """Whether the caller is no official client: it names no revision."""
        return self.revision is None

    async def answer(self, status: int, body: bytes = b"", headers: Headers = ()) -> None:
        """Answer with one JSON body, or with none."""
        await send_body(self.send, status=status, body=body, headers=headers)

    async def refuse(self, status: int, message: str, *, code: int = _INVALID_REQUEST) -> None:
        """Answer with a JSON-RPC error that belongs to no message."""
        await self.answer(status, error_body(code, message))

    async def respond(self, response: bytes, headers: Headers = ()) -> None:
        """Answer a message with its response, in the form that the caller accepts."""
        if self.wants.json:
            await self.answer(200, response, headers)
        else:
            stream = EventStream(self.send, headers)
            await stream.write(encode_event("message", response), is_last=True)

    async def body(self, limit_bytes: int) -> bytes | None:
        """Return the whole body; None when it is too large (then it was refused: 413) or the client has left."""
        pieces: list[bytes] = []
        size = 0
        while True:
            event = await self.receive()
            if event["type"] == "http.disconnect":
                return None
            pieces.append(event.get("body", b""))
            size += len(pieces[-1])
            if size > limit_bytes:
                await self.refuse(413, f"The body is larger than {limit_bytes} bytes.")
                return None
            if not event.get("more_body"):
                return b"".join(pieces)
