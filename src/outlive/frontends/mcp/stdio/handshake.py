"""The MCP session that the host's `initialize` began: kept for later requests, begun anew when it is unknown."""

import json
import threading

from outlive.discovery.server import Server
from outlive.frontends.mcp.stdio.exchange import RelayedAnswer, RelayedRequest
from outlive.frontends.mcp.stdio.messages import Envelope, RelaySession


class Handshake:
    """The session of this relay. Safe to use from any thread.

    Attributes:
        session: The one to name now; None before `initialize`, and for revisions that have none.
    """

    def __init__(self, server: Server) -> None:
        """Nothing is begun yet."""
        self.session: RelaySession | None = None
        self._server = server
        self._initialize: Envelope | None = None
        self._renewing = threading.Lock()

    def keep(self, envelope: Envelope, answer: RelayedAnswer, body: bytes) -> None:
        """Keep what an `initialize` and the answer to it settled; an answer that begins no session is skipped."""
        session_id = answer.headers.get("mcp-session-id")
        if session_id is not None:
            self.session = RelaySession(session_id, json.loads(body)["result"]["protocolVersion"])
            self._initialize = envelope

    def renew(self, unknown: RelaySession) -> None:
        """Begin another session for one that the server does not know: its state folder was made anew.

        Does nothing when another thread has done it. Raises OSError and OutliveError as `Server.connect` does.
        """
        with self._renewing:
            if self.session is not unknown or self._initialize is None:
                return
            with RelayedRequest(self._server.connect()) as exchange:
                exchange.post(self._initialize.body, [])
                answer = exchange.read_answer()
                if answer.status == 200 and not answer.is_stream:
                    self.keep(self._initialize, answer, exchange.read_body())
