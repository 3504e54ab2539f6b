"""A server that has joined another one as a node through a proxy: what `Pair` is for a node that is
dialled.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import websockets
from websockets.sync.client import ClientConnection, connect

from outlive.client import Client
from tests.extensions.fleet.pairs import PROXY_HOST, Proxy, node_state, wait_until
from tests.support.server import OutliveServer, run_outlive


def invited(near: OutliveServer, name: str = "far", **labels: str) -> str:
    """Return the code of a new invitation."""
    with Client(near.state_dir, start_server=False) as client:
        return str(client.fleet.invite(name, labels=labels)["invitation"]["code"])


def join(far: OutliveServer, url: str, code: str, *words: str) -> None:
    """Have a server join, as a person does it."""
    file = far.state_dir.with_name("code")
    file.write_text(f"{code}\n")
    answer = run_outlive("node", "join", url, "--token-file", str(file), *words, state_dir=far.state_dir)
    assert answer.returncode == 0, answer.stderr


def kept_by(far: OutliveServer) -> dict[str, Any]:
    """Return what a node has kept of the one server that it has joined."""
    (file,) = (far.state_dir / "gateways").glob("*.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


class Machine:
    """What shows a code or a credential as a node does, and answers as the test says."""

    def __init__(self, near: OutliveServer, secret: str, *, instance: str = "test") -> None:
        """Dial in; raises `websockets.InvalidStatus` where it is not let in."""
        self.socket: ClientConnection = connect(
            f"ws://127.0.0.1:{near.port}/node",
            additional_headers={"Authorization": f"Bearer {secret}", "Outlive-Instance": instance},
            proxy=None,
            legacy=True,
        )

    def hear(self) -> dict[str, Any]:
        """Return the next message."""
        found: dict[str, Any] = json.loads(self.socket.recv(timeout=10))
        return found

    def say(self, kind: str, **members: object) -> None:
        """Say something."""
        self.socket.send(json.dumps({"type": kind, **members}))

    def enter(self) -> str:
        """Do what a node does that is let in; return its new credential."""
        message = self.hear()
        assert message["type"] == "welcome", message
        self.say("kept")
        return str(message["credential"])

    def is_ended(self) -> bool:
        """Return whether the other side ends the connection (waits for what comes)."""
        with contextlib.suppress(websockets.ConnectionClosed):
            self.socket.recv(timeout=10)
            return False
        return True

    def close(self) -> None:
        """End the connection."""
        self.socket.close()


def refusal_of(near: OutliveServer, secret: str) -> int:
    """Return the status with which a secret is refused; 0 where it is taken."""
    try:
        Machine(near, secret).close()
    except websockets.InvalidStatus as error:
        return error.response.status_code
    return 0


class JoinedPair:
    """A near server, and a far one that has joined it over a proxy as its node "far"."""

    def __init__(self, folder: Path, *words: str) -> None:
        """Describe them; nothing is started. `words` go to `outlive node join`."""
        self.near = OutliveServer(folder / "near", args=("--public-name", PROXY_HOST))
        self.far = OutliveServer(folder / "far")
        self._words = words
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Start both, and wait until the node is there."""
        try:
            self._stack.enter_context(self.near)
            self.proxy = self._stack.enter_context(Proxy(self.near.port))
            self._stack.enter_context(self.far)
            join(self.far, f"ws://{PROXY_HOST}:{self.proxy.port}", invited(self.near), *self._words)
            self.connected()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _place: TracebackType | None
    ) -> None:
        """Stop all."""
        self._stack.close()

    def connected(self) -> None:
        """Wait until the node is there."""
        wait_until(lambda: node_state(self.near)["state"] == "connected", patience_s=60)

    def away(self) -> None:
        """Wait until the node is known to be away."""
        wait_until(lambda: node_state(self.near)["state"] == "away")

    @contextlib.contextmanager
    def client(self) -> Iterator[Client]:
        """Return a client of the near server."""
        with Client(self.near.state_dir, start_server=False) as client:
            yield client
