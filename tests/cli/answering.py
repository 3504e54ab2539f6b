"""A small server of our own protocol that refuses: `AnsweringServer`.

What it is asked for the first time, and may answer, it asks a real server; that answer is given again and
again. Everything else is answered with the error of the moment, as the JSON-RPC door words it, or as a plain
HTTP request gets it.
"""

import contextlib
import json
import os
import socket
import struct
import threading
from pathlib import Path
from typing import Any, BinaryIO, Self

from websockets.sync.client import unix_connect

from outlive.core.errors import SLUGS
from outlive.core.layout import Layout
from outlive.kernel.folder_identity import claim_folder
from outlive.protocols.jsonrpc.answers import ERROR_NUMBERS
from tests.support.server import OutliveServer


class AnsweringServer:
    """Listens on a state folder of its own, whose processes and keeper are those of the real server.

    Attributes:
        slug: The error of the moment.
        refuses_all: Whether also what only looks at things is refused.
        refused: The methods that were refused since this was emptied.
    """

    def __init__(self, state_dir: Path, real: OutliveServer, *, looks: frozenset[str]) -> None:
        state_dir.mkdir(mode=0o700)
        ours, theirs = Layout(str(state_dir)), Layout(str(real.state_dir))
        claim_folder(ours)
        for name in ("processes", "keeper_socket"):
            os.symlink(getattr(theirs, name), getattr(ours, name))
        self.state_dir = state_dir
        self.slug = "internal_error"
        self.refuses_all = False
        self.refused: list[str] = []
        self._real = theirs.server_socket
        self._looks = looks
        self._known: dict[str, dict[str, Any]] = {}
        self._asking = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(ours.server_socket)
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept, name="answering", daemon=True)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        """Serve each connection in a thread, which ends with it."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # The client of this machine sends whole frames, masked by zeros, and no extensions
        # (`client.thread_runtime`).
        with connection, connection.makefile("rb") as received, contextlib.suppress(OSError, struct.error):
            head = received.readline()
            while line := received.readline().strip():
                head += line.lower()
            if b"upgrade: websocket" not in head:
                self._refuse_request(connection, head)
                return
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            _send(connection, self._asked("", {}))
            while (frame := _frame(received)) is not None:
                request = json.loads(frame.partition(b"\n")[0])
                _send(connection, {**self._answer(request), "jsonrpc": "2.0", "id": request["id"]})

    def _refuse_request(self, connection: socket.socket, head: bytes) -> None:
        """Answer an HTTP request, which is never one that only looks."""
        verb, path = head.split()[:2]
        self.refused.append(f"{verb.decode()} {path.decode()}")
        members = {"error": self.slug, "message": "It was refused.", "hint": SLUGS[self.slug][1]}
        connection.sendall(
            b"HTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n" + json.dumps(members).encode()
        )

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        method = request["method"]
        if not self.refuses_all and method in self._looks:
            return self._asked(method, request["params"])
        self.refused.append(method)
        data = {"reason": self.slug, "hint": SLUGS[self.slug][1]}
        return {"error": {"code": ERROR_NUMBERS[self.slug], "message": "It was refused.", "data": data}}

    def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return what the real server answers; without a method what it says first."""
        key = json.dumps([method, params], sort_keys=True)
        with self._asking:
            if key not in self._known:
                with unix_connect(self._real, "ws://localhost/ws/mcp", compression=None) as real:
                    found = json.loads(real.recv())
                    if method:
                        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                        real.send(json.dumps(asked))
                        while (found := json.loads(real.recv())).get("id") != 1:
                            pass
                self._known[key] = found
        return self._known[key]


def _send(connection: socket.socket, message: object) -> None:
    payload = json.dumps(message).encode()
    connection.sendall(struct.pack("!BBQ", 0x81, 127, len(payload)) + payload)


def _frame(received: BinaryIO) -> bytes | None:
    """Return the content of the next frame; None at the end, or where the client says farewell."""
    kind, size = struct.unpack("!BB", received.read(2))
    size &= 0x7F
    if size > 125:
        (size,) = struct.unpack(*(("!H", received.read(2)) if size == 126 else ("!Q", received.read(8))))
    received.read(4)
    return None if kind & 0x0F == 8 else received.read(size)
