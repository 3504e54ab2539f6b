"""A small JSON-RPC client for tests: sends what it is told, keeps everything it received in wire order.

One task reads at a time; there is no background task, so a test that does not read is a client that does not
read. Every wait is bounded by `patience_s`.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket

Message = dict[str, Any]

PATIENCE_S = 60.0


class RpcFailure(Exception):
    """The server answered a request with an error."""

    def __init__(self, error: Message) -> None:
        super().__init__(json.dumps(error))
        self.error = error

    @property
    def code(self) -> int:
        """The JSON-RPC error number."""
        return int(self.error["code"])

    @property
    def reason(self) -> str:
        """The stable slug."""
        return str(self.error["data"]["reason"])

    @property
    def hint(self) -> str:
        """What the server advises."""
        return str(self.error["data"]["hint"])


@dataclass(frozen=True, slots=True)
class Run:
    """One command from its response to its process.completed: every message about it, in wire order."""

    result: Message
    messages: list[Message]

    @property
    def process_id(self) -> str:
        """The permanent id."""
        return str(self.result["process_id"])

    @property
    def completed(self) -> Message:
        """The params of the process.completed notification."""
        return next(_params(m) for m in self.messages if m.get("method") == "process.completed")

    @property
    def exit_code(self) -> int | None:
        """The exit code as the wire shows it."""
        code = self.completed["exit_code"]
        return None if code is None else int(code)

    @property
    def lines(self) -> list[str]:
        """The data of every stdout notification."""
        return [p["data"] for p in outputs(self.messages, self.process_id, "stdout")]

    @property
    def stdout(self) -> str:
        """All of stdout as text."""
        return "".join(self.lines)

    @property
    def stderr(self) -> str:
        """All of stderr as text."""
        return output_text(self.messages, self.process_id, "stderr")


def _params(message: Message) -> Message:
    params = message["params"]
    assert isinstance(params, dict)
    return params


def outputs(messages: list[Message], process_id: str, stream: str | None = None) -> list[Message]:
    """Return the params of a process's output notifications, of one stream or of both."""
    return [
        params
        for message in messages
        if message.get("method") == "process.output"
        and (params := _params(message))["process_id"] == process_id
        and stream in (None, params["type"])
    ]


def output_text(messages: list[Message], process_id: str, stream: str = "stdout") -> str:
    """Return the text of one stream."""
    return "".join(str(params["data"]) for params in outputs(messages, process_id, stream))


def output_bytes(messages: list[Message], process_id: str, stream: str = "stdout") -> bytes:
    """Return the bytes of one stream that was valid UTF-8 (or came as binary frames)."""
    pieces = (params["data"] for params in outputs(messages, process_id, stream))
    return b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)


def records(listing: Iterable[Message]) -> dict[str, Message]:
    """Return process_id -> entry of a `processes` array."""
    return {entry["process_id"]: entry for entry in listing}


@dataclass(slots=True)
class Connection:
    """A connection after its `connected` message: requests, responses, notifications.

    `messages` holds everything received in wire order (frames of a batch answer as one list under "batch"),
    `cursors` the position behind the last output of each process, as a client composes it (promise S0.20).
    """

    socket: ClientConnection
    hello: Message = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    cursors: dict[str, dict[str, int]] = field(default_factory=dict)
    patience_s: float = PATIENCE_S
    _unread: list[Message] = field(default_factory=list)
    _next_id: int = 0

    @property
    def session_id(self) -> str:
        """What resumes this session on another connection."""
        return str(self.hello["session_id"])

    def cursor(self, process_id: str) -> str:
        """Return the position behind the last output of a process that came here."""
        ends = self.cursors.get(process_id, {})
        return f"{ends.get('stdout', 0)}.{ends.get('stderr', 0)}"

    async def send(self, method: str, params: Message | None = None, *, request_id: object = None) -> object:
        """Send a request without waiting; return its id (a fresh number unless given)."""
        if request_id is None:
            self._next_id += 1
            request_id = self._next_id
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}
        await self.send_raw(json.dumps(message))
        return request_id

    async def send_raw(self, frame: str | bytes) -> None:
        """Send one frame as it is."""
        with anyio.fail_after(self.patience_s):
            await self.socket.send(frame)

    async def receive(self) -> Message:
        """Return the next message from the wire."""
        with anyio.fail_after(self.patience_s):
            frame = await self.socket.recv()
        decoded = decode_frame(frame)
        message: Message = {"batch": decoded} if isinstance(decoded, list) else decoded
        self.messages.append(message)
        if message.get("method") == "process.output":
            params = _params(message)
            self.cursors.setdefault(params["process_id"], {})[params["type"]] = params["end"]
        return message

    async def until(self, wanted: Callable[[Message], bool]) -> Message:
        """Return the first message that is wanted, taken from what was read before or from the wire."""
        for position, message in enumerate(self._unread):
            if wanted(message):
                return self._unread.pop(position)
        with anyio.fail_after(self.patience_s):  # bounds a flood of other messages as well
            while not wanted(message := await self.receive()):
                self._unread.append(message)
        return message

    async def notification(self, method: str, process_id: str | None = None) -> Message:
        """Return the params of the next notification of that name, of one process or of any."""
        return _params(
            await self.until(
                lambda message: (
                    message.get("method") == method
                    and process_id in (None, _params(message).get("process_id"))
                )
            )
        )

    async def response(self, request_id: object) -> Message:
        """Return the whole response to a request."""
        return await self.until(
            lambda message: "method" not in message and "batch" not in message and message["id"] == request_id
        )

    async def request(self, method: str, **params: object) -> Message:
        """Send a request and return its result.

        Raises:
            RpcFailure: The server answered with an error.
        """
        answer = await self.response(await self.send(method, params))
        if "error" in answer:
            raise RpcFailure(answer["error"])
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    async def failure(self, method: str, **params: object) -> RpcFailure:
        """Send a request that must be refused and return the refusal."""
        try:
            result = await self.request(method, **params)
        except RpcFailure as failure:
            return failure
        raise AssertionError(f"{method} should have been refused, but: {result}")

    def vanish(self) -> None:
        """Break the connection off without a goodbye, as a crashed client or a lost network does."""
        self.socket.transport.abort()


