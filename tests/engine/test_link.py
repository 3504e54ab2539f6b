"""The link to the keeper: what is sent again, what is not, and that nothing stops it in silence."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from outlive.backends import keeper_link, local
from outlive.backends.contract import Backend, Bell, StartOutcome
from outlive.backends.local import LocalBackend
from outlive.core.controls import CloseInput, Pause, ReleaseOutput, ResizeWindow, Resume, SignalProcess, Stop
from outlive.core.errors import BackendUnavailable, LimitExceeded, OutliveError, StartFailed
from outlive.core.events import KeeperBounds
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.lifecycle import Cause
from outlive.kernel.sockets import listen_unix
from outlive.placement.fleet import FleetNode
from tests.engine.fake_keeper import SYNC, FakeKeeper

ID = ProcessId("0" * 26)


class Listener:
    """Remembers what it is told; `fault` is raised once by the next ring."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.bells: list[Bell] = []
        self.fault: Exception | None = None
        self.rung = asyncio.Event()

    def link_opened(self) -> None:
        """Remember."""
        self.told.append("opened")

    def link_ready(
        self,
        keeper_pid: int,
        sessions: tuple[int, ...] = (),  # noqa: ARG002 -- the protocol's
        bounds: KeeperBounds | None = None,  # noqa: ARG002 -- the protocol's
    ) -> None:
        """Remember."""
        self.told.append(f"ready {keeper_pid}")

    def node_changed(self, name: str, reason: str | None, node: FleetNode | None = None) -> None:
        """Nothing of a node is heard here."""

    def link_closed(self) -> None:
        """Remember."""
        self.told.append("closed")

    def ring(self, bells: Iterable[Bell]) -> None:
        """Remember."""
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        self.bells += bells
        self.rung.set()


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[FakeKeeper]:
    """A fake supervisor that listens."""
    fake = FakeKeeper(tmp_path)
    yield fake
    fake.die()


@pytest.fixture
def listener() -> Listener:
    """Who hears the backend."""
    return Listener()


@asynccontextmanager
async def opened(keeper: FakeKeeper, listener: Listener) -> AsyncIterator[Backend]:
    """A backend that has been greeted."""
    backend = LocalBackend(
        os.path.dirname(keeper.path), connect_unix=keeper.connect, ensure_keeper=keeper.ensure
    )
    async with asyncio.TaskGroup() as group:
        greeting = group.create_task(keeper.greet())
        await backend.open(listener)
        await greeting
    try:
        yield backend
    finally:
        await backend.close()


def no_settle(_outcome: StartOutcome | OutliveError) -> None:
    """Nobody cares."""


async def test_a_request_that_is_not_answered_has_the_guardian_look(
    keeper: FakeKeeper, listener: Listener, tmp_path: Path
) -> None:
    """It takes each connection that is not the supervisor's for a word about the supervisor."""
    guardian = await asyncio.to_thread(listen_unix, Layout(str(tmp_path)).guardian_socket)
    loop = asyncio.get_running_loop()
    async with opened(keeper, listener) as backend, asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(backend.status())
        requests = [(await keeper.receive())[0] for _ in range(2)]
        keeper.answer(requests[1])
        async with asyncio.timeout(10):
            for _ in range(2):  # again and again
                (await loop.sock_accept(guardian))[0].close()
        keeper.answer(requests[0])
    guardian.close()


async def test_a_request_is_answered_by_its_number(keeper: FakeKeeper, listener: Listener) -> None:
    async with opened(keeper, listener) as backend, asyncio.TaskGroup() as group:
        first = group.create_task(backend.status())
        second = group.create_task(backend.status())
        requests = [(await keeper.receive())[0] for _ in range(2)]
        keeper.answer(requests[1], which=2)
        keeper.answer(requests[0], which=1)
        keeper.answer(requests[0], which=3)
        assert (await first)["which"] == 1
        assert (await second)["which"] == 2
    assert listener.told == ["opened", "ready 4242"]


async def test_an_unanswered_start_is_sent_again_to_the_next_supervisor(
    keeper: FakeKeeper, listener: Listener
) -> None:
    settled: list[object] = []
    async with opened(keeper, listener) as backend, asyncio.TaskGroup() as group:
        start = group.create_task(backend.start(ID, b"spec", b"script", settle=settled.append))
        first = await keeper.receive()
        keeper.die()
        keeper.listen()
        await keeper.greet()
        again = await keeper.receive()
        assert again == first
        assert again[1] == b"specscript"
        keeper.answer(again[0], pid=7, started_ns=8, existing=True)
        assert await start == StartOutcome(7, 8, is_existing=True)
    assert settled == [StartOutcome(7, 8, is_existing=True)]
    assert listener.told == ["opened", "ready 4242", "closed", "opened", "ready 4242"]


async def test_a_large_start_travels_in_a_file_every_time(keeper: FakeKeeper, listener: Listener) -> None:
    script = os.urandom(3_000_000)
    async with opened(keeper, listener) as backend, asyncio.TaskGroup() as group:
        start = group.create_task(backend.start(ID, b"spec", script, settle=no_settle))
        for _ in range(2):
            request, payload = await keeper.receive()
            assert request["in_fd"] is True
            assert payload == b"spec" + script
            if start.done():
                break
            keeper.die(listening=True)
            await keeper.greet()
        request, _ = await keeper.receive()
        keeper.answer(request, pid=7, started_ns=8)


