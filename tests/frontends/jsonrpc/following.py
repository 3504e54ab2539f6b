"""A process whose output a test writes, an outbox whose client reads when the test says so."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from outlive.core.identity import ProcessId
from outlive.core.lifecycle import State
from outlive.core.process import Owner, ProcessRecord
from outlive.engine import Process
from outlive.engine.processes.output_redaction import Redaction, Secrets
from outlive.frontends.jsonrpc.readers import LineReader, PieceReader
from outlive.frontends.jsonrpc.subscriptions import Subscription
from outlive.policy.redaction import Redactor
from outlive.protocols.jsonrpc.output import FrameHeads
from outlive.protocols.keeper import Flags, Phase
from outlive.protocols.websocket_frames import split_frames
from outlive.server.sender import Sender

PROCESS_ID = ProcessId("01arz3ndektsv4rrffq69g5fav")
_OWNER = Owner(principal="p", connection_id="c")
_HEADS = FrameHeads()


class WrittenProcess:
    """A real `Process` on a folder; the test is its keeper."""

    def __init__(
        self,
        folder: Path,
        *,
        stdin: str = "none",
        stdio: str = "pipes",
        process_id: ProcessId = PROCESS_ID,
        owner: Owner = _OWNER,
        is_detached: bool = False,
        state: State = State.RUNNING,
    ) -> None:
        self._folder = folder
        self._sizes = [0, 0]
        for name in ("out", "err"):
            (folder / name).touch()
        record = ProcessRecord(
            process_id=process_id,
            command="test",
            shell=None,
            cwd="/",
            state=state,
            owner=owner,
            is_detached=is_detached,
            stdin=stdin,
            stdio=stdio,
            pid=None if state is State.QUEUED else 7,
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        # Nothing is hidden: Hypothesis takes words from our tables of secrets, and what is compared here is
        # the bytes.
        redaction = Redaction(Redactor(patterns=False), Secrets())
        self.process = Process(record, str(folder), output_limit=None, redaction=redaction)

    def write(self, data: bytes, stream: int = 0, *, told: bool = True) -> None:
        """Append to a stream and tell the process (unless the doorbell is to come later)."""
        with (self._folder / ("out", "err")[stream]).open("ab") as file:
            file.write(data)
        self._sizes[stream] += len(data)
        if told:
            self.tell(Phase.RUNNING, flags=Flags.OUT_OPEN | Flags.ERR_OPEN)

    def release(self, start: int, end: int) -> None:
        """Let go of a range of stdout: the mark first, then the hole."""
        (self._folder / "gaps").write_text(f"{start} {end} 0 0\n")
        with (self._folder / "out").open("r+b") as file:
            file.seek(start)
            file.write(bytes(end - start))

    def tell(self, phase: Phase, *, flags: int = 0, code: int = 0, pid: int = 7) -> None:
        """Pass on a doorbell and kick."""
        self.process.status.absorb(self._sizes[0], self._sizes[1], pid, code, phase, 0, flags, 0)
        self.process.subscribers.wake()

    def end(self, code: int = 0, *, is_open: bool = False) -> None:
        """Complete the process."""
        self.tell(Phase.DONE, code=code, flags=Flags.OUT_OPEN if is_open else 0)


@dataclass
class TestOutbox:
    """Keeps what was written; `is_stalled` is a client that does not read, a write larger than `room` stalls
    it.
    """

    __test__ = False  # a fake, no test class

    sent: bytes = b""
    writes: list[int] = field(default_factory=list)
    is_closed: bool = False
    room: float = float("inf")
    writable: asyncio.Event = field(default_factory=asyncio.Event)
    has_write: bool = True
    failure: Exception | None = None
    wrote: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.writable.set()

    @property
    def is_ready(self) -> bool:
        return self.has_write and self.writable.is_set() and not self.is_closed

    def write(self, frames: bytes) -> None:
        assert self.writable.is_set(), "only while the transport is writable"
        if self.failure is not None:
            raise self.failure
        self.sent += frames
        self.writes.append(len(frames))
        self.wrote.set()
        if len(frames) >= self.room:
            self.writable.clear()

    async def until(self, method: str) -> None:
        """Wait until a notification was written, at most 5 s."""
        with anyio.fail_after(5):
            while method not in self.methods:
                self.wrote.clear()
                await self.wrote.wait()

    async def wait_ready(self) -> None:
        while not self.writable.is_set():
            await self.writable.wait()

    async def send(self, frames: bytes, then: Sequence[Callable[[], None]] = ()) -> None:
        assert self.writable.is_set(), "frames are built only when they can leave"
        self.write(frames)
        for call in then:
            call()

    @property
    def messages(self) -> list[dict[str, Any]]:
        return messages_of(self.sent)

    @property
    def text(self) -> str:
        """All stdout data."""
        return "".join(
            message["params"]["data"]
            for message in self.messages
            if message["method"] == "process.output" and message["params"]["type"] == "stdout"
        )

    @property
    def methods(self) -> list[str]:
        return [message["method"].removeprefix("process.") for message in self.messages]


def messages_of(frames: bytes) -> list[dict[str, Any]]:
    """Return what frames say; of binary ones the data as bytes."""
    messages: list[dict[str, Any]] = []
    for _, payload in split_frames(frames):
        head, newline, data = payload.partition(b"\n")
        message = json.loads(head)
        if newline:
            message["params"]["data"] = data
        messages.append(message)
    return messages


@dataclass
class Tasks:
    """Where followers run their draining: counts them, so that a test can tell one from many."""

    group: asyncio.TaskGroup
    started: int = 0

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        self.started += 1
        self.group.create_task(work)


def line_readers(
    process: Process, *, max_line_bytes: int = 8192, start: tuple[int, int] = (0, 0)
) -> tuple[LineReader, LineReader]:
    """Return readers of both streams, one line one message."""
    out, err = (
        LineReader(
            process.log, _HEADS, PROCESS_ID, stream=stream, start=start[stream], max_line_bytes=max_line_bytes
        )
        for stream in (0, 1)
    )
    return out, err


def piece_readers(process: Process, *, is_binary: bool = False) -> tuple[PieceReader, PieceReader]:
    """Return readers of both streams, one read one message."""
    out, err = (
        PieceReader(process.log, PROCESS_ID, stream=stream, start=0, is_binary=is_binary) for stream in (0, 1)
    )
    return out, err


def follower(
    written: WrittenProcess,
    outbox: TestOutbox,
    tasks: Tasks,
    *,
    turn_bytes: int = 1000,
    fail: Callable[[], None] = lambda: None,
) -> Sender[Subscription]:
    """Return a follower by lines from the beginning, not begun yet."""
    process = written.process
    return Sender(
        Subscription(process, line_readers(process), turn_bytes=turn_bytes),
        outbox,
        spawn=tasks.spawn,
        fail=fail,
        shows_partial=process.has_stdin,
        reads=True,
    )
