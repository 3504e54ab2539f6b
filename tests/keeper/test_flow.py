"""Streams that bring something all the time are moved together; no byte is lost, whichever is held or ends
meanwhile.
"""

import ctypes
import functools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outlive.core.layout import Layout
from outlive.core.spec import Spec
from outlive.keeper.supervisor.clients import Doorbells
from outlive.keeper.supervisor.inputs import Inputs
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess, Stream
from outlive.keeper.supervisor.output.flow import FlowLibrary, Report
from outlive.keeper.supervisor.output.pump import Pump
from outlive.keeper.supervisor.process_table import ManagedProcesses, Unrecovered
from outlive.kernel.disk import Reserve
from outlive.kernel.state_files import Journal
from outlive.protocols.frames import IDX, IdxRecord, decode_idx
from tests.keeper.client import new_id
from tests.keeper.house import shim_program

_CHATTY = 18  # short reads: two more than it takes
_PIPE_BYTES = 60_000  # some pages less than a pipe holds: it counts pages
_HOOK = ctypes.CFUNCTYPE(None, ctypes.c_int)
_SILENCE_S = 0.05  # longer than a stream may be silent and still be chatty


@dataclass(eq=False)
class _Writer:
    """A process that writes into a real pipe, and what it has written."""

    kept: ManagedProcess
    stream: Stream
    end: int
    written: bytearray = field(default_factory=bytearray)
    is_held: bool = False

    def write(self, content: bytes) -> None:
        os.write(self.end, content)
        self.written += content

    def logged(self) -> bytes:
        path = Path(self.kept.folder, "out")
        return path.read_bytes() if path.exists() else b""

    def is_complete(self) -> bool:
        """Tell whether all that was written is in the log."""
        return self.logged() == self.written


