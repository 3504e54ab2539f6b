"""A node as a place of execution: `RemoteBackend`.

A start is put down here before the node is asked for it: whatever dies in between, it is asked for again under the same name, and
runs once. What the node says is kept in an ordinary process folder (`folder`), so that everybody else reads it as ever.
"""

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping

from outlive.backends.contract import BackendListener, Bell, StartOutcome, unknown_backend
from outlive.backends.remote.contract import NodeConnection
from outlive.backends.remote.folder import NodeJournal, Punch, make_folder, read_small
from outlive.backends.remote.link import NodeLink, Pauses
from outlive.backends.remote.mirror import RemoteProcess
from outlive.backends.remote.node_follower import NodeFollower
from outlive.backends.remote.process_follower import end_here, put_down_state
from outlive.backends.remote.starts import UnansweredStarts, execute_words
from outlive.backends.remote.verbs import NodeVerbs
from outlive.core.errors import (
    BackendUnavailable,
    InvalidRequest,
    LimitExceeded,
    OutliveError,
    ProcessNotFound,
    StartFailed,
)
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.location import Kind
from outlive.protocols.keeper import decode_spec

_logger = logging.getLogger(__name__)
_AGAIN_S = 0.1  # between two attempts while the node is there, and its connection for requests is not
_SECRETS_LOST = (
    "Its secrets were in the server's memory only, and the server ended before the node had it: it never ran."
)
_PAUSES = Pauses()