async def test_idempotent_requests_are_repeated_and_others_fail(
    keeper: FakeKeeper, listener: Listener
) -> None:
    """A written byte or a signal may have arrived: nobody knows, so it is never sent twice."""
    async with opened(keeper, listener) as backend, asyncio.TaskGroup() as group:
        repeated = [
            group.create_task(backend.control(ID, Pause())),
            group.create_task(backend.control(ID, Resume())),
            group.create_task(backend.control(ID, Stop(cause=Cause.CANCEL, grace_s=1.0, note="x"))),
            group.create_task(backend.control(ID, CloseInput())),
            group.create_task(backend.control(ID, ResizeWindow(rows=1, cols=2))),
            group.create_task(backend.control(ID, ReleaseOutput(stdout_bytes=1, stderr_bytes=2))),
        ]
        write = asyncio.ensure_future(backend.write(ID, b"data"))
        kill = asyncio.ensure_future(backend.control(ID, SignalProcess(signal=9, whole_tree=True)))
        seen = [await keeper.receive() for _ in range(8)]
        assert seen[-2][1] == b"data"
        keeper.die(listening=True)
        for lost in (write, kill):
            with pytest.raises(BackendUnavailable) as caught:
                await lost
            assert caught.value.code == "keeper_restarted"
        await keeper.greet()
        for expected in seen[:6]:
            request, _ = await keeper.receive()
            assert request == expected[0]
            keeper.answer(request)
        await asyncio.gather(*repeated)


async def test_what_was_never_sent_may_be_sent_later(keeper: FakeKeeper, listener: Listener) -> None:
    """A write that was asked while nobody listened has not happened: it goes to the next supervisor."""
    async with opened(keeper, listener) as backend, asyncio.TaskGroup() as group:
        keeper.die()
        while "closed" not in listener.told:  # noqa: ASYNC110 - the listener has no event for it
            await asyncio.sleep(0)
        write = group.create_task(backend.write(ID, b"later"))
        keeper.listen()
        await keeper.greet()
        request, payload = await keeper.receive()
        assert payload == b"later"
        keeper.answer(request)
        await write


async def test_a_refusal_becomes_an_error_of_its_family(keeper: FakeKeeper, listener: Listener) -> None:
    outcomes: list[object] = []
    async with opened(keeper, listener) as backend, asyncio.TaskGroup() as group:
        start = group.create_task(collect(backend.start(ID, b"", b"", settle=outcomes.append)))
        request, _ = await keeper.receive()
        keeper.answer(request, error="not_found", message="No such program.", details={"program": "x"})
        error = await start
        assert isinstance(error, StartFailed)
        assert (error.code, error.message, error.details["program"]) == ("not_found", "No such program.", "x")
        assert outcomes == [error]
        odd = group.create_task(collect(backend.status()))
        request, _ = await keeper.receive()
        keeper.answer(request, error="from_a_newer_keeper", message="Something new.")
        assert getattr(await odd, "code", None) == "internal_error"


async def collect(call: object) -> object:
    """Return what a call raises (or returns)."""
    try:
        return await call  # type: ignore[misc] # any awaitable
    except OutliveError as error:
        return error


@pytest.mark.parametrize("dies", [False, True])
async def test_a_start_that_was_sent_and_not_answered_may_run(
    keeper: FakeKeeper, listener: Listener, monkeypatch: pytest.MonkeyPatch, *, dies: bool
) -> None:
    """Its id is in the answer, and "try again" is not: whether the keeper is silent, or has gone and not come
    back.
    """
    monkeypatch.setattr(local, "_START_S", 0.2)
    async with opened(keeper, listener) as backend:
        asked = asyncio.ensure_future(collect(backend.start(ID, b"spec", b"", settle=lambda _: None)))
        await keeper.receive()
        if dies:
            keeper.die()
        error = await asked
        assert isinstance(error, BackendUnavailable)
        assert error.details["process_id"] == ID
        assert f"It may run, as {ID}" in error.hint
        assert "again" not in error.hint.replace("before you start it again", "")


