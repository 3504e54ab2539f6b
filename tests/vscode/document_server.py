"""The server of document 003, as its pseudocode has it: accepts, sends requests, reads answers by id.

Nothing of ours.
"""

import contextlib
import itertools
import json
import queue
import threading
from collections.abc import Iterator
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from tests.support.server import free_port

_PATIENCE_S = 60.0


class Caller:
    """One connected extension, seen from the server."""

    _ids = itertools.count(1)

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._answers: dict[str, queue.SimpleQueue[dict[str, Any]]] = {}
        self._guard = threading.Lock()
        self.unasked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        request = connection.request
        assert request is not None
        self.path = request.path
        self.headers = request.headers

    def send(self, text: str | bytes) -> None:
        """Send a frame as it is."""
        self._connection.send(text)

    def request(self, kind: str, data: dict[str, Any] | None = None, *, request_id: str | None = None) -> str:
        """Send a request and return its id."""
        request_id = request_id or f"req-{next(self._ids)}"
        with self._guard:
            self._answers.setdefault(request_id, queue.SimpleQueue())
        self.send(json.dumps({"type": kind, "id": request_id} | ({} if data is None else {"data": data})))
        return request_id

    def answer(self, request_id: str) -> dict[str, Any]:
        """Return the next answer to a request."""
        with self._guard:
            answers = self._answers.setdefault(request_id, queue.SimpleQueue())
        return answers.get(timeout=_PATIENCE_S)

    def ask(
        self, kind: str, data: dict[str, Any] | None = None, *, request_id: str | None = None
    ) -> dict[str, Any]:
        """Send a request and return its answer."""
        return self.answer(self.request(kind, data, request_id=request_id))

    def close(self, code: int = 1000) -> None:
        """End the connection."""
        self._connection.close(code)

    def drop(self) -> None:
        """Cut the connection without a word."""
        self._connection.socket.shutdown(2)

    def listen(self) -> None:
        """Sort what comes until the connection ends."""
        with contextlib.suppress(ConnectionClosed):
            for text in self._connection:
                message = json.loads(text)
                with self._guard:
                    answers = self._answers.get(message["id"])
                (self.unasked if answers is None else answers).put(message)


class DocumentServer:
    """The server on a port of its own; it can be stopped and started again there."""

    def __init__(self) -> None:
        """Choose the port; `start` listens."""
        self.port = free_port()
        self.url = f"ws://localhost:{self.port}"
        self._callers: queue.SimpleQueue[Caller] = queue.SimpleQueue()
        self._open: set[ServerConnection] = set()
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Listen."""
        self._server = serve(self._handle, "127.0.0.1", self.port, compression=None)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        """Cut every connection and listen no more."""
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._thread.join()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.socket.shutdown(2)
        self._server = None

    def caller(self) -> Caller:
        """Return the next extension that connects."""
        return self._callers.get(timeout=_PATIENCE_S)

    def _handle(self, connection: ServerConnection) -> None:
        self._open.add(connection)
        caller = Caller(connection)
        self._callers.put(caller)
        try:
            caller.listen()
        finally:
            self._open.discard(connection)


@contextlib.contextmanager
def document_server() -> Iterator[DocumentServer]:
    """A running server of the document."""
    server = DocumentServer()
    server.start()
    try:
        yield server
    finally:
        server.stop()
