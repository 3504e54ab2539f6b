"""This machine as a place of execution: the operations of the keeper's local protocol as a `Backend`."""

import asyncio
import contextlib
import functools
import socket
from collections.abc import Callable, Mapping, Sequence

from outlive.backends.contract import BackendListener, NodeState, StartOutcome, unknown_backend
from outlive.backends.direct_inputs import PIECE_BYTES, DirectInputs
from outlive.backends.keeper_link import KeeperLink, Reply
from outlive.backends.tree_inspection import input_wait, observe_trees, window_size
from outlive.core.controls import (
    CloseInput,
    Operation,
    ReleaseOutput,
    SignalProcess,
    Stop,
)
from outlive.core.errors import BackendUnavailable, LimitExceeded, OutliveError
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.location import LOCAL, Kind
from outlive.core.process import InputWait, Observation
from outlive.protocols.keeper import CauseCode

# From here on an input is worth a pipe of the server's own; what is typed is not.
_DIRECT_BYTES = 16 * 1024
_CONNECT_S = 20.0
# A hung supervisor is replaced by the guardian within 6-8 s and the request is sent again: time for both.
_START_S = 25.0
_OFFERS_S = 25.0  # longer than trying may take
_ANSWER_S = 15.0
_WRITE_S = 30.0  # how long a process may leave its input unread before the writer is told


