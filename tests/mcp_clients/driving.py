"""A real TypeScript client in a program of its own (v1.mjs, v2.mjs), told step by step what to do
(`Client`).
"""

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.mcp_clients.installed import Installed
from tests.mcp_stdio.hosting import words as relay_words
from tests.support.server import OutliveServer

_PATIENCE_S = 60.0


class ClientError(Exception):
    """The client's promise was rejected; the message is what it says."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to reach the server: which client, over what, by which revision (None: the handshake ones)."""

    program: Literal["v1", "v2"]
    transport: Literal["http", "stdio"]
    revision: str | None = None

    def target(self, server: OutliveServer, url: str | None = None) -> dict[str, object]:
        """Return what the client's transport must know; `url` stands in for the server's own."""
        if self.transport == "http":
            return {"url": url or server.mcp_url, "revision": self.revision}
        command, *args = relay_words(server.state_dir)
        return {"stdio": {"command": command, "args": args}, "revision": self.revision}


WAYS = {
    "v1-http": Way("v1", "http"),
    "v1-stdio": Way("v1", "stdio"),
    "v2-http": Way("v2", "http"),
    "v2-stdio": Way("v2", "stdio"),
    "v2-http-2026": Way("v2", "http", "2026-07-28"),
    "v2-stdio-2026": Way("v2", "stdio", "2026-07-28"),
}


class Client:
    """One client program. Its methods block; `driving` ends it."""

    def __init__(self, words: list[str], stderr: Path) -> None:
        """Start the program; what it says for people goes to `stderr`."""
        with stderr.open("ab") as log:
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._heard: list[queue.SimpleQueue[dict[str, Any]]] = []  # by step
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def tell(self, do: str, **words: object) -> int:
        """Begin a step and return its number; what comes of it is heard by `progress` and `outcome`."""
        step = len(self._heard)
        self._heard.append(queue.SimpleQueue())
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"step": step, "do": do, **words}) + "\n")
        self._process.stdin.flush()
        return step

    def progress(self, step: int) -> str:
        """Return the next progress message of a call that has not ended."""
        message = self._heard[step].get(timeout=_PATIENCE_S)
        assert "progress" in message, message
        return str(message["progress"])

    def outcome(self, step: int) -> tuple[Any, list[str]]:
        """Return the result of a step, and the progress before it that nobody has taken.

        Raises:
            ClientError: The client says that it failed.
        """
        progress: list[str] = []
        while True:
            message = self._heard[step].get(timeout=_PATIENCE_S)
            if "error" in message:
                raise ClientError(message["error"])
            if "progress" not in message:
                return message.get("result"), progress
            progress.append(message["progress"])

    def do(self, do: str, **words: object) -> Any:  # noqa: ANN401 -- JSON of the client's own shape
        """Do a step and return its result."""
        return self.outcome(self.tell(do, **words))[0]

    def begin_call(self, name: str, *, hears: bool = False, **arguments: object) -> int:
        """Begin a tool call, with a progress callback where it `hears`; return its step."""
        return self.tell("call", name=name, arguments=arguments, hears=hears)

    def call(self, name: str, **arguments: object) -> dict[str, Any]:
        """Call a tool and return its result."""
        result: dict[str, Any] = self.do("call", name=name, arguments=arguments)
        return result

    def close(self) -> None:
        """End the program, as a host that quits."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE_S)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join(_PATIENCE_S)
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            self._heard[message["step"]].put(message)


@contextlib.contextmanager
def driving(installed: Installed, way: Way, folder: Path) -> Iterator[Client]:
    """Start a client that is connected to nothing yet; the program is gone afterwards."""
    stderr = folder / "client.stderr"
    client = Client(installed.program(f"{way.program}.mjs"), stderr)
    try:
        yield client
    except Exception as error:
        error.add_note(f"the client's stderr:\n{stderr.read_text()[-3000:]}")
        raise
    finally:
        client.close()


def text_of(result: dict[str, Any]) -> str:
    """Return the text of a tool's result."""
    (block,) = result["content"]
    return str(block["text"])
