"""A command that writes in steps, what it writes, and blows to the server and the keeper while it is
followed.
"""

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path

from outlive.client import Cursor, Gap, Output
from tests.support.server import OutliveServer

EXIT_CODE = 11
_LINES = 20_000  # of a step and a stream: more than a pipe and both socket buffers hold
# Three times the server, then both halves of the keeper at once.
BLOWS = ("server", "server", "server", "keeper")


@dataclass(frozen=True, slots=True)
class Steps:
    """A command that writes numbered lines on both streams, one step more each time it is allowed to."""

    folder: Path
    count: int = len(BLOWS) + 1

    @property
    def command(self) -> str:
        """The shell command."""
        wait = f"until [ -e '{self.folder}'/step$n ]; do sleep 0.02; done"
        numbers = f"$((n * {_LINES})) $((n * {_LINES} + {_LINES} - 1))"
        write = f"seq -f 'e%.0f' {numbers} >&2 & seq {numbers}; wait"
        return f"for n in $(seq 0 {self.count - 1}); do {wait}; {write}; done; exit {EXIT_CODE}"

    def allow(self, step: int) -> None:
        """Let it write one step more, server or no server."""
        (self.folder / f"step{step}").touch()

    def written(self, stream: str, *, steps: int | None = None) -> bytes:
        """Return what it has written to a stream after so many steps, or at the end."""
        mark = b"e" if stream == "stderr" else b""
        last = _LINES * (self.count if steps is None else steps)
        return b"".join(b"%b%d\n" % (mark, number) for number in range(last))


@dataclass(slots=True)
class Ledger:
    """What a follow gave out, held against its own cursors item by item."""

    received: dict[str, bytearray] = field(
        default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()}
    )

    def enter(self, item: Output | Gap) -> None:
        """Take an item; its cursor must be exactly behind everything so far."""
        assert isinstance(item, Output), f"nothing was released here: {item}"
        self.received[item.stream] += item.data
        assert item.cursor == self.cursor

    @property
    def cursor(self) -> Cursor:
        """The position behind everything that was given out."""
        return Cursor(len(self.received["stdout"]), len(self.received["stderr"]))

    def has_steps(self, steps: Steps, count: int) -> bool:
        """Tell whether everything of so many steps has come."""
        return self.cursor == Cursor(*(len(steps.written(name, steps=count)) for name in self.received))

    def check(self, steps: Steps) -> None:
        """Hold it against what the command has written."""
        for stream, received in self.received.items():
            assert bytes(received) == steps.written(stream)


def strike(server: OutliveServer, blow: str, steps: Steps, step: int) -> None:
    """Kill; let the command write on while nobody serves it; serve again (blocks)."""
    if blow == "server":
        server.kill()
        steps.allow(step)
        server.start()
        return
    status = server.keeper_status()
    for pid in (status.guardian_pid, status.supervisor_pid):
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    steps.allow(step)