class LocalBackend:
    """The keeper of one state folder.

    The two callables are handed in: they belong to the keeper's own package.
    """

    def __init__(
        self,
        state_dir: str,
        *,
        connect_unix: Callable[[str], socket.socket],
        ensure_keeper: Callable[[str], None],
    ) -> None:
        self._layout = Layout(state_dir)
        self._connect = functools.partial(connect_unix, self._layout.keeper_socket)
        self._ensure = functools.partial(ensure_keeper, state_dir)
        self._stack = contextlib.AsyncExitStack()
        self._link: KeeperLink | None = None
        self._inputs: DirectInputs | None = None

    def kind_of(self, backend: str) -> Kind:
        """Return the kind of this machine, for its own name.

        Raises:
            InvalidRequest: It is another one.
        """
        if backend != LOCAL:
            raise unknown_backend(backend, [LOCAL])
        return "local"

    async def open(self, listener: BackendListener) -> None:
        """Connect, starting the keeper when no process listens.

        Returns when it answers, or is there and silent.

        Raises:
            BackendUnavailable: It did not within 20 s.
        """
        root = self._layout.root
        link = KeeperLink(root, listener=listener, connect=self._connect, ensure=self._ensure)
        await self._stack.enter_async_context(link)
        self._link = link
        self._inputs = DirectInputs(link)
        try:
            await link.wait_ready(_CONNECT_S)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect; what runs goes on."""
        if self._inputs is not None:
            self._inputs.close()
        self._link = self._inputs = None
        await self._stack.aclose()

    async def start(
        self,
        process_id: ProcessId,
        spec: bytes,
        script: bytes,
        *,
        settle: Callable[[StartOutcome | OutliveError], None],
        secrets: Mapping[str, str] | None = None,
        backend: str = LOCAL,  # noqa: ARG002 - there is one here
    ) -> StartOutcome:
        """Start a command once (see `Backend.start`), here or in a container."""
        started: list[StartOutcome] = []  # once it is settled; then the request returns

        def settled(outcome: Reply | OutliveError) -> None:
            if isinstance(outcome, OutliveError):
                settle(outcome)
                return
            pid, started_ns = int(str(outcome["pid"])), int(str(outcome["started_ns"]))
            is_existing = bool(outcome.get("existing"))
            started.append(StartOutcome(pid=pid, started_ns=started_ns, is_existing=is_existing))
            settle(started[0])

        message: Reply = {"op": "start", "id": process_id, "spec_bytes": len(spec)}
        if secrets:  # not in the payload: all of that is written to disk
            message["secrets"] = dict(secrets)
        await _opened(self._link).request(
            message, spec + script, deadline_s=_START_S, is_repeatable=True, settle=settled
        )
        return started[0]

    async def control(
        self,
        process_id: ProcessId,
        operation: Operation,
        *,
        acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Have the keeper carry out an operation."""
        if isinstance(operation, CloseInput) and self._inputs is not None:
            self._inputs.drop(process_id)

        def settled(outcome: Reply | OutliveError) -> None:
            if acknowledged is not None and not isinstance(outcome, OutliveError):
                acknowledged()

        await _opened(self._link).request(
            {"id": process_id, **_words(operation)},
            deadline_s=_ANSWER_S,
            is_repeatable=not isinstance(operation, SignalProcess),
            settle=settled,
        )

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> None:
        """Write to the input; never repeated.

        Much of it goes straight into the pipe, the rest through the keeper.
        """
        written = 0
        inputs = self._inputs
        if inputs is not None and (len(data) >= _DIRECT_BYTES or inputs.holds(process_id)):
            written = await inputs.write(process_id, data)
        if written < len(data) or not data:
            await self._write_there(process_id, data[written:], written)

    async def _write_there(self, process_id: ProcessId, data: bytes | memoryview, written: int) -> None:
        """Have the keeper write what follows `written` bytes.

        Pieces do not wait for each other: it takes them in order.
        """
        pieces = [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]
        if len(pieces) > 1:
            outcomes = await asyncio.gather(*(self._write(process_id, piece) for piece in pieces))
        else:  # sent before anything else that the caller asks for next
            outcomes = [await self._write(process_id, data)]
        waiting = 0
        failed: OutliveError | None = None
        for piece, outcome in zip(pieces, outcomes, strict=True):
            if outcome is None:
                written += len(piece)
            elif isinstance(outcome, BackendUnavailable) and outcome.code == "timeout":
                waiting += len(piece)
            else:
                failed = failed or outcome
        if isinstance(failed, LimitExceeded):
            raise LimitExceeded(
                failed.code, failed.message, hint=failed.hint, details=_counted(written, waiting)
            ) from failed
        if failed is not None:
            raise failed
        if waiting:
            raise LimitExceeded(
                "stdin_full",
                (
                    f"The process has not read all of its input for {_WRITE_S:.0f} s; these bytes still wait "
                    "for it."
                ),
                details=_counted(written, waiting),
            )

    async def _write(self, process_id: ProcessId, piece: bytes | memoryview) -> OutliveError | None:
        """Write one piece and return why it failed, None when it is in."""
        message: Reply = {"op": "write", "id": process_id}
        try:
            await _opened(self._link).request(message, piece, deadline_s=_WRITE_S, is_repeatable=False)
        except OutliveError as error:
            return error
        return None

    async def observe(self, process_ids: Sequence[ProcessId], *, has_stdin: bool) -> list[Observation]:
        """Look at the trees, in one thread."""
        folders = [self._layout.process(one) for one in process_ids]
        return await asyncio.to_thread(observe_trees, folders, has_stdin=has_stdin)

    async def input_wait(self, process_id: ProcessId) -> InputWait | None:
        """Ask the kernel, in a thread."""
        return await asyncio.to_thread(input_wait, self._layout.process(process_id))

    async def window_size(self, process_id: ProcessId) -> tuple[int, int] | None:
        """Ask the kernel, in a thread."""
        return await asyncio.to_thread(window_size, self._layout.process(process_id))

    async def offers(self) -> str:
        """Return what the keeper has found out about bounds."""
        link = _opened(self._link)
        reply = await link.request({"op": "offers"}, deadline_s=_OFFERS_S, is_repeatable=True)
        return str(reply["found"])

    def nodes(self) -> dict[str, NodeState]:
        """Know of none."""
        return {}

    async def status(self) -> dict[str, object]:
        """Return what the supervisor says about itself."""
        return await _opened(self._link).request({"op": "status"}, deadline_s=_ANSWER_S, is_repeatable=True)


def _words(operation: Operation) -> Reply:
    """Return an operation in the words of the keeper's protocol: most are its verb and its members."""
    match operation:
        case Stop(cause=cause):
            members = {**operation.members(), "cause": int(CauseCode[cause.name])}
        case ReleaseOutput(stdout_bytes=stdout_bytes, stderr_bytes=stderr_bytes):
            members = {"out": stdout_bytes, "err": stderr_bytes}
        case _:
            members = operation.members()
    return {"op": operation.verb, **members}


def _counted(written: int, waiting: int) -> dict[str, int]:
    return {"written_bytes": written, "waiting_bytes": waiting}


def _opened(link: KeeperLink | None) -> KeeperLink:
    if link is None:
        raise BackendUnavailable("keeper_unavailable", "The server is not connected to the keeper.")
    return link
