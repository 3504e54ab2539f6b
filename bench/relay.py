"""A TCP relay of a thread of its own, before a server that is to fall silent without ending a connection."""

import select
import socket
import threading
from types import TracebackType
from typing import Self

_READ_BYTES = 1 << 16


class Relay:
    """Passes everything on until `silence`; from then on nothing, and no connection ends."""

    def __init__(self, target_port: int) -> None:
        """Relay to a port of this machine; `port` is where it listens."""
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._other: dict[socket.socket, socket.socket] = {}
        self._is_silent = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything."""
        self._is_over = True
        self._thread.join()
        for one in (self._listener, *self._other):
            one.close()

    def silence(self) -> None:
        """Pass nothing on any more, as a machine does whose cable was pulled."""
        self._is_silent = True

    def _run(self) -> None:
        while not self._is_over:
            watched = [] if self._is_silent else [self._listener, *self._other]
            for ready in select.select(watched, [], [], 0.05)[0]:
                if ready is self._listener:
                    near, _ = self._listener.accept()
                    far = socket.create_connection(self._target)
                    self._other |= {near: far, far: near}
                elif ready in self._other:
                    self._pass_on(ready)

    def _pass_on(self, ready: socket.socket) -> None:
        try:
            data = ready.recv(_READ_BYTES)
            if data:
                self._other[ready].sendall(data)
                return
        except OSError:
            pass
        other = self._other.pop(ready)
        self._other.pop(other, None)
        ready.close()
        other.close()
