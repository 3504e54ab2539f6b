"""Which processes a notice is owed for: `OwedNotices`, a file for each, written before the process is
started.

What is owed survives the server: the next one finds the files, and notifies of what ended meanwhile. A file
is removed when its notice was delivered, or given up. Where this server has a channel it is the engine's
`Notices`. What reads or writes a file blocks: run it in a thread.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterable

from outlive.core.command import NOTIFY_EVENTS, NotifyEvent
from outlive.core.errors import InvalidRequest, LimitExceeded
from outlive.core.identity import ProcessId, is_process_id
from outlive.core.layout import Layout
from outlive.kernel.files import read_small, write_whole
from outlive.protocols.frames import decoded

_ON_ITS_WAY_S = 60.0  # a start is given up after 25 s, and a supervisor that hangs is replaced before that


class OwedNotices:
    """The folder `notices` of a state folder; one writer, the server.

    Attributes:
        offered: The events that this server notifies of.
    """

    def __init__(self, layout: Layout, offered: frozenset[NotifyEvent]) -> None:
        """Know of none before `open`."""
        self._layout = layout
        self.offered = offered
        self._owed: dict[ProcessId, frozenset[NotifyEvent]] = {}
        self._silences: dict[ProcessId, str] = {}

    def open(self) -> None:
        """Read what earlier servers owe.

        What is owed for processes that were removed, or never started, is forgotten.

        A file that cannot be read, or holds no event, is removed as well: nothing could ever be sent for it.
        """
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._layout.notices):
                path = f"{self._layout.notices}/{name}"
                # A waiting command has no folder yet, and one that the keeper is about to start has not
                # either. Temporary names of `put` are no process ids, and are removed with the rest.
                is_known = is_process_id(name) and (
                    os.path.exists(self._layout.process(name))
                    or os.path.exists(f"{self._layout.waiting}/{name}")
                    or _is_young(path)
                )
                events, silence = _read(path) if is_known else (frozenset(), "")
                if events:
                    self._owed[ProcessId(name)] = events
                    if silence:
                        self._silences[ProcessId(name)] = silence
                else:
                    with contextlib.suppress(OSError):
                        os.unlink(path)

    def check(self, events: tuple[NotifyEvent, ...]) -> None:
        """Let a start pass whose notices can be sent.

        Raises:
            InvalidRequest: This server notifies of none of these events.
        """
        # One of them is enough: a caller may ask for more than this operator sends, with the same arguments
        # everywhere.
        if not self.offered.intersection(events):
            text = f"notify: this server notifies of {', '.join(sorted(self.offered))} only."
            hint = (
                "Ask for one of these, or have the operator change --notify-on (silence: "
                "--notify-silence, too)."
            )
            raise InvalidRequest("invalid_params", text, hint=hint)

    async def owe(self, process_id: ProcessId, events: tuple[NotifyEvent, ...]) -> None:
        """Note what is owed (see `Notices.owe`).

        Raises:
            LimitExceeded: `disk_full`: it cannot be written.
        """
        try:
            # A file in a thread: a slow disk delays this start alone.
            await asyncio.to_thread(self.put, process_id, self.offered.intersection(events))
        except OSError as error:
            text = f"What to notify of cannot be written: {error.strerror}."
            raise LimitExceeded("disk_full", text) from error

    def of(self, process_id: str) -> frozenset[NotifyEvent]:
        """Return the events of a process that are notified of; none for most processes."""
        return self._owed.get(ProcessId(process_id), frozenset())

    def ids(self) -> list[ProcessId]:
        """Return the processes that a notice is owed for."""
        return list(self._owed)

    def put(self, process_id: ProcessId, events: Iterable[NotifyEvent]) -> None:
        """Owe notices of these events from now on, also after a crash.

        Raises:
            OSError: The disk refuses it.
        """
        owed = frozenset(events)
        self._write(process_id, owed, "")
        self._owed[process_id] = owed

    def silence_of(self, process_id: str) -> str:
        """Return the cursor of the silence that was notified of last; empty where none was."""
        return self._silences.get(ProcessId(process_id), "")

    def note_silence(self, process_id: ProcessId, cursor: str) -> None:
        """Keep that a silence was notified of, so that no later server does it again.

        Raises:
            OSError: The disk refuses it.
        """
        if owed := self.of(process_id):
            self._silences[process_id] = cursor
            self._write(process_id, owed, cursor)

    def _write(self, process_id: ProcessId, owed: frozenset[NotifyEvent], silence: str) -> None:
        os.makedirs(self._layout.notices, mode=0o700, exist_ok=True)
        # After a power cut a notice may be missing, as the last lines of output may be.
        content = json.dumps({"events": sorted(owed), "silence": silence}).encode()
        write_whole(f"{self._layout.notices}/{process_id}", content, by_many=True)

    def remove_unknown(self, process_id: str) -> None:
        """Owe nothing for a process that no query finds, unless it may be about to start."""
        if not _is_young(f"{self._layout.notices}/{process_id}"):
            self.remove(process_id)

    def remove(self, process_id: str) -> None:
        """Owe nothing for a process any more; idempotent."""
        self._owed.pop(ProcessId(process_id), None)
        self._silences.pop(ProcessId(process_id), None)
        with contextlib.suppress(OSError):  # at worst it is notified again, under the same id
            os.unlink(f"{self._layout.notices}/{process_id}")


def _is_young(path: str) -> bool:
    """Tell whether a file was written so lately that the start which it belongs to may still be on its way to
    the keeper.

    A killed server leaves what it has sent in the keeper's socket, and a keeper that is busy or stopped reads
    it when the next server is there already.
    """
    with contextlib.suppress(OSError):
        return (
            time.time() - os.stat(path).st_mtime < _ON_ITS_WAY_S
        )  # a time to come, after a clock was set back, is young, too
    return False


def _read(path: str) -> tuple[frozenset[NotifyEvent], str]:
    """Return which events are owed, and the cursor of the silence that was notified of."""
    found = decoded(read_small(path), json.loads)
    events, silence = (found.get("events"), found.get("silence")) if isinstance(found, dict) else (None, None)
    owed = frozenset(event for event in NOTIFY_EVENTS if isinstance(events, list) and event in events)
    return owed, silence if isinstance(silence, str) else ""
