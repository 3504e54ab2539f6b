"""What really goes over the wire: calls at each door over sockets of the test's own, and the members that
came back.

A member is its path, like `sandbox.profile` or `chunks.data`; items of an array count as one. Below
`NAMED_BY_CALLERS` names are the caller's own (`tags`, variables) or those of a shape that is told elsewhere.
"""

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMED_BY_CALLERS = frozenset({"tags", "env", "details", "structuredContent"})
_PATIENCE_S = 60.0


def members(value: object, path: str = "") -> Iterator[str]:
    """Yield the path of every member of an answer."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            here = f"{path}.{name}" if path else str(name)
            yield here
            if name not in NAMED_BY_CALLERS:
                yield from members(one, here)
    elif isinstance(value, list):
        for one in value:
            yield from members(one, path)


class Wire:
    """A JSON-RPC connection that keeps the results by method and the notifications by name."""

    def __init__(self, socket: ClientConnection) -> None:
        self.results: dict[str, set[str]] = {}
        self.notified: dict[str, set[str]] = {}
        self.errors: set[str] = set()
        self._socket = socket
        self._messages: list[dict[str, Any]] = []
        self._number = 0

    @classmethod
    @contextlib.contextmanager
    def dialled(cls, url: str) -> Iterator["Wire"]:
        """Connect while the block runs."""
        with connect(url, compression=None, proxy=None, max_size=None, open_timeout=_PATIENCE_S) as socket:
            yield cls(socket)

    def call(self, method: str, **params: object) -> Any:  # noqa: ANN401 -- JSON
        """Make a call; return its result, or its error's object where it is refused."""
        self._number += 1
        asked = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._socket.send(json.dumps(asked))
        answer = self._until(lambda message: message.get("id") == self._number)
        if "error" in answer:
            self.errors |= set(members(answer["error"]))
            return answer["error"]
        self.results.setdefault(method, set()).update(members(answer["result"]))
        return answer["result"]

    def until(self, method: str, **params: object) -> None:
        """Read until a notification has come with these params, which may be long ago."""

        def is_it(message: dict[str, Any]) -> bool:
            return message.get("method") == method and params.items() <= message["params"].items()

        if not any(map(is_it, self._messages)):
            self._until(is_it)

    def _until(self, is_it: Any) -> dict[str, Any]:  # noqa: ANN401 -- a predicate
        by = time.monotonic() + _PATIENCE_S
        while True:
            frame = self._socket.recv(timeout=max(0.0, by - time.monotonic()))
            message: dict[str, Any] = json.loads(
                frame.partition(b"\n")[0] if isinstance(frame, bytes) else frame
            )
            self._messages.append(message)
            if "method" in message:
                self.notified.setdefault(message["method"], set()).update(members(message["params"]))
            if is_it(message):
                return message
