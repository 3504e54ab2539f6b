"""How a WebSocket connection ends, from either side: a close code for the client, and no traceback in the
log.

uvicorn logs as failures of the application, with a traceback, what any client or a stop of the server can
cause: text that is not UTF-8, a connection that closes while the application is about to send, an upgrade
that is not finished when the server stops. Here each gets its close code. What a frontend sends in its own
protocol before the close is that frontend's to decide.
"""

from http import HTTPStatus
from typing import Any

from outlive.server.access.peers import PEER, Peer
from outlive.server.http.uvicorn_parts import ClientDisconnected, WebSocketsSansIOProtocol

_LAST = {"websocket.close", "websocket.http.response.body"}
_INVALID_DATA = 1007  # RFC 6455, section 7.4.1
_POLICY_VIOLATION = 1008
_RESTARTS = 1012  # IANA's registry of close codes
_DISMISSED = "the token was revoked or has expired"
_DISCARD_S = 5.0  # how long a client may go on sending a message that was refused


class ClosingWebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket connection.

    An application that sends into a closed one gets `ClientDisconnected`.
    """

    _has_app_closed = False

    async def send(self, message: Any) -> None:  # noqa: ANN401 -- an event of uvicorn's own
        """Send one event of the application."""
        await self.writable.wait()
        # Closed by the server or the client, and the application does not know it yet: no error of the
        # application.
        if self.close_sent and not self._has_app_closed:
            raise ClientDisconnected
        if message["type"] in _LAST:
            self._has_app_closed = True
        await super().send(message)
        if self.close_sent and self.initial_response is not None:
            self.handshake_complete = (
                True  # the whole refusal was sent; otherwise uvicorn logs an unfinished handshake
            )

    def send_receive_event_to_app(self) -> None:
        """Pass on a whole message; text that is not UTF-8 ends the connection (RFC 6455, section 8.1)."""
        if self.curr_msg_data_type != "text" or self.close_sent:
            super().send_receive_event_to_app()
            return
        data, self.frames = b"".join(self.frames), []
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self.conn.send_close(_INVALID_DATA, "text that is no UTF-8")
            self.handle_parser_exception()
            return
        self.queue.put_nowait({"type": "websocket.receive", "text": text})
        if not self.read_paused:
            self.read_paused = True
            self.transport.pause_reading()

    def handle_parser_exception(self) -> None:
        """Send the reason why the connection ends (1009: too big), and go on reading for a while.

        Closing at once, with bytes of the client unread, would make the kernel reset the connection, and the
        client would lose the close frame.
        """
        if self.close_sent:
            return  # this is the rest of the refused message
        assert self.conn.close_sent is not None
        code, reason = self.conn.close_sent.code, self.conn.close_sent.reason
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.close_sent = True
        self.close_timer = self.loop.call_later(_DISCARD_S, self.transport.close)
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def dismiss(self) -> None:
        """End the connection because its token no longer counts (1008).

        What the client has not read is lost.
        """
        if not self.close_sent and self.handshake_complete:
            self.conn.send_close(_POLICY_VIOLATION, _DISMISSED)
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _POLICY_VIOLATION})
        self.transport.close()
        self.loop.call_later(_DISCARD_S, self.transport.abort)

    def shutdown(self) -> None:
        """End the connection because the server stops: 1012, or 503 for an upgrade that is not answered
        yet.
        """
        if self.handshake_complete or self.close_sent or self.initial_response is not None:
            super().shutdown()
            return
        self.stop_keepalive()
        self.conn.send_response(
            self.conn.reject(HTTPStatus.SERVICE_UNAVAILABLE, "The server is being stopped.\n")
        )
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.handle_turned_away()

    def handle_turned_away(self) -> None:
        """Notify the application that this upgrade has failed."""
        self.handshake_complete = self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _RESTARTS})
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        peer: Peer | None = self.app_state.get(PEER)
        if peer is not None:
            peer.close()
        super().connection_lost(exc)
