"""The door without a server: an engine that does what the test says, and clients over plain ASGI messages."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import anyio
from starlette.routing import Router

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.controls import CloseOutput, Control, ResizeWindow, SignalProcess
from outlive.core.cursor import Cursor
from outlive.core.errors import ProcessNotFound
from outlive.core.events import AuditEvent
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.process import Owner, ProcessRecord
from outlive.engine import Engine, EngineSettings, OutputChunk, Process, ProcessFilter
from outlive.engine.health import DiskWatch
from outlive.engine.lookup import Lookup
from outlive.engine.processes.output_redaction import Redaction, Secrets
from outlive.engine.queries import Queries
from outlive.frontends.jsonrpc import JsonRpcFrontend
from outlive.policy.access import Access, Scope
from outlive.policy.redaction import Redactor
from outlive.server.access.guard import ACCESS
from outlive.store.registry import Registry
from tests.frontends.jsonrpc.following import WrittenProcess

SETTINGS = Settings(reconnect_grace_s=0.05)

Message = MutableMapping[str, Any]
# Spelled out here because inside the class `list` is the method.
_Processes = list[Process]
_Chunks = list[OutputChunk]


class _PlayedControls:
    """The verbs: what was asked stands in `calls`, and fails with `failure` if there is one."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.announced: list[AuditEvent] = []
        self.graces: list[float | None] = []
        self.called = asyncio.Event()
        self.failure: Exception | None = None
        self.unblock = asyncio.Event()

    def as_(self, by: Owner) -> "_PlayedControls":
        assert (by.door, by.principal) != ("", "")
        return self

    def publish(self, deed: AuditEvent) -> None:
        self.announced.append(deed)

    async def recorded(self) -> None:
        """Keep no audit log."""

    async def control(self, process: Process, operation: Control) -> None:
        words: tuple[int | str, ...] = ()
        match operation:
            case SignalProcess(signal=number, whole_tree=whole_tree, whole_group=whole_group):
                words = (number, "tree" if whole_tree else "group" if whole_group else "process")
            case CloseOutput(stream=stream):
                words = (stream,)
            case ResizeWindow(rows=rows, cols=cols):
                words = (rows, cols)
        await self._note(" ".join(map(str, (operation.verb, *words))), process)

    async def cancel(self, process: Process, *, grace_s: float | None = None, note: str = "") -> None:
        self.graces.append(grace_s)
        await self._note(f"cancel {note}".strip(), process)

    async def release(self, process: Process, *, stdout_bytes: int, stderr_bytes: int, unbound: bool) -> None:
        await self._note(f"release {stdout_bytes} {stderr_bytes} {unbound}", process)

    async def write(self, process: Process, data: bytes) -> None:
        await self._note(f"write {data!r}", process)
        if data == b"block":
            await self.unblock.wait()

    async def _note(self, call: str, process: Process) -> None:
        self.calls.append((call, process.process_id))
        self.called.set()
        self._fail()
        await asyncio.sleep(0)

    async def until_called(self, name: str) -> str:
        """Wait until something was asked for; return the process it was asked of."""
        with anyio.fail_after(5):
            while not (found := [target for call, target in self.calls if call.startswith(name)]):
                self.called.clear()
                await self.called.wait()
        return found[0]

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


class PlayedEngine(_PlayedControls):
    """Processes that do nothing by themselves; what was asked of them stands in `calls`.

    It is all of its own parts.
    """

    def __init__(self, folder: Path) -> None:
        """Keep the folders of the processes under `folder`."""
        super().__init__()
        self.disk = DiskWatch(str(folder), Registry(f"{folder}/registry.db"))
        self.settings = EngineSettings(state_dir=str(folder), environment={}, cwd="/")
        self.starts = self.controls = self.queries = self.connections = self.events = self
        self.reconciliation = self
        self.redaction = Redaction(Redactor(), Secrets())
        self.lookup = Lookup(cast("Queries", self))
        self._folder = folder
        self._written: dict[str, WrittenProcess] = {}
        self.returning: set[str] = set()

    def written(self, process_id: str) -> WrittenProcess:
        """Return the test's end of a process."""
        return self._written[process_id]

    def add(
        self,
        owner: Owner,
        *,
        detached: bool = False,
        stdin: str = "none",
        process_id: ProcessId | None = None,
    ) -> WrittenProcess:
        """Begin a process."""
        process_id = process_id or new_process_id(1000 * (1 + len(self._written)), bytes(RANDOM_BYTES))
        folder = self._folder / process_id
        folder.mkdir()
        written = WrittenProcess(
            folder, stdin=stdin, process_id=process_id, owner=owner, is_detached=detached
        )
        self._written[process_id] = written
        return written

    async def start(self, command: Command, *, owner: Owner, process_id: ProcessId | None = None) -> Process:
        self.calls.append(("start", command.text))
        self.called.set()
        self._fail()
        written = await asyncio.to_thread(  # making folders blocks
            self.add, owner, detached=command.detached, stdin=command.stdin, process_id=process_id
        )
        return written.process

    async def find(self, process_id: str) -> Process:
        self._fail()
        if process_id not in self._written:
            raise ProcessNotFound("process_not_found", "Unknown.")
        return self._written[process_id].process

    async def list(
        self,
        wanted: ProcessFilter,
        *,
        limit: int = 50,
        may_lack: bool = False,  # noqa: ARG002 -- the engine's
    ) -> list[ProcessRecord]:
        found = [one.process.record for one in self._written.values() if wanted.matches(one.process.record)]
        return sorted(found, key=lambda record: record.process_id, reverse=True)[:limit]

    def live_of(self, connection_id: str) -> _Processes:
        return [
            one.process
            for one in self._written.values()
            if one.process.connection_id == connection_id and not one.process.status.is_closed
        ]

    def running_of(self, connection_id: str) -> _Processes:
        return [process for process in self.live_of(connection_id) if not process.status.is_complete]

    def waiting(self) -> set[str]:
        return self.returning

    async def known(self) -> None:
        """Know everything."""

    async def over(self) -> None:
        """Have found everything."""

    async def wait(self, process: Process, *, until: Literal["complete", "closed"]) -> None:
        self.calls.append(("wait", until))
        woken = asyncio.Event()
        unsubscribe = process.subscribers.add(woken.set)
        try:
            while not process.status.is_complete:
                woken.clear()
                await woken.wait()
        finally:
            unsubscribe()

    async def read(self, process: Process, cursor: Cursor, limit_bytes: int, *, raw: bool = False) -> _Chunks:
        assert not raw
        return process.log.read(cursor, limit_bytes)