class _Pumped:
    """A pump with a loop that turns when it is told to; no error of it is overlooked."""

    def __init__(self, program: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wheel"))
        self.errors: list[str] = []
        self.ended: list[ManagedProcess] = []
        self.loop = Loop(self.errors.append)
        self.bells = Doorbells(self.loop)
        with open(program or shim_program(), "rb") as file:
            self.flow = FlowLibrary(file.fileno())
        self.pump = Pump(
            self.loop,
            self.bells,
            Reserve(str(self.folder)),
            self.flow,
            ended=self.ended.append,
            over_limit=lambda _stream: None,
        )
        self.writers: list[_Writer] = []

    def start(self) -> _Writer:
        folder = self.folder / (process_id := new_id())
        folder.mkdir()
        kept = ManagedProcess(process_id, str(folder), Spec(program="true", argv=("true",), env={}, cwd="/"))
        kept.idx = os.open(folder / "idx", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        source, end = os.pipe()
        os.set_blocking(source, False)
        kept.streams = [Stream(kept, 0, source=source, log=-1)]
        self.writers.append(writer := _Writer(kept, kept.streams[0], end))
        self.pump.add(writer.stream)
        return writer

    def chat(self, *writers: _Writer, times: int = _CHATTY) -> None:
        """Let each write a little, and have that taken, so many times."""
        for number in range(times):
            for writer in writers:
                writer.write(b"%d\n" % number)
            self.until(lambda: all(writer.is_complete() for writer in writers))

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not holds():
            assert time.monotonic() < deadline, self.errors
            self.pass_time(0.0005)

    def pass_time(self, seconds: float) -> None:
        over: list[bool] = []
        self.loop.later(seconds, lambda: over.append(True))
        while not over:
            self.loop.turn()

    def end(self, writer: _Writer) -> None:
        """Let the command close its stream, and the keeper its descriptors once it has noticed."""
        os.close(writer.end)
        self.until(lambda: not writer.stream.is_open)
        os.close(writer.stream.source)
        self.writers.remove(writer)
        assert writer.is_complete()
        os.close(writer.kept.idx)
        writer.stream.close_log()

    def check(self) -> None:
        """Each stream that is not held is moved."""
        assert self.errors == []
        for writer in self.writers:
            assert writer.stream.is_watched == (not writer.is_held)

    def close(self) -> None:
        for writer in self.writers:
            os.close(writer.end)
            os.close(writer.stream.source)
            os.close(writer.kept.idx)
            writer.stream.close_log()
        shutil.rmtree(self.folder)


@contextmanager
def _pumped(program: Path | None = None) -> Iterator[_Pumped]:
    pumped = _Pumped(program)
    try:
        yield pumped
        pumped.check()
    finally:
        pumped.close()


def _moves_at_once(pumped: _Pumped, writer: _Writer) -> bool:
    """Return whether the next turn of the loop moves what is written now."""
    writer.write(b"now\n")
    pumped.loop.later(0.0, lambda: None)  # the turn does not wait
    pumped.loop.turn()
    return writer.is_complete()


def test_what_comes_after_quiet_waits_for_nothing() -> None:
    with _pumped() as pumped:
        first, second = pumped.start(), pumped.start()
        for _ in range(3):
            pumped.chat(first, times=60)
            assert _moves_at_once(pumped, second)
            pumped.pass_time(_SILENCE_S)
            assert _moves_at_once(pumped, first)


def test_many_short_writes_are_moved_in_a_bounded_number_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn, and the doorbells behind it, for each half millisecond, and not for each write."""
    with _pumped() as pumped:
        writers = [pumped.start() for _ in range(10)]
        pumped.chat(*writers)
        turns, moves = [0], 0
        real = pumped.flow.turn

        def count(now_ns: int) -> list[Report]:
            turns[0] += 1
            return real(now_ns)

        monkeypatch.setattr(pumped.flow, "turn", count)
        began = time.monotonic()
        while time.monotonic() < began + 0.5:
            for writer in writers:
                writer.write(b"line\n")
                moves += 1
            pumped.loop.later(0.0, lambda: None)
            pumped.loop.turn()
        took_s = time.monotonic() - began
        assert turns[0] < took_s * 2 * 2200, f"{turns[0]} turns for {moves} writes"  # one also ends each rest
        pumped.until(lambda: all(writer.is_complete() for writer in writers))


@pytest.mark.parametrize("count", [2, 8, 50])
def test_the_end_of_one_among_many_is_seen_and_the_others_go_on(count: int) -> None:
    with _pumped() as pumped:
        writers = [pumped.start() for _ in range(count)]
        pumped.chat(*writers)
        pumped.end(writers[0])
        pumped.check()
        pumped.chat(*writers[1:], times=2)


def test_what_is_held_is_not_taken_and_goes_on_where_it_was() -> None:
    """The `block` policy: its pipe fills, and the command waits."""
    with _pumped() as pumped:
        writers = [pumped.start() for _ in range(3)]
        pumped.chat(*writers)
        held = writers[0]
        held.is_held = True
        pumped.pump.hold(held.stream)
        before = held.logged()
        held.write(b"for later\n")
        pumped.chat(*writers[1:])
        assert held.logged() == before
        pumped.check()
        for _ in range(_CHATTY):  # its process ends, and what is there is moved, piece by piece
            held.write(b"x")
            assert pumped.pump.drain(held.kept)
        pumped.check()
        held.is_held = False
        pumped.pump.add(held.stream)
        pumped.until(held.is_complete)


def test_what_comes_while_nothing_was_there_gets_its_record_first(hooked: Path) -> None:
    """A run is 100 ms old, and bytes arrive between the look and the splice."""
    with _pumped(hooked) as pumped:
        writer = pumped.start()
        writer.write(b"first\n")
        pumped.until(writer.is_complete)
        pumped.pass_time(0.11)  # the next bytes begin a run
        runs = Path(writer.kept.folder, "idx").stat().st_size

        def write(_fd: int) -> None:
            writer.write(b"x")

        hook = _HOOK(write)  # the library keeps no reference
        pumped.flow.library.set_hooks(hook, ctypes.c_size_t(1 << 20))
        assert not pumped.pump.move(writer.stream)
        pumped.flow.library.set_hooks(None, ctypes.c_size_t(1 << 20))
        assert Path(writer.kept.folder, "idx").stat().st_size == runs
        pumped.until(writer.is_complete)
        assert Path(writer.kept.folder, "idx").stat().st_size == runs + IDX.size


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("before", ["no log", "one log", "busy"])
def test_two_streams_of_a_process_are_moved_in_the_order_of_their_writes(first: int, before: str) -> None:
    """Also when the first one has no log yet, and the second one has; or when the first one rests."""
    with _pumped() as pumped:
        writer = pumped.start()
        source, end = os.pipe()
        os.set_blocking(source, False)
        other = Stream(writer.kept, 1, source=source, log=-1)
        pumped.pump.forget(writer.kept)
        writer.kept.streams.append(other)
        for stream in writer.kept.streams:
            pumped.pump.add(stream)
        ends = (writer.end, end)
        for size in range({"no log": 0, "one log": 1, "busy": _CHATTY}[before]):
            os.write(ends[first if before == "busy" else 1 - first], b"x")
            pumped.until(functools.partial(_has, writer.kept, size + 1))
        begun = len(_runs(writer))
        total = writer.kept.total
        os.write(ends[first], b"first\n")
        os.write(ends[1 - first], b"second\n")
        pumped.until(functools.partial(_has, writer.kept, total + 13))
        last = _runs(writer)[-1]
        assert (last.stream, last.start) == (1 - first, total + 6)
        assert len(_runs(writer)) - begun == (1 if before == "busy" else 2)
        pumped.pump.hold(other)
        os.close(source)
        os.close(end)
        other.close_log()


def _has(kept: ManagedProcess, size: int) -> bool:
    return kept.total == size


def _runs(writer: _Writer) -> list[IdxRecord]:
    return list(decode_idx(Path(writer.kept.folder, "idx").read_bytes()))


def test_a_clock_that_is_set_back_begins_a_run() -> None:
    """Else all that comes until it has caught up would have the time of the last run."""
    with _pumped() as pumped:
        writer = pumped.start()
        writer.write(b"first\n")
        pumped.until(writer.is_complete)
        pumped.loop.now_ns = time.time_ns() - 3_600_000_000_000
        writer.write(b"an hour before\n")
        assert pumped.pump.move(writer.stream)
        records = decode_idx(Path(writer.kept.folder, "idx").read_bytes())
        assert [record.time_ns for record in records][1:] == [pumped.loop.now_ns]


def test_a_stream_that_the_kernel_refuses_to_watch_anew_is_watched_as_before(hooked: Path) -> None:
    """ENOSPC: the user's other programs have used up fs.epoll.max_user_watches (epoll_ctl(2))."""
    with _pumped(hooked) as pumped:
        writer = pumped.start()
        pumped.flow.library.refuse_to_watch(1)
        pumped.chat(writer, times=2 * _CHATTY)
        pumped.flow.library.refuse_to_watch(0)
        pumped.chat(writer)


@pytest.mark.parametrize("said_before", [b"", b"hello\n"])
def test_what_is_said_between_the_look_and_the_end_is_kept(hooked: Path, said_before: bytes) -> None:
    """The last writer writes after the look for bytes, and has closed before the look for a writer."""
    with _pumped(hooked) as pumped:
        writer = pumped.start()
        writer.write(said_before)
        pumped.until(writer.is_complete)
        pumped.pass_time(0.11)
        hooks = [True]

        def write_and_close(_fd: int) -> None:
            if hooks:
                hooks.clear()
                writer.write(b"last words\n")
                os.close(writer.end)

        hook = _HOOK(write_and_close)  # the library keeps no reference
        pumped.flow.library.set_hooks(hook, ctypes.c_size_t(1 << 20))
        pumped.pump.move(writer.stream)
        pumped.flow.library.set_hooks(None, ctypes.c_size_t(1 << 20))
        pumped.until(lambda: not writer.stream.is_open)
        assert writer.is_complete()
        assert pumped.ended == [writer.kept]
        records = decode_idx(Path(writer.kept.folder, "idx").read_bytes())
        assert [record.offset for record in records] == ([0, len(said_before)] if said_before else [0])
        pumped.writers.remove(writer)
        for fd in (writer.stream.source, writer.kept.idx):
            os.close(fd)
        writer.stream.close_log()


def test_what_is_let_go_of_while_it_is_busy_is_not_moved_again() -> None:
    """The keeper ends, and strangers hold a stream of what has ended long ago."""
    with _pumped() as pumped:
        writers = [pumped.start() for _ in range(3)]
        pumped.chat(*writers)
        gone, *others = writers
        journal = Journal(str(pumped.folder / "live"), [])
        unrecovered = Unrecovered(pumped.loop, Layout(str(pumped.folder)), [])
        table = ManagedProcesses(
            pumped.loop, journal, Inputs(pumped.loop), unrecovered, touch=pumped.bells.touch
        )
        table.pump = pumped.pump
        gone.kept.fds["o"] = gone.stream.source
        table.by_key[gone.kept.key] = gone.kept
        table.forget(gone.kept)
        os.close(gone.end)
        pumped.writers.remove(gone)
        pumped.chat(*others)
        pumped.check()


def test_one_that_cannot_be_written_down_does_not_stop_the_others() -> None:
    """The disk of one is broken: each turn of it is an error in the keeper's log."""
    with _pumped() as pumped:
        writers = [pumped.start() for _ in range(3)]
        pumped.chat(*writers)
        broken, *others = writers
        log, broken.stream.log = broken.stream.log, os.open("/dev/null", os.O_RDONLY)
        pumped.pump.add(broken.stream)
        broken.write(b"x")
        pumped.until(lambda: bool(pumped.errors))
        pumped.chat(*others, times=3)
        os.close(broken.stream.log)
        broken.stream.log = log
        pumped.pump.add(broken.stream)
        pumped.until(broken.is_complete)
        assert "OSError" in pumped.errors[0]
        pumped.errors.clear()


@settings(max_examples=25, stateful_step_count=15, deadline=None)
class _Streams(RuleBasedStateMachine):
    """Whatever streams do, and in whatever order: each byte is in the log, once and in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.pumped = _Pumped()

    @precondition(lambda self: len(self.pumped.writers) < 12)
    @rule(count=st.integers(1, 5))
    def start(self, count: int) -> None:
        for _ in range(count):
            self.pumped.start()

    @rule(data=st.data(), times=st.integers(1, _CHATTY))
    def chat(self, data: st.DataObject, times: int) -> None:
        free = [writer for writer in self.pumped.writers if not writer.is_held]
        chosen = data.draw(st.lists(st.sampled_from(free), unique=True)) if free else []
        self.pumped.chat(*chosen, times=times)

    @precondition(lambda self: self.pumped.writers)
    @rule(data=st.data(), size=st.integers(1, 60_000))
    def write(self, data: st.DataObject, size: int) -> None:
        """As much as its pipe takes; a held one's waits there."""
        writer = data.draw(st.sampled_from(self.pumped.writers))
        if not writer.is_held:
            self.pumped.until(writer.is_complete)
        if len(writer.written) - len(writer.logged()) + size < _PIPE_BYTES:
            writer.write(bytes([65 + size % 26]) * size)

    @rule(seconds=st.sampled_from([0.001, 0.005, _SILENCE_S]))
    def wait(self, seconds: float) -> None:
        self.pumped.pass_time(seconds)

    @precondition(lambda self: self.pumped.writers)
    @rule(data=st.data())
    def hold_or_go_on(self, data: st.DataObject) -> None:
        writer = data.draw(st.sampled_from(self.pumped.writers))
        writer.is_held = not writer.is_held
        (self.pumped.pump.hold if writer.is_held else self.pumped.pump.add)(writer.stream)

    @precondition(lambda self: self.pumped.writers)
    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        writer = data.draw(st.sampled_from(self.pumped.writers))
        assert self.pumped.pump.drain(writer.kept)
        assert writer.is_complete()

    @precondition(lambda self: self.pumped.writers)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """Its descriptors are given to the next one that starts."""
        writer = data.draw(st.sampled_from(self.pumped.writers))
        if not writer.is_held:
            self.pumped.end(writer)

    @invariant()
    def each_is_taken_in_one_way(self) -> None:
        self.pumped.check()

    def teardown(self) -> None:
        try:
            for writer in self.pumped.writers:
                if writer.is_held:
                    self.pumped.pump.add(writer.stream)
                self.pumped.until(writer.is_complete)
        finally:
            self.pumped.close()


TestStreams = pytest.mark.thorough(_Streams.TestCase)
