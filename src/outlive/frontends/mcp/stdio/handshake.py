"""What every request of a relay shows beside its message: `Handshake`, the MCP session, and `HostProject`,
where the host works.

The session that the host's `initialize` began is named in later requests, and begun anew when the server does
not know it.
"""

import contextlib
import threading
from collections.abc import Sequence

from outlive.core.documents import decode_json
from outlive.discovery.server import Server
from outlive.frontends.mcp.stdio.messages import Envelope, RelayedAnswer, RelayedRequest, RelaySession
from outlive.protocols.mcp.messages import PROJECT_HEADER

# Hosts give their servers two seconds to end (the official SDKs), of which requests in flight may have had
# 1.5.
_END_S = 0.4


class HostProject:
    """Where the host works, as the server knows it. Safe to use from any thread.

    The server keeps it in memory only, under a name that every request shows; a server that was started anew
    gets it again.
    """

    def __init__(self, server: Server, content: bytes) -> None:
        """Take what the server is sent (`http.projects.ProjectRequest` as JSON)."""
        self._server = server
        self._content = content
        self._sending = threading.Lock()
        self._name: str | None = None
        self._is_known = False

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers that show it to the server; none where that refuses to take it.

        The first caller sends it, and others wait for that.

        Raises OSError and OutliveError as `Server.dial` and the connection do, and OSError where the server
        cannot take it now; where no server runs it is sent later.
        """
        with self._sending:
            if not self._is_known:
                self._send()
            return [] if self._name is None else [(PROJECT_HEADER, self._name)]

    def forget(self, shown: Sequence[tuple[str, str]]) -> None:
        """Send it again with the next request, because the server does not know what `shown` names."""
        with self._sending:
            if (PROJECT_HEADER, self._name) in shown:
                self._is_known = False

    def _send(self) -> None:
        with RelayedRequest(self._server.connect()) as exchange:
            exchange.send(self._content, [], method="PUT")
            answer = exchange.read_answer()
            body = exchange.read_body()
        if answer.status >= 500 or answer.status == 429:  # RFC 6585, section 4: too many requests
            # Overloaded, or on its way down: another try may do. To go on would run commands in another
            # project's folder.
            raise OSError(f"it took no project (HTTP {answer.status})")
        # A caller that may start nothing is refused here (403), and its requests go on without.
        self._is_known = answer.status == 200
        self._name = decode_json(body)["project"] if self._is_known else None


class Handshake:
    """The session of this relay. Safe to use from any thread.

    Attributes:
        session: The session for the headers; None before `initialize`, and for revisions without sessions.
    """

    def __init__(self, server: Server, project: HostProject) -> None:
        self.session: RelaySession | None = None
        self._server = server
        self._project = project
        self._initialize: Envelope | None = None
        self._renewing = threading.Lock()

    def keep(self, envelope: Envelope, answer: RelayedAnswer, body: bytes) -> None:
        """Keep an `initialize` and the session of its answer; an answer without a session is skipped."""
        session_id = answer.headers.get("mcp-session-id")
        if session_id is not None:
            self.session = RelaySession(session_id, decode_json(body)["result"]["protocolVersion"])
            self._initialize = envelope

    def end(self) -> None:
        """End the session, if there is one and a server listens: the host wants nothing more.

        What fails is of no interest then.
        """
        session, connection = self.session, None
        with contextlib.suppress(OSError):
            connection = None if session is None else self._server.dial()
        if session is None or connection is None:
            return
        connection.settimeout(_END_S)
        with contextlib.suppress(OSError, ValueError), RelayedRequest(connection) as exchange:
            exchange.send(b"", session.headers(), method="DELETE")
            exchange.read_answer()

    def renew(self, unknown: RelaySession) -> None:
        """Begin another session for one that the server does not know, because its state folder was made
        anew.

        Does nothing when another thread has done it. Raises OSError and OutliveError as `Server.connect`
        does.
        """
        with self._renewing:
            if self.session is not unknown or self._initialize is None:
                return
            with RelayedRequest(self._server.connect()) as exchange:
                exchange.send(self._initialize.body, self._project.headers())
                answer = exchange.read_answer()
                if answer.status == 200 and not answer.is_stream:
                    self.keep(self._initialize, answer, exchange.read_body())
