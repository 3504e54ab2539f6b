"""A connection that this machine has opened to a gateway: `dial`, `Spare` while it lies ready, and
`accepted`, as a session serves it.

Imported only where a gateway was joined: the library's client costs the server's start some 40 ms.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.types import Message
from starlette.websockets import WebSocket
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from outlive.core.documents import decode_json
from outlive.core.errors import SLUGS, AccessDenied, BackendUnavailable, OutliveError, error_from_slug
from outlive.extensions.fleet.joined.messages import (
    INSTANCE_HEADER,
    NotLetIn,
    ToGateway,
    ToNode,
    encode_joined,
    read_for_node,
)

_OPEN_S = 10.0
_BEAT_S, _ANSWER_S = 2.0, 3.0  # a link that was cut is noticed within 5 s here as well as there
# While a connection is served, output may fill it, and an answer comes behind that: this only finds what is
# gone for good.
_SERVED_PING_S, _SERVED_ANSWER_S = 15.0, 60.0
_LOST = "The gateway has ended the connection, or says nothing."


class _Direct(connect):
    """The library's client without redirections: they would lead a credential to an address that no operator
    chose.
    """

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow nothing."""
        return exc


async def dial(url: str, secret: str, *, ca: str, instance: str, max_message_bytes: int) -> "Spare":
    """Return a connection to a gateway that takes the secret; what it says to it comes by `Spare.hear`.

    Args:
        url: The `ws://` or `wss://` address.
        secret: The code of an invitation, or a credential.
        ca: PEM file of the authorities that count; "" takes the system's.
        instance: How this server names itself while it lives.
        max_message_bytes: The largest message that is taken.

    Raises:
        AccessDenied: Its certificate does not count, or it does not take the secret.
        BackendUnavailable: `server_unavailable`: no server answers there now.
        OutliveError: What it answered.
    """
    try:
        tls = ssl.create_default_context(cafile=ca or None) if url.startswith("wss://") else None
        return Spare(
            await _Direct(
                url,
                additional_headers={"Authorization": f"Bearer {secret}", INSTANCE_HEADER: instance},
                ssl=tls,
                proxy=None,
                compression=None,
                user_agent_header=None,
                open_timeout=_OPEN_S,
                ping_interval=_SERVED_PING_S,
                ping_timeout=_SERVED_ANSWER_S,
                max_size=max_message_bytes,
            )
        )
    except ssl.SSLCertVerificationError as error:
        text = f"The certificate of {url} does not count: {error.verify_message or error.reason}."
        hint = "Check the address; --ca names the authority where it is none of the system's."
        raise AccessDenied("foreign_host", text, hint=hint) from error
    except InvalidStatus as error:
        raise _refusal(error.response.status_code, bytes(error.response.body or b"")) from error
    except (OSError, TimeoutError, InvalidHandshake, InvalidURI, ConnectionClosed) as error:
        text = f"No server answers at {url}: {str(error) or type(error).__name__}."
        raise BackendUnavailable("server_unavailable", text) from error


def _refusal(status: int, body: bytes) -> OutliveError:
    try:
        answer = decode_json(body)
        slug, message, hint = str(answer["error"]), str(answer["message"]), str(answer["hint"])
    except (ValueError, KeyError, TypeError):
        slug, message, hint = "", f"What answers there takes no nodes (HTTP {status}).", ""
    if slug not in SLUGS:
        return BackendUnavailable("server_unavailable", message, hint="Check the address.")
    return error_from_slug(slug, message, hint=hint)


class Spare:
    """A connection before a session is served over it. One task uses it.

    Attributes:
        connection: The library's.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def hear(self, *, patience_s: float | None = None) -> ToNode:
        """Return what the gateway says next.

        Without `patience_s`, however long that takes while it answers pings.

        Raises:
            BackendUnavailable: `server_lost`: it has ended the connection, or says nothing.
            ProtocolViolation: What it says makes no sense.
            OutliveError: Why this machine is not let in.

        Cancellation: safe.
        """
        frame: str | bytes | None = None
        try:
            while frame is None:
                try:
                    async with asyncio.timeout(_BEAT_S if patience_s is None else patience_s):
                        frame = await self.connection.recv()
                except TimeoutError:
                    if patience_s is not None:
                        raise
                    async with asyncio.timeout(_ANSWER_S):
                        await (await self.connection.ping())
        except (ConnectionClosed, TimeoutError) as error:
            raise BackendUnavailable("server_lost", _LOST) from error
        message = read_for_node(frame)
        if isinstance(message, NotLetIn):
            slug = message.error if message.error in SLUGS else "internal_error"
            raise error_from_slug(slug, message.message)
        return message

    async def say(self, message: ToGateway) -> None:
        """Say something; that the connection has ended is noticed by `hear`."""
        with contextlib.suppress(ConnectionClosed):
            await self.connection.send(encode_joined(message))

    def close(self) -> None:
        """End it at once."""
        self.connection.transport.abort()


def accepted(connection: ClientConnection, query: Mapping[str, str]) -> WebSocket:
    """Return a connection that was dialled as one that came in with such a query, for the code that serves
    those.
    """
    is_begun = False

    async def receive() -> Message:
        nonlocal is_begun
        if not is_begun:
            is_begun = True
            return {"type": "websocket.connect"}
        try:
            frame = await connection.recv()
        except ConnectionClosed:
            return {"type": "websocket.disconnect", "code": 1006}
        if isinstance(frame, str):
            return {"type": "websocket.receive", "text": frame}
        return {"type": "websocket.receive", "bytes": frame}

    async def send(message: Message) -> None:
        try:
            match message["type"]:
                case "websocket.send":
                    text = message.get("text")
                    await connection.send(message["bytes"] if text is None else text)
                case "websocket.close":
                    await connection.close(message.get("code", 1000))
        except ConnectionClosed as error:
            raise OSError("the connection has ended") from error  # starlette makes a disconnect of it

    scope = {
        "type": "websocket",
        "path": "/ws/mcp",
        "query_string": urlencode(query).encode(),
        "headers": [],
        "subprotocols": [],
        "extensions": {},
        "state": {},
    }
    return WebSocket(scope, receive, send)