class RemoteBackend(NodeVerbs):
    """One node, by its name."""

    def __init__(
        self,
        name: str,
        connection: NodeConnection | None,
        *,
        state_dir: str,
        punch: Punch,
        address: str = "",
        pauses: Pauses = _PAUSES,
    ) -> None:
        """Take what it is made of; nothing is opened.

        Args:
            name: Under which commands ask for it.
            connection: How it is reached; None for one that no setting names any more, but that has processes.
            state_dir: Our state folder, absolute.
            punch: Releases a range of a file (`keeper.kernel.punch_hole`).
            address: For people.
            pauses: When to try again.
        """
        self._layout = Layout(state_dir)
        self._journal = NodeJournal(self._layout, name)
        self._name = name
        self._address = address
        self._punch = punch
        self._connection = connection
        self._listener: BackendListener | None = None
        self._stack = contextlib.AsyncExitStack()
        self._tasks: asyncio.TaskGroup | None = None
        self._link = NodeLink(name, connection, pauses=pauses)
        self._starts = UnansweredStarts(self._link)
        self._following = NodeFollower(
            connection,
            begin=self._begin_again,
            finished=self._let_go,
            ring=self._ring,
            opened=self._link.opened,
            beat_s=pauses.beat_s,
            answer_s=pauses.answer_s,
        )

    def kind_of(self, backend: str) -> Kind:
        """Return the kind of a node, for its own name.

        Raises:
            InvalidRequest: It is another one.
        """
        if backend != self._name:
            raise unknown_backend(backend, [self._name])
        return "node"

    async def open(self, listener: BackendListener) -> None:
        """Tell of the processes that are followed, as the files know them; the node is looked for meanwhile."""
        self._listener = listener
        self._link.changed = listener.node_changed
        for mirror in await asyncio.to_thread(_load, self._layout, self._journal, self._punch):
            self._following.mirrors[mirror.process_id] = mirror
        self._following.tell(self._following.mirrors.values())
        self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        task = self._tasks.create_task(self._link.run(self._following.follow), name=f"node {self._name}")
        self._stack.callback(task.cancel)

    async def close(self) -> None:
        """Disconnect; what runs there goes on, and is found again by the folders."""
        self._starts.cancel()
        if self._connection is not None:
            await self._connection.close()
        await self._stack.aclose()
        self._listener = None
        for mirror in self._following.mirrors.values():
            mirror.files.close()

    async def start(
        self,
        process_id: ProcessId,
        spec: bytes,
        script: bytes,
        *,
        settle: Callable[[StartOutcome | OutliveError], None],
        secrets: Mapping[str, str] | None = None,
        backend: str = "",  # noqa: ARG002 - it is this one
    ) -> StartOutcome:
        """Start a command there once (see `Backend.start`).

        A start that the node does not answer is asked for again under its name until it does, and settled then.

        Raises:
            BackendUnavailable: `node_unavailable`: it is away, nothing was started; `start_unanswered`: it may run.
            OutliveError: What the node says to it.
        """
        if self._tasks is None:
            raise AssertionError("a backend is open while it is used")
        return await self._starts.wait(
            process_id,
            lambda: self._start(process_id, spec, script, secrets=secrets or {}, settle=settle),
            tasks=self._tasks,
        )

    async def _start(
        self,
        process_id: ProcessId,
        spec: bytes,
        script: bytes,
        *,
        secrets: Mapping[str, str],
        settle: Callable[[StartOutcome | OutliveError], None],
    ) -> StartOutcome | OutliveError:
        """Start, and return what came of it: an error here would end everything."""
        outcome: StartOutcome | OutliveError
        try:
            outcome = await self._start_here(process_id, spec, script, secrets)
        except OutliveError as error:
            outcome = error
        except OSError as error:
            outcome = LimitExceeded("disk_full", f"The start cannot be put down: {error.strerror}.")
        except Exception:  # whatever a node answers, it must not end the server
            _logger.exception("what a node answered to a start makes no sense: %s", self._name)
            outcome = OutliveError("internal_error", f"The answer of the node {self._name!r} makes no sense.")
        except asyncio.CancelledError:
            settle(BackendUnavailable("timeout", "The server is being stopped: the node may start it yet."))
            raise
        settle(outcome)
        return outcome

    async def _start_here(
        self, process_id: ProcessId, spec: bytes, script: bytes, secrets: Mapping[str, str]
    ) -> StartOutcome:
        mirror = self._following.mirrors.get(process_id)
        if mirror is None:
            if self._link.is_away:
                raise self._link.unavailable()
            mirror = await asyncio.to_thread(self._put_down, process_id, spec, script)
            mirror.is_unknown = False
            mirror.secrets, mirror.script = secrets, script
            self._following.mirrors[process_id] = mirror
        is_existing = mirror.is_acknowledged
        try:
            while not mirror.is_acknowledged:
                await self._link.is_there.wait()
                try:
                    await self._begin(mirror)
                except BackendUnavailable:
                    await asyncio.sleep(_AGAIN_S)
        except OutliveError as error:
            await self._discard(mirror, error)
            raise
        return StartOutcome(pid=mirror.pid, started_ns=mirror.started_ns, is_existing=is_existing)

    async def _begin(self, mirror: RemoteProcess) -> None:
        """Ask the node for a start, once at a time for each process.

        Raises:
            OutliveError: What it says.
        """
        connection = self._reach()
        async with mirror.beginning:
            if mirror.is_acknowledged:
                return
            if mirror.script is None:
                mirror.script = await asyncio.to_thread(read_small, f"{mirror.folder}/script")
            words = execute_words(mirror.spec, mirror.script, mirror.secrets)
            asked_ns = time.time_ns()  # by our clock: the node's may be another
            async with self._link.asking():
                answer = await connection.execute(words, process_id=mirror.process_id)
            mirror.acknowledge(int(answer["pid"] or 0), asked_ns)
            await put_down_state(mirror)
        self._following.attach(mirror)

    async def _begin_again(self, mirror: RemoteProcess) -> None:
        """Find out what became of a start that was never answered, and ask for it again.

        Raises:
            BackendUnavailable: The node is away again.
        """
        if mirror.process_id in self._starts:
            return  # who asked first still does
        try:
            if mirror.spec.secrets and not mirror.secrets:
                await self._find_started(mirror)
            else:
                await self._begin(mirror)
        except BackendUnavailable:
            raise
        except OutliveError as error:
            await end_here(mirror, "failed", error.message)
            self._following.tell([mirror])
            self._following.mirrors.pop(mirror.process_id, None)
            await self._let_go(mirror)

    async def _find_started(self, mirror: RemoteProcess) -> None:
        """See whether a start whose secrets are gone had arrived.

        Raises:
            StartFailed: `secrets_lost`: it had not.
        """
        try:
            view = await self._reach().get(mirror.process_id)
        except ProcessNotFound as error:
            raise StartFailed("secrets_lost", _SECRETS_LOST) from error
        mirror.acknowledge(view.pid or 0, time.time_ns())
        await put_down_state(mirror)
        self._following.attach(mirror)

    async def _discard(self, mirror: RemoteProcess, error: OutliveError) -> None:
        """Forget a start that the node has refused; of one that failed the folder is kept, as the keeper does."""
        self._following.mirrors.pop(mirror.process_id, None)
        if isinstance(error, StartFailed):
            with contextlib.suppress(OSError):
                await end_here(mirror, "failed", error.message)
        else:
            await asyncio.to_thread(shutil.rmtree, mirror.folder, ignore_errors=True)
        await self._let_go(mirror)

    async def _let_go(self, mirror: RemoteProcess) -> None:
        mirror.files.close()
        await asyncio.to_thread(self._journal.remove, mirror.process_id)

    def _put_down(self, process_id: ProcessId, spec: bytes, script: bytes) -> RemoteProcess:
        """Make the folder of a start, and note that it is followed. In a thread."""
        self._journal.add(process_id)
        folder = self._layout.process(process_id)
        prepared = f"{self._layout.nodes}/{self._name}/prepared-{process_id}"
        if not make_folder(prepared, folder, spec=spec, script=script):
            shutil.rmtree(prepared, ignore_errors=True)
            self._journal.remove(process_id)
            raise InvalidRequest("invalid_params", "process_id: this one is taken.")
        return RemoteProcess(process_id, decode_spec(spec), folder, punch=self._punch)

    def _ring(self, bells: Iterable[Bell]) -> None:
        if self._listener is not None:
            self._listener.ring(bells)


def _load(layout: Layout, journal: NodeJournal, punch: Punch) -> list[RemoteProcess]:
    """Return what is still followed by the journal. In a thread."""
    found = []
    for name in journal.read():
        process_id = ProcessId(name)
        folder = layout.process(process_id)
        try:
            mirror = RemoteProcess(process_id, decode_spec(read_small(f"{folder}/spec")), folder, punch=punch)
        except (ValueError, LookupError, TypeError):
            journal.remove(process_id)  # it was never put down whole, or was removed
            continue
        if mirror.is_finished:
            journal.remove(process_id)
        else:
            found.append(mirror)
    return found
