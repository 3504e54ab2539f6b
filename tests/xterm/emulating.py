"""xterm.js in a program of its own (xterm.mjs): `Emulator`, one terminal on a process, and `emulators`, which
makes them.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.house.sources import ROOT
from tests.mcp_clients.driving import Client
from tests.support.server import OutliveServer
from tests.terminal_socket.viewing import address

_FOLDER = ROOT / ".xterm"
_PATIENCE_S = 60.0
OpenEmulator = Callable[..., "Emulator"]


@dataclass(frozen=True, slots=True)
class Look:
    """What a terminal shows: its rows, the colours of every cell, where the cursor is, and which of its two
    buffers.
    """

    lines: list[str]
    cells: list[str]
    place: list[int]
    buffer: str

    @property
    def text(self) -> str:
        """The rows, without blank ones at the end."""
        return "\n".join(self.lines).rstrip("\n")


class Emulator:
    """One xterm.js of 24 rows by 80 columns; every method blocks."""

    def __init__(self, program: Client, name: str, url: Callable[[int], str]) -> None:
        """Belong to a program; `url` gives the address for a number of bytes that were received already."""
        self._program = program
        self._name = name
        self._url = url

    def open(self, *, answers: bool) -> None:
        """Connect from the beginning; `answers`: what is typed, and what the emulator says by itself, is
        sent.
        """
        self._program.do("open", name=self._name, url=self._url(0), rows=24, cols=80, bidirectional=answers)

    def follow_example(self, source: str, address: str, token: str) -> None:
        """Be connected by a page's own script, which defines `attach`."""
        self._program.do("example", name=self._name, source=source, address=address, token=token)

    def cut(self) -> int:
        """Lose the connection, as a network does; return how many bytes had come."""
        self._program.do("cut", name=self._name)
        return int(self._state()["bytes"])

    def again(self) -> None:
        """Connect at the number of bytes that have come."""
        self._program.do(
            "again", name=self._name, url=self._url(int(self._state()["bytes"])), bidirectional=True
        )

    def type(self, text: str) -> None:
        """Press keys."""
        self._program.do("type", name=self._name, text=text)

    def look(self) -> Look:
        """Return what is shown now."""
        state = self._state()
        return Look(state["lines"], state["cells"], state["place"], state["buffer"])

    @property
    def bytes(self) -> int:
        """How many bytes have come."""
        return int(self._state()["bytes"])

    @property
    def closed(self) -> dict[str, Any] | None:
        """How the connection was closed."""
        found: dict[str, Any] | None = self._state()["closed"]
        return found

    def wait(self, holds: Callable[[Look], bool]) -> Look:
        """Return the screen once something holds of it."""
        deadline = time.monotonic() + _PATIENCE_S
        while not holds(look := self.look()):
            assert time.monotonic() < deadline, f"waited in vain; the screen shows:\n{look.text}"
            time.sleep(0.02)
        return look

    def wait_bytes(self, count: int) -> Look:
        """Return the screen once so many bytes have come."""
        deadline = time.monotonic() + _PATIENCE_S
        while (come := self.bytes) < count:
            assert time.monotonic() < deadline, f"{come} of {count} bytes have come"
            time.sleep(0.02)
        assert come == count
        return self.look()

    def wait_text(self, text: str) -> Look:
        """Return the screen once it shows a text."""
        return self.wait(lambda look: text in look.text)

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._program.do("look", name=self._name)
        assert state["texts"] == 0, "addon-attach would have shown a control message"
        return state


@contextlib.contextmanager
def emulators(folder: Path) -> Iterator[OpenEmulator]:
    """Yield a function (server, process_id, answers=True) that opens terminals.

    Skip where xterm.js is missing.
    """
    node = shutil.which("node")
    if node is None or not (_FOLDER / "node_modules/@xterm/headless").exists():
        reason = "xterm.js is not installed: scripts/xterm.sh, and node"
        if os.environ.get("OUTLIVE_REQUIRE_XTERM"):
            pytest.fail(reason)
        pytest.skip(reason)
    stderr = folder / "xterm.stderr"
    program = Client([node, str(Path(__file__).with_name("xterm.mjs")), str(_FOLDER)], stderr)
    count = 0

    def opened(
        server: OutliveServer, process_id: str, *, answers: bool = True, is_open: bool = True
    ) -> Emulator:
        nonlocal count
        count += 1
        one = Emulator(program, f"terminal {count}", lambda place: address(server, process_id, cursor=place))
        if is_open:
            one.open(answers=answers)
        return one

    try:
        yield opened
    except Exception as error:
        error.add_note(f"the program's stderr:\n{stderr.read_text()[-3000:]}")
        raise
    finally:
        program.close()
