"""What the server tells a host of its own accord: `ResourceUpdates`, the session's GET stream for a host that
has subscribed.

The server keeps subscriptions in memory. So the relay remembers them, and after a lost stream it subscribes
again and notifies the host of each resource: what came in between may have changed it. It starts no server:
the host's next request does.
"""

import json
import threading
import time
from typing import Protocol

from outlive.core.errors import OutliveError
from outlive.discovery.server import Server
from outlive.frontends.mcp.stdio.handshake import Handshake
from outlive.frontends.mcp.stdio.messages import Envelope, RelayedRequest, RelaySession

_PAUSE_S = 1.0  # between two looks for a server: a restart takes about as long


class MessageWriter(Protocol):
    """The host's end of the relay."""

    def write(self, message: bytes) -> None:
        """Write one message on a line of its own; from any thread."""
        ...


class ResourceUpdates:
    """Passes notifications on from the first subscription to the host's end. Safe to use from any thread."""

    def __init__(self, server: Server, handshake: Handshake, host: MessageWriter) -> None:
        self._server = server
        self._handshake = handshake
        self._host = host
        self._lock = threading.Lock()
        self._subscribed: dict[str, Envelope] = {}
        self._listener: threading.Thread | None = None

    def heed(self, envelope: Envelope, body: bytes) -> None:
        """Take note of a subscription, or of its end, that the server has answered with `body`."""
        method, uri = envelope.message.method, envelope.message.params.get("uri")
        if not isinstance(uri, str) or envelope.revision is not None or b'"result"' not in body:
            return
        with self._lock:
            if method == "resources/unsubscribe":
                self._subscribed.pop(uri, None)
            elif method == "resources/subscribe":
                self._subscribed[uri] = envelope
                if self._listener is None:
                    # A daemon thread: the end of stdin ends the relay, also while this one listens.
                    self._listener = threading.Thread(target=self._listen, daemon=True)
                    self._listener.start()

    def _listen(self) -> None:
        is_first = True
        while True:
            session = self._handshake.session
            try:
                if session is not None and (is_first or self._subscribe_again(session)):
                    is_first = False
                    self._pass_on(session)
            except (OSError, OutliveError, ValueError):
                pass  # the server is away, or goes away: it is looked for again
            is_first = False
            time.sleep(_PAUSE_S)

    def _pass_on(self, session: RelaySession) -> None:
        """Pass on what comes until the stream ends."""
        connection = self._server.dial()
        if connection is None:
            return
        with RelayedRequest(connection) as exchange:
            exchange.send(b"", session.headers(), method="GET")
            if exchange.read_answer().is_stream:
                for message in exchange.read_messages():
                    self._host.write(message)

    def _subscribe_again(self, session: RelaySession) -> bool:
        """Subscribe to everything once more and tell the host; False where no server answers now."""
        with self._lock:
            wanted = dict(self._subscribed)
        for uri, envelope in wanted.items():
            connection = self._server.dial()
            if connection is None:
                return False
            with RelayedRequest(connection) as exchange:
                exchange.send(envelope.body, session.headers())
                answer = exchange.read_answer()
                exchange.read_body()
            if answer.status == 404:  # the state folder was made anew
                self._handshake.renew(session)
                return False
            params = {"uri": uri}
            message = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}
            self._host.write(json.dumps(message).encode())
        return True
