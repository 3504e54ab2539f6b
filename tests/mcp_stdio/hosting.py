"""A host that speaks line by line to a real `outlive mcp`, and what it leaves behind."""

import contextlib
import itertools
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.processes import all_pids, end, wait_state_folder_empty
from tests.support.server import end_keeper, outlive_command

_PATIENCE_S = 60.0
_OURS = ("OUTLIVE_", "ALLOWED_COMMANDS", "MAX_SESSIONS", "MAX_BUFFER_SIZE", "MCP_", "TERMINATION_TIMEOUT")
_PORTS = ("OUTLIVE_JSONRPC_PORT", "OUTLIVE_MCP_PORT", "OUTLIVE_REST_PORT", "OUTLIVE_BRIDGE_PORT")
_REVISION = "2026-07-28"

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "host", "version": "1"},
}


def words(state_dir: Path) -> list[str]:
    """Return the command line of the relay."""
    return [*outlive_command(), "mcp", "--state-dir", str(state_dir)]


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which a server that the relay starts takes free ports."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith(_OURS)}
    return clean | dict.fromkeys(_PORTS, "0") | (extra or {})


def modern(**params: object) -> dict[str, object]:
    """Return the params of a request of 2026-07-28, with the client's `capabilities`."""
    meta: dict[str, object] = {
        "io.modelcontextprotocol/protocolVersion": _REVISION,
        "io.modelcontextprotocol/clientCapabilities": params.pop("capabilities", {}),
        "io.modelcontextprotocol/clientInfo": {"name": "host", "version": "1"},
    }
    if "token" in params:
        meta["progressToken"] = params.pop("token")
    return {**params, "_meta": meta}


class Host:
    """One relay and the pipes to it; every line it writes must be a JSON-RPC message."""

    def __init__(
        self,
        state_dir: Path,
        env: dict[str, str] | None = None,
        *,
        folder: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """Start the relay in a folder, in a process group of its own as hosts do; `options` go behind
        `mcp`.
        """
        self.process = subprocess.Popen(
            [*words(state_dir), *options],
            env=environment(env),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._heard: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._kept: list[dict[str, Any]] = []
        self._stderr: list[bytes] = []
        self._numbers = itertools.count(1)
        self._readers = [threading.Thread(target=read) for read in (self._read, self._read_stderr)]
        for reader in self._readers:
            reader.start()

    def send(self, method: str, request_id: str | int | None = None, **params: object) -> None:
        """Send a request, or a notification where there is no id."""
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            message["id"] = request_id
        self.send_line(json.dumps(message).encode())

    def respond(self, request_id: str | int, result: dict[str, object]) -> None:
        """Answer a request of the server."""
        self.send_line(json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode())

    def send_line(self, line: bytes) -> None:
        """Send a line as it is."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def call(
        self, request_id: str | int, name: str, *, token: str | None = None, **arguments: object
    ) -> None:
        """Send a tools/call of a handshake revision."""
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        self.send("tools/call", request_id, name=name, arguments=arguments, **meta)

    def next(self) -> dict[str, Any]:
        """Return the relay's next message (blocks)."""
        return self._kept.pop(0) if self._kept else self._heard.get(timeout=_PATIENCE_S)

    def answer(self, request_id: str | int | None) -> dict[str, Any]:
        """Return the answer to a request, keeping what comes before it (blocks)."""
        passed_over: list[dict[str, Any]] = []
        while True:
            message = self.next()
            if message.get("id") == request_id and "method" not in message:
                self._kept = passed_over + self._kept
                return message
            passed_over.append(message)

    def ask(self, name: str, **arguments: object) -> str:
        """Call a tool and return its text, an error's, too (blocks)."""
        request_id = f"ask {next(self._numbers)}"
        self.send("tools/call", request_id, name=name, arguments=arguments)
        return self.text(request_id)

    def text(self, request_id: str | int) -> str:
        """Return the text of a tool's answer (blocks)."""
        answer = self.answer(request_id)
        assert "result" in answer, answer
        (block,) = answer["result"]["content"]
        return str(block["text"])

    def begin(self) -> None:
        """Do the handshake."""
        self.send("initialize", 0, **INITIALIZE)
        assert "result" in self.answer(0)
        self.send("notifications/initialized")

    def leave(self) -> int:
        """Close stdin, as a host that ends; return the relay's exit code (blocks)."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(_PATIENCE_S)

    @property
    def stderr(self) -> str:
        """What the relay has said for people, complete once it has ended."""
        return b"".join(self._stderr).decode()

    def close(self) -> None:
        """End the relay if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(_PATIENCE_S)
        for reader in self._readers:
            reader.join(_PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            self._heard.put(message)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        self._stderr.extend(self.process.stderr)


@contextlib.contextmanager
def hosting(
    state_dir: Path,
    env: dict[str, str] | None = None,
    *,
    folder: Path | None = None,
    options: Sequence[str] = (),
) -> Iterator[Host]:
    """Start a host; its relay is gone afterwards, a server that it has started is not."""
    host = Host(state_dir, env, folder=folder, options=options)
    try:
        yield host
    finally:
        host.close()
    assert "Traceback" not in host.stderr, host.stderr


def server_of(state_dir: Path) -> list[int]:
    """Return the pids of the servers of a state folder."""
    found = []
    for pid in all_pids():
        with contextlib.suppress(OSError):
            parts = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"serve" in parts and os.fsencode(state_dir) in parts:
                found.append(pid)
    return found


def leave_nothing(state_dir: Path) -> None:
    """End the servers of a state folder, its keeper and its processes; assert that all are gone (blocks)."""
    for pid in server_of(state_dir):
        end(pid)
    end_keeper(state_dir)
    assert wait_state_folder_empty(state_dir) == {}
