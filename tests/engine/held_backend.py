"""A place of execution in memory that does each thing when a test says so, for orders that a real keeper
meets too seldom.

A start is committed as the keeper does it: by renaming a folder into the process's place, whoever comes
first.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from outlive.backends.contract import BackendListener, NodeState, StartOutcome
from outlive.core.controls import Operation, Stop
from outlive.core.errors import BackendUnavailable, InvalidState, OutliveError, StartFailed
from outlive.core.identity import ProcessId, id_to_bytes
from outlive.core.location import Kind
from outlive.core.process import InputWait, Observation
from outlive.protocols.keeper import Flags, Phase

_SYNC = (bytes(16), 0, 0, 0, 0, 0, 0, int(Flags.SYNC), 0)
_SIGNALED = int(Flags.SIGNALED)


class AskedStart:
    """A start that was asked for and has not been answered."""

    def __init__(
        self, process_id: ProcessId, spec: bytes, settle: Callable[[StartOutcome | OutliveError], None]
    ) -> None:
        self.process_id = process_id
        self.spec = spec
        self.settle = settle
        self.answer: asyncio.Future[StartOutcome] = asyncio.get_running_loop().create_future()

    def finish(self, outcome: StartOutcome | OutliveError) -> None:
        """Hand over the outcome, as `backends.keeper_link` does."""
        if not self.answer.done():
            if isinstance(outcome, OutliveError):
                self.answer.set_exception(outcome)
            else:
                self.answer.set_result(outcome)
        self.settle(outcome)


class HeldBackend:
    """A `Backend` whose starts wait for `arrive` or `lose`.

    Attributes:
        asked: Starts that nobody has answered, oldest first.
        ran: Ids of the commands that have run, in order.
        running: Pids by id.
        stopped: Ids of commands that a stop found running, in order.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        for name in ("processes", "prepared"):
            (state_dir / name).mkdir(parents=True, exist_ok=True)
        self.asked: list[AskedStart] = []
        self.ran: list[str] = []
        self.running: dict[str, int] = {}
        self.stopped: list[str] = []
        self._listener: BackendListener | None = None

    def kind_of(self, backend: str) -> Kind:
        """Know this machine only."""
        assert backend == "local"
        return "local"

    def nodes(self) -> dict[str, NodeState]:
        """Know of none."""
        return {}

    async def open(self, listener: BackendListener) -> None:
        """Tell what runs, and that this is all."""
        self._listener = listener
        listener.link_opened()
        listener.link_ready(1)
        listener.ring([*(self._bell(one, Phase.RUNNING) for one in self.running), _SYNC])

    async def close(self) -> None:
        """Tell nothing more.

        What was asked may still arrive, as from the socket of a server that has died.
        """
        self._listener = None

    async def start(
        self,
        process_id: ProcessId,
        spec: bytes,
        script: bytes,
        *,
        settle: Callable[[StartOutcome | OutliveError], None],
        secrets: Mapping[str, str] | None = None,
        backend: str = "local",  # noqa: ARG002
    ) -> StartOutcome:
        """Hold the start until the test lets it arrive."""
        assert not script
        assert not secrets
        asked = AskedStart(process_id, spec, settle)
        self.asked.append(asked)
        return await asked.answer

    def arrive(self, asked: AskedStart) -> None:
        """Carry out a start: whoever puts a folder in the process's place first has decided."""
        self.asked.remove(asked)
        prepared = self._state_dir / "prepared" / asked.process_id
        prepared.mkdir()
        (prepared / "spec").write_bytes(asked.spec)
        try:
            os.rename(prepared, self._state_dir / "processes" / asked.process_id)
        except OSError:
            shutil.rmtree(prepared)
            if asked.process_id not in self.running:
                asked.finish(StartFailed("start_failed", "It was cancelled before it was started."))
                return
        else:
            self.ran.append(asked.process_id)
            self.running[asked.process_id] = 1000 + len(self.ran)
            self._tell(asked.process_id, Phase.RUNNING)
        asked.finish(StartOutcome(pid=self.running[asked.process_id], started_ns=1))

    def lose(self, asked: AskedStart) -> None:
        """Answer that nobody knows: it never arrived."""
        self.asked.remove(asked)
        asked.finish(BackendUnavailable("timeout", "The keeper did not answer."))

    def leave_open(self, asked: AskedStart) -> None:
        """Let the caller go without an answer, as a node that is silent; `AskedStart.settle` takes the answer
        later.
        """
        self.asked.remove(asked)
        asked.answer.set_exception(BackendUnavailable("start_unanswered", "The node has not answered."))

    async def control(self, process_id: ProcessId, operation: Operation, **_how: object) -> None:
        """End a command that runs; refuse for any other, as the keeper does. Nothing else is asked here."""
        if not isinstance(operation, Stop):
            raise NotImplementedError(process_id, operation)
        if process_id not in self.running:
            raise InvalidState("process_ended", "The keeper does not hold this process (any more).")
        self.stopped.append(process_id)
        asyncio.get_running_loop().call_soon(self.end, process_id)  # a turn of its own, as a keeper's process

    def end(self, process_id: str) -> None:
        """Let a running command end by a signal."""
        if process_id not in self.running:
            return
        folder = self._state_dir / "processes" / process_id
        (folder / "exit").write_bytes(b"signaled 15 %d \n" % time.time_ns())
        self._tell(process_id, Phase.DONE)
        self.running.pop(process_id)

    def _bell(self, process_id: str, phase: Phase) -> tuple[bytes, int, int, int, int, int, int, int, int]:
        is_done = phase is Phase.DONE
        code, flags = (15, _SIGNALED) if is_done else (0, 0)
        return (id_to_bytes(process_id), 0, 0, self.running[process_id], code, int(phase), 0, flags, 0)

    def _tell(self, process_id: str, phase: Phase) -> None:
        if self._listener is not None:
            self._listener.ring([self._bell(process_id, phase)])

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> None:
        """Not asked here."""
        raise NotImplementedError(process_id, data)

    async def window_size(self, process_id: ProcessId) -> tuple[int, int] | None:
        """There is no terminal."""
        raise AssertionError(process_id)

    async def observe(self, process_ids: Sequence[ProcessId], *, has_stdin: bool) -> list[Observation]:  # noqa: ARG002 - of the contract
        """See nothing."""
        return [Observation() for _ in process_ids]

    async def input_wait(self, process_id: ProcessId) -> InputWait | None:
        """Not asked here."""
        raise NotImplementedError(process_id)

    async def offers(self) -> str:
        """Not asked here."""
        raise NotImplementedError

    async def status(self) -> dict[str, object]:
        """Tell nothing."""
        return {}
