"""What is asked of the client of a node, as protocols: `outlive.client.machines.node` fulfils them, and
`outlive.nodes` passes it in.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from outlive.core.cursor import Cursor


class NodeStats(Protocol):
    """What a process's tree looks like there (see `core.process.Observation`)."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Parents first."""

    @property
    def threads(self) -> int:
        """Of all of them."""

    @property
    def cpu_s(self) -> float:
        """Processor time."""

    @property
    def memory_bytes(self) -> int:
        """What lies in memory."""

    @property
    def ports(self) -> tuple[int, ...]:
        """TCP ports that it listens on."""

    @property
    def waiting(self) -> str | None:
        """What it waits for: "input", "password", or None."""

    @property
    def is_at_prompt(self) -> bool:
        """Whether that is its next command."""


class NodeView(Protocol):
    """What the node knows of a process at one moment (see `client.results.ProcessInfo`)."""

    @property
    def state(self) -> str:
        """One of `core.lifecycle.State`."""

    @property
    def pid(self) -> int | None:
        """The pid there."""

    @property
    def exit_code(self) -> int | None:
        """Set when it has exited."""

    @property
    def exit_signal(self) -> int | None:
        """Set when a signal has ended it."""

    @property
    def error(self) -> str | None:
        """Why it was ended, in one sentence."""

    @property
    def cause(self) -> str | None:
        """One of `core.lifecycle.Cause`, None for a natural end."""

    @property
    def is_complete(self) -> bool:
        """It has ended, and its output is whole."""

    @property
    def is_closed(self) -> bool:
        """Nothing can write to its streams any more."""

    @property
    def is_stalled(self) -> bool:
        """The disk there is full."""

    @property
    def output_lost(self) -> bool:
        """Some of what it wrote is not in the log there."""

    @property
    def descendants(self) -> int:
        """What is left of its tree besides itself."""

    @property
    def started_at(self) -> datetime | None:
        """When it was started, by the node's clock."""

    @property
    def ended_at(self) -> datetime | None:
        """When it ended, by the node's clock."""

    @property
    def stats(self) -> NodeStats | None:
        """Where it was asked for."""


class NodeItem(Protocol):
    """Bytes of one stream up to the cursor, or (without `data`) a gap."""

    @property
    def stream(self) -> str:
        """Which one: "stdout" or "stderr"."""

    @property
    def cursor(self) -> Cursor:
        """The position behind it."""


class NodePage(Protocol):
    """Some recorded output."""

    @property
    def items(self) -> Sequence[NodeItem]:
        """Oldest first."""


class NodeListener(Protocol):
    """Takes the messages of a feed, on the event loop."""

    def piece(self, process_id: str, stream: int, data: bytes, end: int) -> None:
        """Take bytes of a stream up to offset `end`."""

    def missing(self, process_id: str, stream: int, start: int, end: int) -> None:
        """Record bytes that the node does not hold any more."""

    def ended(self, process_id: str, cursor: Cursor) -> None:
        """Record that the output is whole up to `cursor`."""

    def started(self, process_id: str, pid: int | None) -> None:
        """Record that a process runs from now on."""

    def attached(self, process_id: str, info: NodeView) -> None:
        """Record that a process is followed from now on, and its state."""

    def happened(self, event: str, process_id: str | None, info: NodeView | None) -> None:
        """Record an event."""


class NodeFeed(Protocol):
    """One connection with news (see `client.machines.node.AsyncFeed`)."""

    is_raw: bool

    async def listen(self) -> None:
        """Receive what changes processes from now on, and no process's output."""

    def expect(self, process_id: str) -> Mapping[str, object]:
        """Return what a start says so that its output comes over this connection."""

    def follows(self, process_id: str) -> bool:
        """Return whether a process's output comes over this connection."""

    def leave(self, process_id: str) -> None:
        """Pass on nothing more about a process."""

    async def attach(self, process_id: str, cursor: Cursor) -> None:
        """Receive a process's output from `cursor` on, too; `NodeListener.attached` reports its state."""

    async def describe(self) -> Mapping[str, Any]:
        """Return what the node has for commands, as its `nodes` says of itself."""

    async def beat(self, *, answer_s: float) -> None:
        """Return when the node has answered something."""

    async def hear(self, listener: NodeListener) -> bool:
        """Pass on a bounded batch of news; False: something was left out, attach everything again."""

    async def close(self) -> None:
        """End the connection."""


class NodeConnection(Protocol):
    """One node (see `client.machines.node.NodeClient`)."""

    async def execute(
        self, words: Mapping[str, object], *, process_id: str, subscription: Mapping[str, object]
    ) -> Mapping[str, Any]:
        """Start a command once, however often this is asked.

        Its output goes where `NodeFeed.expect` has said.
        """

    async def request(
        self, method: str, params: Mapping[str, object], *, is_repeatable: bool = True
    ) -> Mapping[str, Any]:
        """Ask for anything else, in the wire's words."""

    async def write(self, process_id: str, data: memoryview) -> int:
        """Write the beginning of `data` to a process's input, never twice; return how many bytes that was."""

    async def files(
        self, method: str, params: Mapping[str, object], data: bytes | memoryview
    ) -> Mapping[str, Any]:
        """Ask a method about files, beside everything else.

        Bytes go along, and come back as the member `data`.
        """

    async def get(self, process_id: str, *, stats: bool = False) -> NodeView:
        """Return what is known of a process."""

    async def read(self, process_id: str, cursor: Cursor, *, raw: bool) -> NodePage:
        """Return recorded output."""

    async def feed(self) -> NodeFeed:
        """Open a connection for news."""

    async def open(self) -> None:
        """Open the connection for requests, before there is one; never raises."""

    async def reset(self) -> None:
        """Give up the connection for requests; the next one opens another."""

    async def close(self) -> None:
        """Close."""
