"""Commands that wait for their group's turn, and the groups' limits, on disk: `WaitingRoom`.

A waiting command is one file with everything its start needs, written before anybody is told that it waits. It is
removed after the keeper has answered, so a crash between the two leaves it behind; whoever opens the room removes
files of commands that have a process folder: those were started. Blocking: run it in a thread.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from outlive.core.identity import ProcessId, is_process_id
from outlive.core.layout import Layout

__all__ = ["GroupKey", "WaitingCommand", "WaitingRoom"]

GroupKey = tuple[str, str]  # principal, name: everybody's groups are his own
_LIMITS = "limits.json"


@dataclass(frozen=True, slots=True)
class WaitingCommand:
    """What the keeper will be asked: the encoded spec and the script (empty: none)."""

    process_id: ProcessId
    spec: bytes
    script: bytes


class WaitingRoom:
    """The folder `waiting` of a state folder; one writer, the server."""

    def __init__(self, layout: Layout) -> None:
        """Make nothing yet."""
        self._layout = layout
        self._folder = layout.waiting

    def open(self) -> tuple[list[WaitingCommand], dict[GroupKey, int]]:
        """Return who waits, oldest first, and the limits; a file that is damaged is left alone and ignored."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        waiting = []
        for name in sorted(os.listdir(self._folder)):
            if not is_process_id(name):
                continue
            process_id = ProcessId(name)
            if os.path.exists(self._layout.process(process_id)):
                self.remove(process_id)
                continue
            with contextlib.suppress(OSError, ValueError):
                waiting.append(_decode(process_id, _read(f"{self._folder}/{name}")))
        return waiting, self._limits()

    def put(self, command: WaitingCommand) -> None:
        """Keep a command; raises OSError when the disk does not take it."""
        head = b"%d\n" % len(command.spec)
        _replace(f"{self._folder}/{command.process_id}", head + command.spec + command.script)

    def remove(self, process_id: ProcessId) -> None:
        """Forget a command; that it is not there is a success."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{self._folder}/{process_id}")

    def keep_limits(self, limits: Mapping[GroupKey, int]) -> None:
        """Replace the limits; raises OSError when the disk does not take them."""
        rows = [[principal, name, limit] for (principal, name), limit in sorted(limits.items())]
        _replace(f"{self._folder}/{_LIMITS}", json.dumps(rows).encode())

    def _limits(self) -> dict[GroupKey, int]:
        with contextlib.suppress(OSError, ValueError, TypeError):
            rows = json.loads(_read(f"{self._folder}/{_LIMITS}"))
            return {(str(principal), str(name)): int(limit) for principal, name, limit in rows}
        return {}


def _decode(process_id: ProcessId, raw: bytes) -> WaitingCommand:
    head, _, rest = raw.partition(b"\n")
    size = int(head)
    if size > len(rest):
        raise ValueError("the file is torn")
    return WaitingCommand(process_id, rest[:size], rest[size:])


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _replace(path: str, content: bytes) -> None:
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content)
    os.rename(path + ".new", path)
