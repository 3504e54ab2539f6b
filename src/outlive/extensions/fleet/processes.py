"""The followed processes of one node: `NodeProcesses`, in memory, in their folders, and in the journal that
finds them after a restart.

Only the event loop's thread touches the table; files are written by the `DiskWorker`. What is known of one
process is `process`'s.
"""

import contextlib
import os
import shutil

from outlive.backends.contract import BackendListener
from outlive.core.errors import InvalidRequest
from outlive.core.identity import ProcessId, is_process_id
from outlive.core.layout import Layout
from outlive.extensions.fleet.process import DiskWorker, RemoteProcess
from outlive.kernel.files import read_all
from outlive.protocols.keeper import decode_spec, stored_spec
from outlive.store.process_folder import (
    Punch,
    make_folder,
    pid_record,
    unfinished_folders,
    write_file,
)

_LIVE = "live"


class NodeJournal:
    """The followed processes of one node."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._folder = f"{layout.nodes}/{name}/{_LIVE}"

    def add(self, process_id: str) -> None:
        """Follow a process from now on.

        Raises:
            OSError: The disk does not take it.
        """
        path = f"{self._folder}/{process_id}"
        try:
            write_file(path, b"")
        except FileNotFoundError:  # the first of this node
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            write_file(path, b"")

    def remove(self, process_id: str) -> None:
        """Follow it no more."""
        with contextlib.suppress(OSError):
            os.unlink(f"{self._folder}/{process_id}")

    def read(self) -> list[str]:
        """Return the ids of all followed processes, oldest first."""
        with contextlib.suppress(OSError):
            return sorted(name for name in os.listdir(self._folder) if is_process_id(name))
        return []


def known_nodes(layout: Layout) -> list[str]:
    """Return the names of the nodes that have followed processes, whatever the settings say now."""
    try:
        names = sorted(os.listdir(layout.nodes))
    except OSError:
        return []
    return [name for name in names if NodeJournal(layout, name).read()]


class NodeProcesses:
    """The followed processes of one node: in memory, in their folders, and in the journal that finds them
    after a restart.

    Attributes:
        by_id: All of them; only methods of this class change it.
        listener: Hears of changes; None while the backend is closed.
        disk: Does all work on their files.
    """

    def __init__(self, layout: Layout, name: str, *, punch: Punch) -> None:
        self.by_id: dict[str, RemoteProcess] = {}
        self.listener: BackendListener | None = None
        self.disk = DiskWorker()
        self._layout = layout
        self._journal = NodeJournal(layout, name)
        self._prepared = f"{layout.nodes}/{name}/prepared-"
        self._punch = punch
        self._unanswered: dict[str, RemoteProcess] = {}  # the engine waits for the answers to their starts

    def publish(self, *processes: RemoteProcess) -> None:
        """Notify the engine of what these processes are like now; of an end once the start was answered."""
        if self.listener is not None:
            told = [one for one in processes if not (one.is_ended and one.process_id in self._unanswered)]
            self.listener.ring([one.bell() for one in told])

    def answered(self, process_id: ProcessId, *, is_started: bool) -> None:
        """Notify the engine of a process that it has just had the answer to its start of: its end may have
        come before that.
        """
        process = self._unanswered.pop(process_id, None)
        if process is not None and is_started:
            self.publish(process)

    async def load(self) -> None:
        """Find the processes that an earlier server followed."""
        for process in await self.disk.run(self._read):
            self.by_id[process.process_id] = process

    async def add(
        self, process_id: ProcessId, spec: bytes, script: bytes, *, started: tuple[int, int] | None = None
    ) -> RemoteProcess:
        """Make the folder of a start, and follow it from now on; `started`: pid and time of one that the node
        runs already.

        Raises:
            InvalidRequest: The id is taken.
            OSError: The disk does not take it.
        """
        process = await self.disk.run(lambda: self._make(process_id, spec, script, started))
        self.by_id[process_id] = process
        if started is None:
            self._unanswered[process_id] = process
        return process

    def drop(self, process: RemoteProcess) -> None:
        """Follow a process no more; its folder stays.

        That is noted soon: a server that does not find it so drops it again.
        """
        self.by_id.pop(process.process_id, None)
        process.files.close()
        self.disk.note(lambda: self._journal.remove(process.process_id))

    async def discard(self, process: RemoteProcess) -> None:
        """Follow a process no more whose start was refused, and leave nothing of it."""
        self.by_id.pop(process.process_id, None)  # nothing reports a process whose folder goes
        await self.disk.run(lambda: self._discard(process))
        self.drop(process)

    def _discard(self, process: RemoteProcess) -> None:
        # Out of its place in one step: half of a folder there, after a kill, would take a command that waits
        # for one that has run.
        prepared = self._prepared + process.process_id
        shutil.rmtree(prepared, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rename(process.folder, prepared)
        shutil.rmtree(prepared, ignore_errors=True)

    def _make(
        self, process_id: ProcessId, spec: bytes, script: bytes, started: tuple[int, int] | None
    ) -> RemoteProcess:
        folder, prepared = self._layout.process(process_id), self._prepared + process_id
        # One that is never asked for again has its pid from its first moment: without one it would be
        # started.
        pid = b"" if started is None else pid_record(*started)
        is_made = False
        try:
            # The journal first: a kill behind it leaves an entry without a folder, which the next server
            # drops.
            self._journal.add(process_id)
            is_made = make_folder(prepared, folder, spec=spec, script=script, pid=pid)
        finally:
            if not is_made:
                shutil.rmtree(prepared, ignore_errors=True)
                self._journal.remove(process_id)
        if not is_made:
            raise InvalidRequest("invalid_params", "process_id: this one is taken.")
        return RemoteProcess(
            process_id,
            decode_spec(spec),
            folder,
            punch=self._punch,
            disk=self.disk,
            is_new=started is None,
        )

    def _read(self) -> list[RemoteProcess]:
        found = []
        for name in unfinished_folders(self._prepared):
            shutil.rmtree(name, ignore_errors=True)
        for name in self._journal.read():
            process_id = ProcessId(name)
            folder = self._layout.process(process_id)
            if (spec := stored_spec(read_all(f"{folder}/spec"))) is None:
                self._journal.remove(process_id)  # its folder was never whole, is damaged, or was removed
                continue
            process = RemoteProcess(process_id, spec, folder, punch=self._punch, disk=self.disk)
            if process.is_finished:
                self._journal.remove(process_id)
            else:
                found.append(process)
        return found
