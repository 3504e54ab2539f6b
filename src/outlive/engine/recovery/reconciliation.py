"""What a server that was started anew does not know yet: `Reconciliation`, and how questions wait for it.

The doors open before every process of earlier servers is found again: how many live must not decide how long
a start takes. Three things become known one after the other: the registry's rows (at once: which processes
were unfinished, and their pids), the keeper's word (what lives), the folders (everything about each). A
question about one process waits for that one, a question about all of them for all. When the keeper is
silent, they are answered by rows and folders, and marked as unknown.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from outlive.core.command import Command
from outlive.core.errors import BackendUnavailable, OutliveError
from outlive.core.identity import ProcessId, id_from_bytes, id_to_bytes, is_process_id
from outlive.core.values import dataclass, field, replace
from outlive.engine.processes.process_table import ProcessTable
from outlive.engine.recovery.recovery import Recovery
from outlive.engine.recovery.upkeep import Upkeep
from outlive.store.registry import Registry
from outlive.store.rows import StoredProcess

_logger = logging.getLogger(__name__)

# A keeper that lives reports everything within milliseconds. After that long a question is answered from the
# files.
_SILENCE_S = 1.0
# A supervisor that hangs is replaced within 8 s; then it asks every shim, 3 s if some are stopped.
_SYNC_S = 20.0
_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How many of the processes that lived, as far as they have been heard of, are found again."""

    known: int
    of: int

    def view(self) -> dict[str, int]:
        """Return what probes show."""
        return {"known": self.known, "of": self.of}


@dataclass(eq=False, slots=True)
class Reconciliation:
    """Begins with `open`; `run` finds everything, and for this server's life it stays known.

    Attributes:
        is_over: Whether everything is known.
    """

    registry: Registry
    table: ProcessTable
    recovery: Recovery
    upkeep: Upkeep
    # Pids of the unfinished, by key; 0 where none is known.
    _rows: dict[bytes, int] = field(default_factory=dict, init=False)
    is_over: bool = field(default=False, init=False)
    _is_found: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    # Found, or as much as files say while the keeper is silent.
    _is_listed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @property
    def progress(self) -> Progress | None:
        """How far it is; None once everything is known."""
        if self.is_over:
            return None
        left = len(self._left())
        known = sum(
            process.status.is_acknowledged and not process.status.is_unknown
            for process in self.table.live.values()
        )
        return Progress(known, known + left)

    def pids(self) -> Iterator[tuple[int | None, str]]:
        """Yield pid and id of the processes that may live and are not loaded yet, from rows and doorbells.

        While the keeper is silent there may be more, of which nothing is known: (None, "").
        """
        for key, pid in self._left().items():
            yield pid or None, id_from_bytes(key)
        if not self.table.synced.is_set():
            yield None, ""

    def _left(self) -> dict[bytes, int]:
        """Return the pids of those that are not known yet: reported and not loaded, or known from rows
        alone.
        """
        if self.is_over:
            return {}
        live = self.table.live
        rows = {} if self.table.synced.is_set() else self._rows
        reported = {key: bell[3] for key, bell in self.table.unknown.items()}
        return {
            key: pid
            for key, pid in {**rows, **reported}.items()
            if key not in live or live[key].status.is_unknown
        }

    async def open(self) -> None:
        """Read which processes were unfinished; nothing of them is loaded."""
        self._rows = await self.registry.unfinished_pids()

    async def run(self) -> None:
        """Return when everything is known, however often something is in the way."""
        while not self.is_over:
            try:
                await self._find()
            except (
                OutliveError
            ) as error:  # the keeper or the registry does not answer, which says nothing of a fault here
                _logger.warning("finding again what lives waits", extra={"reason": error.code})
                await asyncio.sleep(_RETRY_S)
            except OSError:
                _logger.exception("finding again what lives failed; it is tried again")
                await asyncio.sleep(_RETRY_S)

    async def _find(self) -> None:
        unfinished = [*self._rows]
        try:
            async with asyncio.timeout(_SILENCE_S):
                await self.table.synced.wait()
        except TimeoutError:
            _logger.warning("the keeper does not tell what lives: until it does, the files are what is known")
            unfinished += map(id_to_bytes, await self.upkeep.newest_forgotten())
            await self.recovery.adopt_untold(unfinished)
            self._is_listed.set()
            await self.table.synced.wait()
        await self.recovery.catch_up()
        await self.recovery.end_rows(unfinished)
        await self.upkeep.open()
        self.is_over = True
        self._is_found.set()
        self._is_listed.set()
        self._rows = {}
        self.recovery.is_first_round = False

    async def listed(self) -> None:
        """Return when lists are whole: everything is known, or, while the keeper is silent, what files say of
        it.
        """
        with contextlib.suppress(TimeoutError):  # a registry in trouble: what is known then is the answer
            async with asyncio.timeout(_SYNC_S):
                await self._is_listed.wait()

    async def over(self) -> None:
        """Return when everything is known, however long that takes."""
        await self._is_found.wait()

    async def found(self) -> None:
        """Return when everything is known.

        Raises:
            BackendUnavailable: The keeper did not report within 20 s.
        """
        if self.is_over:
            return
        try:
            async with asyncio.timeout(_SYNC_S):
                await self._is_found.wait()
        except TimeoutError:
            text = f"The keeper did not tell what is live within {_SYNC_S:.0f} s."
            raise BackendUnavailable("keeper_unavailable", text) from None

    async def enough_for(self, command: Command, process_id: ProcessId | None, *, most: int | None) -> None:
        """Wait for what a start depends on: its group, what its machine has free, its own id, the most
        processes that may live.

        Raises:
            BackendUnavailable: The keeper did not report within 20 s.
        """
        if (progress := self.progress) is None:
            return
        if (
            command.group is not None
            or command.needs is not None
            or (most is not None and progress.of + len(self.table.live) >= most)
        ):
            await self.found()
        elif process_id is not None and is_process_id(process_id):
            await self.one(process_id)

    async def one(self, process_id: ProcessId) -> None:
        """Return when as much is known of one process as can be: it is loaded if it lives.

        The others need not be yet.
        """
        key = id_to_bytes(process_id)
        if not self._is_listed.is_set() and key not in self.table.live and key not in self.table.unknown:
            waits = [asyncio.ensure_future(one.wait()) for one in (self.table.synced, self._is_listed)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        if key in self.table.unknown:
            await self.recovery.adopt([process_id])
        elif not self.table.synced.is_set():  # started so late that no row says it
            await self.recovery.adopt_untold([key])

    def as_known(self, row: StoredProcess) -> StoredProcess:
        """Return a row as it may be shown: what is unfinished there and not found yet was true when it was
        written.
        """
        if self.is_over or row.record.is_closed or id_to_bytes(row.record.process_id) not in self._rows:
            return row
        return replace(row, record=replace(row.record, is_unknown=True))
