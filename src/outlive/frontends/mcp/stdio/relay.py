"""The relay between a host's lines and the server's MCP endpoint: `Relay`.

Its parts are the session that the host's `initialize` began (`Handshake`), where the host works
(`HostProject`), what the server tells of its own accord (`ResourceUpdates`), and the host's `Pipes`.

One thread for each message: requests run side by side, and streamed messages are passed on as they come. The
relay decides which requests are sent again when the server dies; what messages mean is known to the server
alone.
"""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from outlive.core.documents import decode_json
from outlive.core.errors import OutliveError
from outlive.core.hints import hint_for
from outlive.core.values import dataclass, field
from outlive.discovery.server import Server
from outlive.frontends.mcp.stdio.messages import (
    Envelope,
    Malformed,
    RelayedAnswer,
    RelayedRequest,
    RelaySession,
    ask,
    encode_empty_result,
    encode_error,
    is_answer,
    read_envelope,
)
from outlive.protocols.mcp.messages import PROJECT_HEADER, Code, McpError, MessageId


class Pipes:
    """The host's two pipes, which the rest of this process can no longer reach.

    Writing is safe from any thread; a host that does not read makes writers wait. Once it has closed its end,
    messages are dropped silently.
    """

    def __init__(self) -> None:
        while (nothing := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:
            pass  # the host has closed 0, 1 or 2: it is filled, so that no file opened later takes its place
        self._reader = os.dup(0)
        self._writer = os.dup(1)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        for descriptor in (self._reader, self._writer):
            os.set_blocking(descriptor, True)
        self._lock = threading.Lock()
        self._is_open = True

    def lines(self) -> Iterator[bytes]:
        """Yield the host's lines, of any length, until it closes its end; blank ones are skipped."""
        with open(self._reader, "rb", closefd=False) as file:
            for line in file:
                if line.strip():
                    yield line

    def write(self, message: bytes) -> None:
        """Write one message on a line of its own; returns when the pipe has all of it."""
        # JSON has line breaks between tokens only, where a blank means the same (RFC 8259, section 2).
        left = memoryview(message.strip().replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
        with self._lock:
            try:
                while self._is_open and left:
                    left = left[os.write(self._writer, left) :]
            except OSError:
                self._is_open = False


# Hosts give their servers two seconds to end (the official SDKs), of which requests in flight may have had
# 1.5.
_END_S = 0.4


class HostProject:
    """Where the host works, as the server knows it. Safe to use from any thread.

    The server keeps it in memory only, under a name that every request shows; a server that was started anew
    gets it again.
    """

    def __init__(self, server: Server, content: bytes) -> None:
        """Take what the server is sent (`tools.calls.Project` as JSON)."""
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
        answer, body = ask(self._server.connect(), self._content, [], method="PUT")
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
        with contextlib.suppress(OSError, ValueError):
            ask(connection, b"", session.headers(), method="DELETE")

    def renew(self, unknown: RelaySession) -> None:
        """Begin another session for one that the server does not know, because its state folder was made
        anew.

        Does nothing when another thread has done it. Raises OSError and OutliveError as `Server.connect`
        does.
        """
        with self._renewing:
            if self.session is not unknown or self._initialize is None:
                return
            shown = self._project.headers()
            answer, body = ask(self._server.connect(), self._initialize.body, shown)
            if answer.status == 200 and not answer.is_stream:
                self.keep(self._initialize, answer, body)


_PAUSE_S = 1.0  # between two looks for a server: a restart takes about as long


class ResourceUpdates:
    """Passes notifications on from the first subscription to the host's end. Safe to use from any thread."""

    def __init__(self, server: Server, handshake: Handshake, host: Pipes) -> None:
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
            answer, _ = ask(connection, envelope.body, session.headers())
            if answer.status == 404:  # the state folder was made anew
                self._handshake.renew(session)
                return False
            params = {"uri": uri}
            message = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}
            self._host.write(json.dumps(message).encode())
        return True


_SERVER_ERROR = -32000  # JSON-RPC 2.0, section 5.1: for the implementation to define
_MAX_IN_FLIGHT = 512  # a thread each
_SENT_S = 30.0  # how long a cancel waits until its request was sent: longer than a start of the server
# After the end of stdin: hosts kill after 2 s, and a script that pipes requests in wants the answers.
_LAST_ANSWERS_S = 1.5
# A cancel that overtakes its request inside a server that is still starting finds no request. So it is
# repeated, which is harmless.
_CANCEL_PAUSES_S = (0.5, 1.0, 2.0, 4.0)
_LOST = (
    "The server went away while this request was in flight: whether it ran is not known. What it has "
    "started lives on; list the processes before you repeat it."
)


@dataclass(slots=True, eq=False)
class _Call:
    """A request in flight. `sent` and `done` are set once, whatever happens."""

    envelope: Envelope
    sent: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    is_abandoned: bool = False
    is_cancelled: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _exchange: RelayedRequest | None = None

    @property
    def is_waited_for(self) -> bool:
        """Whether the host still wants an answer: not to what it has cancelled."""
        return not (self.is_abandoned or self.is_cancelled)

    def begin(self, exchange: RelayedRequest) -> bool:
        """Record the connection that serves it; False when it was abandoned before."""
        with self._lock:
            self._exchange = exchange
            return not self.is_abandoned

    def abandon(self) -> None:
        """Close the response stream: in revision 2026-07-28 that is a cancel, and the host waits for no
        answer.
        """
        with self._lock:
            self.is_abandoned = True
            exchange = self._exchange
        if exchange is not None:
            exchange.abandon()


class Relay:
    """Passes messages on until the host's lines end. `host` takes messages from any thread."""

    def __init__(self, server: Server, project: bytes, host: Pipes, *, say: Callable[[str], None]) -> None:
        """Take the server, what it is told of the host's project, and the way to the host; `say` prints a
        line for people.
        """
        self._server = server
        self._host = host
        self._say = say
        self._lock = threading.Lock()
        self._calls: dict[str, _Call] = {}
        self._project = HostProject(server, project)
        self._handshake = Handshake(server, self._project)
        self._updates = ResourceUpdates(server, self._handshake, host)

    def run(self, lines: Iterable[bytes]) -> None:
        """Relay until `lines` end, then give requests in flight 1.5 s for their answers, and end the session.

        Ends no command.
        """
        for line in lines:
            self._take(line)
        deadline = time.monotonic() + _LAST_ANSWERS_S
        for call in self._in_flight():
            call.done.wait(max(0.0, deadline - time.monotonic()))
        self._handshake.end()

    def _take(self, line: bytes) -> None:
        envelope = read_envelope(line)
        if isinstance(envelope, Malformed):
            self._host.write(envelope.answer)
            return
        if envelope.message.kind != "request":
            _in_thread(lambda: self._notify(envelope))
            return
        call = _Call(envelope)
        with self._lock:
            is_too_many = len(self._calls) >= _MAX_IN_FLIGHT
            if not is_too_many:
                self._calls[str(envelope.message.request_id)] = call
        if is_too_many:
            self._refuse(envelope, f"More than {_MAX_IN_FLIGHT} requests are in flight: wait for answers.")
        elif envelope.message.method == "initialize":
            self._serve(call)  # not in a thread: all later messages need its session
        else:
            _in_thread(lambda: self._serve(call))

    def _in_flight(self, request_id: MessageId | None = None) -> list[_Call]:
        with self._lock:
            if request_id is None:
                return list(self._calls.values())
            found = self._calls.get(str(request_id))
        return [] if found is None else [found]

    def _serve(self, call: _Call) -> None:
        """Answer one request in every case: a host would wait for ever for a missing answer."""
        try:
            if not self._exchange(call) and call.is_waited_for:
                self._refuse(call.envelope, _LOST)
        except OutliveError as error:
            # The relay itself lives: after a failed ping hosts would end it and start another one.
            if call.envelope.message.method == "ping":
                self._host.write(encode_empty_result(call.envelope.message.request_id))
                return
            self._say(f"outlive: {error.message}")
            self._refuse(call.envelope, f"{error.message} {hint_for(error, 'mcp')}".strip())
        except Exception as error:  # noqa: BLE001 -- the outermost frame of a thread; the host must get an answer
            self._say(f"outlive: a request failed: {error!r}")
            self._refuse(call.envelope, "Something went wrong in the relay.", code=Code.INTERNAL_ERROR)
        finally:
            with self._lock:
                if self._calls.get(str(call.envelope.message.request_id)) is call:
                    del self._calls[str(call.envelope.message.request_id)]
            call.sent.set()
            call.done.set()

    def _refuse(self, envelope: Envelope, message: str, *, code: int = _SERVER_ERROR) -> None:
        self._host.write(encode_error(McpError(code, message, request_id=envelope.message.request_id)))

    def _exchange(self, call: _Call) -> bool:
        """Send a request and pass its answer on; False when it was lost, and may have been done."""
        for is_last in (False, False, False, True):
            session = self._handshake.session
            is_whole = False
            try:
                connection = self._server.connect(after_stop=self._is_start(call.envelope))
                with RelayedRequest(connection) as exchange:
                    if not call.begin(exchange):
                        return True
                    shown = self._project.headers()
                    is_whole = exchange.send(call.envelope.body, [*call.envelope.headers(session), *shown])
                    call.sent.set()
                    answer = exchange.read_answer()
                    # Precondition Failed (RFC 9110, section 15.5.13): a server that was started anew knows no
                    # project yet. It is refused before the message is read, so that sending it again cannot
                    # run a command twice.
                    if answer.status == 412:
                        is_whole = False  # as below
                        self._project.forget(shown)
                        continue
                    if answer.status == 404 and session is not None and call.envelope.revision is None:
                        is_whole = False  # the server has refused it without acting on it
                        self._handshake.renew(session)
                        continue
                    self._pass_on(call, exchange, answer)
                    return True
            except OSError as error:
                # A request that the server has not read whole cannot have taken effect (`messages`): it is
                # sent again.
                is_unread = not is_whole or isinstance(error, ConnectionResetError)
                if call.is_abandoned or not (is_unread or call.envelope.is_repeatable):
                    return False
                if is_last:
                    self._refuse(call.envelope, f"The server cannot be reached: {error}.")
                    return True
        self._refuse(call.envelope, "The server does not know the MCP session any more: initialize again.")
        return True

    def _is_start(self, envelope: Envelope) -> bool:
        """Tell whether a message may start a server that its operator has stopped: a call, or the host's
        first `initialize`.
        """
        return envelope.message.method == "tools/call" or (
            envelope.message.method == "initialize" and self._handshake.session is None
        )

    def _pass_on(self, call: _Call, exchange: RelayedRequest, answer: RelayedAnswer) -> None:
        """Pass an answer to the host: a stream message by message, anything else as one line."""
        if answer.is_stream:
            is_answered = False
            for message in exchange.read_messages():
                is_answered = is_answered or is_answer(message)
                self._host.write(message)
            if not is_answered and call.is_waited_for:
                self._refuse(call.envelope, "The server ended the stream without an answer.")
            return
        body = exchange.read_body()
        if answer.status == 200:
            if call.envelope.message.method == "initialize":
                self._handshake.keep(call.envelope, answer, body)
            self._host.write(body)
            self._updates.heed(call.envelope, body)
        else:
            self._host.write(_refusal(call.envelope, answer.status, body))

    def _notify(self, envelope: Envelope) -> None:
        """Pass on a message without an answer; a failure is only printed for people."""
        try:
            if envelope.message.method == "notifications/cancelled":
                self._cancel(envelope)
            # Before the handshake no notification concerns the server.
            elif self._handshake.session is not None:
                self._post(envelope)
        except (OSError, OutliveError) as error:
            self._say(f"outlive: {envelope.message.method or 'a response'} was not passed on: {error}")

    def _post(self, envelope: Envelope) -> None:
        connection = self._server.connect()  # first: another thread may renew the session meanwhile
        shown = [*envelope.headers(self._handshake.session), *self._project.headers()]
        answer, _ = ask(connection, envelope.body, shown)
        if answer.status >= 400:
            self._say(
                f"outlive: {envelope.message.method or 'a response'} was refused (HTTP {answer.status})"
            )

    def _cancel(self, envelope: Envelope) -> None:
        """Cancel in the way of the cancelled request's revision: by closing its stream, or by a
        notification.
        """
        calls = self._in_flight(envelope.message.cancels)
        if envelope.message.cancels is not None and calls and calls[0].envelope.revision is not None:
            calls[0].abandon()
        elif envelope.message.cancels is not None and calls:
            self._cancel_until_done(envelope, calls[0])
        elif self._handshake.session is not None:
            self._post(envelope)  # the request has its answer, but the command it has started may still run

    def _cancel_until_done(self, envelope: Envelope, call: _Call) -> None:
        """Send the cancel once its request was sent, and again until the request is over."""
        call.is_cancelled = True
        call.sent.wait(_SENT_S)
        for pause_s in _CANCEL_PAUSES_S:
            self._post(envelope)
            if call.done.wait(pause_s):
                return


def _refusal(envelope: Envelope, status: int, body: bytes) -> bytes:
    """Return the JSON-RPC error of a refused request.

    The server's own, if it sent one, under the request's id.
    """
    try:
        raw = decode_json(body)
    except ValueError:
        raw = None
    error = raw.get("error") if isinstance(raw, dict) else None
    if isinstance(error, dict) and isinstance(error.get("code"), int):
        return json.dumps({"jsonrpc": "2.0", "id": envelope.message.request_id, "error": error}).encode()
    said = raw.get("message") if isinstance(raw, dict) else None
    message = said if isinstance(said, str) else f"The server refused the request (HTTP {status})."
    return encode_error(McpError(_SERVER_ERROR, message, request_id=envelope.message.request_id))


def _in_thread(work: Callable[[], None]) -> None:
    # A daemon thread: the end of stdin ends the relay, also while threads still wait for the server.
    threading.Thread(target=work, daemon=True).start()
