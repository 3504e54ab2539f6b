"""A proxy that writes down what clients send: `RecordingProxy`, byte for byte between a client and a
server.
"""

import contextlib
import re
import socket
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_METHOD = re.compile(rb'"method":"([^"]+)"')  # JSON.stringify writes no blanks


class RecordingProxy:
    """Stands before the server at `url` while its block runs, and is there while the server is not.

    Only the Host header is changed on the way: the server knows no other name than its own.
    """

    def __init__(self, server_url: str) -> None:
        self._server = urlsplit(server_url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port: int = self._listener.getsockname()[1]
        self._sent = bytearray()
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()  # guards _sent and _sockets
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def url(self) -> str:
        """What a client connects to."""
        return f"http://127.0.0.1:{self._port}{self._server.path}"

    def methods(self) -> list[str]:
        """Return the methods of all messages that clients have sent so far, in their order."""
        with self._lock:
            return [name.decode() for name in _METHOD.findall(self._sent)]

    def __enter__(self) -> Self:
        """Begin to accept."""
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cut every connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept
        self._threads[0].join()
        with self._lock:
            for one in self._sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads[1:]:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self._server.port or 80))
            with server:
                with self._lock:
                    self._sockets |= {client, server}
                back = threading.Thread(target=_pass_on, args=(server, client))
                back.start()
                try:
                    self._record(client, server)
                finally:
                    with self._lock:
                        self._sockets -= {client, server}
                    for one in (server, client):
                        with contextlib.suppress(OSError):
                            one.shutdown(socket.SHUT_RDWR)
                    back.join()

    def _record(self, client: socket.socket, server: socket.socket) -> None:
        mine, its = f"127.0.0.1:{self._port}".encode(), self._server.netloc.encode()
        while piece := client.recv(1 << 16):
            with self._lock:
                self._sent += piece
            server.sendall(piece.replace(mine, its))


def _pass_on(server: socket.socket, client: socket.socket) -> None:
    """Hand on what the server says; its end is the client's end."""
    with contextlib.suppress(OSError):
        while piece := server.recv(1 << 16):
            client.sendall(piece)
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