@dataclass
class Client:
    """One WebSocket client; `receive` gives messages in order, `closed` the close code."""

    to_server: "asyncio.Queue[Message]" = field(default_factory=asyncio.Queue)
    from_server: "asyncio.Queue[Message]" = field(default_factory=asyncio.Queue)
    hello: Message = field(default_factory=dict)
    seen: list[Message] = field(default_factory=list)
    is_gone: bool = False

    async def asgi_send(self, message: Message) -> None:
        """Take what the application sends, as a server would."""
        if self.is_gone and message["type"] == "websocket.send":
            raise OSError("the client is gone")
        await self.from_server.put(message)

    async def send(self, frame: str | bytes) -> None:
        key = "text" if isinstance(frame, str) else "bytes"
        await self.to_server.put({"type": "websocket.receive", key: frame})

    async def disconnect(self) -> None:
        self.is_gone = True
        await self.to_server.put({"type": "websocket.disconnect", "code": 1006})

    async def receive(self) -> Message:
        """Return the next message; {"close": code} for a close frame."""
        with anyio.fail_after(5):
            message = await self.from_server.get()
        told: Message = {"close": message.get("code")}
        if message["type"] != "websocket.close":
            told = json.loads(message["text"])
        self.seen.append(told)
        return told

    async def until(self, wanted: Callable[[Message], bool]) -> Message:
        while not wanted(message := await self.receive()):
            pass
        return message

    async def notification(self, method: str) -> Message:
        params = (await self.until(lambda message: message.get("method") == method))["params"]
        return cast("Message", params)

    async def ask(self, method: str, **params: object) -> Message:
        """Send a request; return its whole answer."""
        await self.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        return await self.until(lambda message: message.get("id") == 1)

    async def execute(self, **params: object) -> str:
        answer = await self.ask("execute", command="x", **params)
        return str(answer["result"]["process_id"])


class House:
    """A door on a played engine; clients come and go."""

    def __init__(self, engine: PlayedEngine, door: JsonRpcFrontend, group: asyncio.TaskGroup) -> None:
        """Serve clients in `group`."""
        self.engine = engine
        self.door = door
        self._app = Router(door.routes())
        self._group = group

    @asynccontextmanager
    async def client(
        self,
        query: str = "",
        *,
        principal: str = "me",
        allowed: Scope = Scope.RUN,
        greeted: bool = True,
    ) -> AsyncIterator[Client]:
        """Connect; the block begins after `connected` unless `greeted` is False."""
        client = Client()
        await client.to_server.put({"type": "websocket.connect"})
        scope = {
            "type": "websocket",
            "path": "/ws/mcp",
            "raw_path": b"/ws/mcp",
            "root_path": "",
            "query_string": query.encode(),
            "headers": [],
            "subprotocols": [],
            "state": {ACCESS: Access(principal=principal, scope=allowed)},
        }
        served = self._group.create_task(self._app(scope, client.to_server.get, client.asgi_send))
        with anyio.fail_after(5):
            assert (await client.from_server.get())["type"] == "websocket.accept"
        if greeted:
            client.hello = (await client.receive())["params"]
        try:
            yield client
        finally:
            await client.disconnect()
            with anyio.fail_after(5):
                await served


@asynccontextmanager
async def opened(engine: PlayedEngine, settings: Settings = SETTINGS) -> AsyncIterator[House]:
    """Open a door on `engine`."""
    async with (
        asyncio.TaskGroup() as group,
        JsonRpcFrontend(cast("Engine", engine), settings) as door,
    ):
        yield House(engine, door, group)