@dataclass(slots=True)
class RpcClient(Connection):
    """A connection that knows what a command is."""

    async def execute(self, command: object = None, **params: object) -> Message:
        """Start a command and return the result of `execute`."""
        if command is not None:
            params["command"] = command
        return await self.request("execute", **params)

    async def completed(self, process_id: str) -> Message:
        """Return the params of a process's process.completed."""
        return await self.notification("process.completed", process_id)

    async def output(self, process_id: str, text: str, *, stream: str = "stdout") -> Message:
        """Return the params of the first output notification whose data contains `text`."""
        return _params(
            await self.until(
                lambda message: (
                    message.get("method") == "process.output"
                    and _params(message)["process_id"] == process_id
                    and _params(message)["type"] == stream
                    and text in _params(message)["data"]
                )
            )
        )

    async def run(self, command: object = None, **params: object) -> Run:
        """Run a command to its end and return everything that came about it."""
        before = len(self.messages)
        return await self.finish(await self.execute(command, **params), since=before)

    async def finish(self, result: Message, *, since: int = 0) -> Run:
        """Wait for the end of a started process; keep its messages from position `since` of `messages` on."""
        process_id = str(result["process_id"])
        await self.completed(process_id)
        return Run(result=result, messages=self.about(process_id, since=since))

    def about(self, process_id: str, *, since: int = 0) -> list[Message]:
        """Return the messages about one process, its execute response included, in wire order."""
        return [
            message
            for message in self.messages[since:]
            if process_id == message.get("params", {}).get("process_id")
            or process_id == (message.get("result") or {}).get("process_id")
        ]

    async def barrier(self) -> None:
        """Wait until everything the server sent before now has arrived: ask something, read up to the
        answer.
        """
        await self.request("list")


def decode_frame(frame: str | bytes) -> Any:  # noqa: ANN401 -- an object or a batch
    """Return what one frame says."""
    if isinstance(frame, str):
        return json.loads(frame)
    return decode_output_frame(frame)


def decode_output_frame(frame: bytes) -> Message:
    """Return a binary output frame in the shape of process.output, its data as bytes."""
    head, _, data = frame.partition(b"\n")
    message = json.loads(head)
    assert isinstance(message, dict)
    _params(message)["data"] = data
    return message


@asynccontextmanager
async def connect(
    url: str,
    *,
    session_id: str | None = None,
    cursor: str | None = None,
    output: str | None = None,
    patience_s: float = PATIENCE_S,
) -> AsyncIterator[RpcClient]:
    """Open a connection, read its `connected` message, close it at the end (what still runs there is
    left).
    """
    given = (("session_id", session_id), ("cursor", cursor), ("output", output))
    query = {name: value for name, value in given if value is not None}
    address = f"{url}?{urlencode(query)}" if query else url
    async with open_websocket(
        address,
        proxy=None,  # a proxy of the environment has no business between a test and its server
        compression=None,
        max_size=None,
        ping_interval=None,  # keep-alive is the server's business (promise S0.21)
        open_timeout=patience_s,
        close_timeout=5,
    ) as socket:
        client = RpcClient(socket=socket, patience_s=patience_s)
        first = await client.receive()
        assert first.get("method") == "connected", f"the first message should be connected, was {first}"
        client.hello = _params(first)
        yield client