async def test_a_keeper_that_does_not_answer_is_told_with_a_hint(
    keeper: FakeKeeper, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_ANSWER_S", 0.05)
    monkeypatch.setattr(local, "_WRITE_S", 0.05)
    async with opened(keeper, listener) as backend:
        with pytest.raises(BackendUnavailable) as caught:
            await backend.status()
        assert caught.value.code == "timeout"
        assert caught.value.hint
        with pytest.raises(LimitExceeded) as full:
            await backend.write(ID, b"x")
        assert full.value.code == "stdin_full"
        assert full.value.details == {"written_bytes": 0, "waiting_bytes": 1}
        keeper.die()
        while "closed" not in listener.told:  # noqa: ASYNC110 - the listener has no event for it
            await asyncio.sleep(0)
        with pytest.raises(BackendUnavailable) as caught:
            await backend.status()
        assert caught.value.code == "keeper_unavailable"


async def test_a_cancelled_caller_still_settles_its_start(keeper: FakeKeeper, listener: Listener) -> None:
    settled: list[object] = []
    async with opened(keeper, listener) as backend:
        start = asyncio.ensure_future(backend.start(ID, b"", b"", settle=settled.append))
        request, _ = await keeper.receive()
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start
        keeper.answer(request, pid=1, started_ns=2)
        await answered(keeper, backend)
    assert settled == [StartOutcome(1, 2)]


async def answered(keeper: FakeKeeper, backend: Backend) -> None:
    """Ask and answer once: everything sent before has then been taken."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(backend.status())
        request, _ = await keeper.receive()
        keeper.answer(request)
        await task


async def test_a_fault_in_a_listener_or_a_packet_does_not_stop_the_stream(
    keeper: FakeKeeper, listener: Listener, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(keeper, listener) as backend:
        listener.fault = RuntimeError("a listener's fault")
        keeper.send(b"D" + SYNC)
        keeper.send(b"neither a doorbell nor JSON")
        keeper.send(b"J[]")
        await answered(keeper, backend)
        assert listener.told == ["opened", "ready 4242"]
        count = len(listener.bells)
        keeper.send(b"D" + SYNC * 3)
        await answered(keeper, backend)
        assert len(listener.bells) == count + 3
    assert caplog.text.count("could not be taken") == 3


async def test_a_supervisor_that_does_not_greet_is_left(
    keeper: FakeKeeper, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped supervisor accepts by its backlog and says nothing; the next one is asked."""
    monkeypatch.setattr(keeper_link, "_HELLO_S", 0.05)
    backend = LocalBackend(
        os.path.dirname(keeper.path), connect_unix=keeper.connect, ensure_keeper=keeper.ensure
    )
    async with asyncio.TaskGroup() as group:
        opening = group.create_task(backend.open(listener))
        await keeper.accept()
        silent = keeper.connection
        monkeypatch.setattr(keeper_link, "_HELLO_S", 10.0)
        await keeper.greet()
        await opening
    assert silent is not None
    silent.close()
    assert listener.told == ["opened", "opened", "ready 4242"]
    await backend.close()


async def test_a_supervisor_that_dies_while_it_is_greeted_is_replaced(
    keeper: FakeKeeper, listener: Listener
) -> None:
    backend = LocalBackend(
        os.path.dirname(keeper.path), connect_unix=keeper.connect, ensure_keeper=keeper.ensure
    )
    async with asyncio.TaskGroup() as group:
        opening = group.create_task(backend.open(listener))
        await keeper.accept()
        keeper.die(listening=True)
        await keeper.greet()
        await opening
    await backend.close()


async def test_a_keeper_that_cannot_be_started_is_told(
    tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(local, "_CONNECT_S", 0.3)
    monkeypatch.setattr(keeper_link, "_PATIENCE_S", 0.01)
    faults: list[Exception] = [
        PermissionError(13, "Permission denied"),
        BackendUnavailable("keeper_unavailable", "The keeper did not start within 8 s."),
    ]

    def connect(_path: str) -> socket.socket:
        raise FileNotFoundError

    def ensure(_state_dir: str) -> None:
        raise faults[0] if len(faults) == 1 else faults.pop(0)

    backend = LocalBackend(str(tmp_path), connect_unix=connect, ensure_keeper=ensure)
    with pytest.raises(BackendUnavailable, match="did not start within"):
        await backend.open(listener)
    assert "Permission denied" in caplog.text
    with pytest.raises(BackendUnavailable, match="not connected"):
        await backend.status()


async def test_callers_wait_when_the_keeper_does_not_read(
    keeper: FakeKeeper, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full socket makes requests wait in order; beyond the bound, callers wait before they ask."""
    monkeypatch.setattr(keeper_link, "_MAX_UNSENT", 5)
    monkeypatch.setattr(local, "_ANSWER_S", 10.0)
    monkeypatch.setattr("outlive.backends.local._MAX_HELD", 0)  # each write is a request
    async with opened(keeper, listener) as backend, asyncio.TaskGroup() as group:
        data = bytes(60_000)
        writes = [group.create_task(backend.write(ID, data + b"%d" % number)) for number in range(30)]
        for _ in range(10):
            await asyncio.sleep(0)
        abandoned = group.create_task(collect(backend.write(ID, b"abandoned")))
        await asyncio.sleep(0)
        for number in range(30):
            request, payload = await keeper.receive()
            assert payload == data + b"%d" % number
            keeper.answer(request)
        request, payload = await keeper.receive()
        assert payload == b"abandoned"
        keeper.answer(request)
        await asyncio.gather(*writes, abandoned)


async def test_closing_fails_what_is_unanswered(keeper: FakeKeeper, listener: Listener) -> None:
    async with opened(keeper, listener) as backend:
        waiting = asyncio.ensure_future(collect(backend.status()))
        await keeper.receive()
    error = await waiting
    assert isinstance(error, BackendUnavailable)
    assert "being stopped" in error.message
    assert listener.told == ["opened", "ready 4242"]
