"""A host's side of MCP over stdio: one server process, calls with a patience, and what it takes to start it
anew.
"""

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.agents.conversation import Reply, ToolUse

_REVISION = "2025-11-25"
_HANDSHAKE_S = 60.0  # a server in Node on a full machine has taken 20 s
# What the TypeScript SDK says in the cancel of a call that took too long (protocol.ts, `_requestWithSchema`).
_GAVE_UP = "McpError: MCP error -32001: Request timed out"


class ServerGone(Exception):
    """The server has ended, or said nothing to the handshake; the message is the end of its stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProfile:
    """How a host calls: the name it gives, whether it asks for progress, and when it gives up.

    Attributes:
        name: Its `clientInfo.name`.
        has_progress: Whether calls carry a progressToken.
        limit_s: Seconds until it gives up on a call.
        is_renewed: Whether progress starts that clock anew.
    """

    name: str
    has_progress: bool
    limit_s: float
    is_renewed: bool


class StdioServer:
    """An MCP server that runs as a child, as hosts run it; not for several threads."""

    def __init__(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], host: HostProfile, stderr: Path
    ) -> None:
        """Start it and shake hands; `stderr` is the file that its stderr goes to.

        Raises:
            ServerGone: It ended, or did not answer.
        """
        self._host = host
        self._id = 0
        self._heard: queue.SimpleQueue[dict[str, object] | None] = queue.SimpleQueue()
        self._stderr_path = stderr
        with stderr.open("ab") as errors:
            self.process = subprocess.Popen(
                words, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            info = {"name": host.name, "version": "1.0.0"}
            self._ask("initialize", protocolVersion=_REVISION, capabilities={}, clientInfo=info)
            self._tell("notifications/initialized")
        except ServerGone:
            self.close()
            raise

    def tools(self) -> list[Mapping[str, object]]:
        """Return the tools that it offers."""
        tools = self._ask("tools/list")["tools"]
        assert isinstance(tools, list)
        return tools

    def call(self, uses: Sequence[ToolUse]) -> list[Reply]:
        """Make calls side by side and return their answers in the same order (blocks).

        A call that outlasts the host's patience is cancelled, and answered by the sentence that the host
        would show.
        """
        began = time.monotonic()
        waiting = {self._request(use): place for place, use in enumerate(uses)}
        replies: dict[int, Reply] = {}
        deadline = began + self._host.limit_s
        while waiting:
            message = self._next(deadline)
            if message is not None and message.get("method") == "notifications/progress":
                if self._host.is_renewed:
                    deadline = time.monotonic() + self._host.limit_s
                continue
            seconds = time.monotonic() - began
            if message is None:
                for request_id, place in waiting.items():
                    self._tell("notifications/cancelled", requestId=request_id, reason=_GAVE_UP)
                    text = f"MCP error -32001: Request timed out after {self._host.limit_s:g} s"
                    replies[place] = Reply(text=text, is_error=True, is_given_up=True, seconds=seconds)
                break
            place_of = message.get("id")
            if place_of in waiting and "method" not in message:
                replies[waiting.pop(place_of)] = _reply_of(message, seconds)
        return [replies[place] for place in range(len(uses))]

    def kill(self) -> None:
        """End it at once, as a host that crashes."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        """Close its stdin, as a host that ends; kill it when it stays."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # What it has started may hold the pipe: the thread is not waited for.
        self._reader.join(0.2)

    def _request(self, use: ToolUse) -> int:
        self._id += 1
        meta = {"_meta": {"progressToken": self._id}} if self._host.has_progress else {}
        params = {"name": use.tool, "arguments": use.arguments, **meta}
        self._send({"jsonrpc": "2.0", "id": self._id, "method": "tools/call", "params": params})
        return self._id

    def _ask(self, method: str, **params: object) -> dict[str, object]:
        self._id += 1
        self._send({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        deadline = time.monotonic() + _HANDSHAKE_S
        while message := self._next(deadline):
            if message.get("id") == self._id and "method" not in message:
                result = message.get("result")
                if not isinstance(result, dict):
                    raise ServerGone(str(message))
                return result
        raise ServerGone(f"no answer to {method}: {self._last_words()}")

    def _tell(self, method: str, **params: object) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: Mapping[str, object]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise ServerGone(self._last_words()) from None

    def _next(self, deadline: float) -> dict[str, object] | None:
        """Return its next message; None when there is none before the deadline."""
        try:
            message = self._heard.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None
        if message is None:
            raise ServerGone(self._last_words())
        return message

    def _read(self) -> None:
        assert self.process.stdout is not None
        # Closed here, because only the reader knows when nothing holds the pipe any more.
        with self.process.stdout:
            for line in self.process.stdout:
                # Some servers log to stdout; hosts pass over what is no message.
                with contextlib.suppress(json.JSONDecodeError):
                    message = json.loads(line)
                    if isinstance(message, dict):
                        self._heard.put(message)
        self._heard.put(None)

    def _last_words(self) -> str:
        return self._stderr_path.read_text(errors="replace")[-600:]


def _reply_of(message: Mapping[str, object], seconds: float) -> Reply:
    error, result = message.get("error"), message.get("result")
    if isinstance(error, dict):
        return Reply(
            text=f"MCP error {error.get('code')}: {error.get('message')}", is_error=True, seconds=seconds
        )
    assert isinstance(result, dict)
    blocks = [block for block in result.get("content", []) if isinstance(block, dict)]
    text = "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
    return Reply(text=text, is_error=bool(result.get("isError")), seconds=seconds)
