"""Streams that bring little all the time take turns.

No byte is lost, whoever enters, leaves, is held or ends meanwhile.
"""

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
from outlive.keeper.supervisor.output import pump as relays
from outlive.keeper.supervisor.output.pump import Pump
from outlive.keeper.supervisor.process_table import ManagedProcesses, Unrecovered
from outlive.kernel.calls import unread_bytes
from outlive.kernel.disk import Reserve
from outlive.kernel.state_files import Journal
from outlive.protocols.frames import IDX
from tests.keeper.client import new_id

_CHATTY = 18  # short reads: two more than it takes
_PIPE_BYTES = 60_000  # some pages less than a pipe holds: it counts pages
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

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="wheel"))
        self.errors: list[str] = []
        self.ended: list[ManagedProcess] = []
        self.loop = Loop(self.errors.append)
        self.bells = Doorbells(self.loop)
        self.pump = Pump(
            self.loop,
            self.bells,
            Reserve(str(self.folder)),
            ended=self.ended.append,
            over_limit=lambda _stream: None,
        )
        self.loop.after_turns(self.pump.rest)
        self.wheel = self.pump._wheel
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

    def mix(self, *writers: _Writer) -> None:
        """Let them write until they take turns.

        A machine that stands still for a moment makes them begin anew.
        """
        deadline = time.monotonic() + 30
        while not all(writer.stream in self.wheel for writer in writers):
            assert time.monotonic() < deadline
            self.chat(*writers, times=1)

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10
        while not holds():
            assert time.monotonic() < deadline, (self.errors, [w.stream.empty_turns for w in self.writers])
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
        """Each stream that is not held is taken, in one way; a wheel of one would make it wait for nobody."""
        assert self.errors == []
        assert len(self.wheel) != 1
        for writer in self.writers:
            ways = [self.loop.is_watched(writer.stream.source), writer.stream in self.wheel]
            assert ways.count(True) == (0 if writer.is_held else 1), ways
        members = sum(writer.stream in self.wheel for writer in self.writers)
        assert members == len(self.wheel), "somebody is in the wheel who has ended"

    def close(self) -> None:
        for writer in self.writers:
            os.close(writer.end)
            os.close(writer.stream.source)
            os.close(writer.kept.idx)
            writer.stream.close_log()
        shutil.rmtree(self.folder)


@contextmanager
def _pumped() -> Iterator[_Pumped]:
    pumped = _Pumped()
    try:
        yield pumped
        pumped.check()
    finally:
        pumped.close()


def test_one_alone_is_taken_with_each_write() -> None:
    """Also when it speaks in bursts: nobody else is there to take turns with."""
    with _pumped() as pumped:
        writer = pumped.start()
        for _ in range(3):
            pumped.chat(writer)
            pumped.check()
            assert len(pumped.wheel) == 0
            pumped.pass_time(_SILENCE_S)


def test_two_take_turns_until_one_of_them_is_silent() -> None:
    with _pumped() as pumped:
        first, second = pumped.start(), pumped.start()
        pumped.mix(first, second)
        assert len(pumped.wheel) == 2
        pumped.check()
        pumped.chat(first, times=20)
        pumped.until(lambda: len(pumped.wheel) == 0)
        pumped.check()
        pumped.chat(second)
        pumped.mix(first, second)


def test_who_was_chatty_long_ago_does_not_wait_with_who_is_now() -> None:
    with _pumped() as pumped:
        first, second = pumped.start(), pumped.start()
        pumped.chat(first)
        pumped.pass_time(_SILENCE_S)
        pumped.chat(second)
        assert len(pumped.wheel) == 0


def test_one_that_brings_much_leaves() -> None:
    with _pumped() as pumped:
        first, second = pumped.start(), pumped.start()
        pumped.mix(first, second)
        first.write(bytes(20_000))
        pumped.until(first.is_complete)
        assert len(pumped.wheel) == 0
        pumped.check()


@pytest.mark.parametrize("count", [2, 8, 50])
def test_the_end_of_one_among_many_is_seen_and_the_others_go_on(count: int) -> None:
    with _pumped() as pumped:
        writers = [pumped.start() for _ in range(count)]
        pumped.mix(*writers)
        assert len(pumped.wheel) == count
        pumped.end(writers[0])
        pumped.check()
        pumped.chat(*writers[1:], times=2)


def test_what_is_held_is_not_taken_and_goes_on_where_it_was() -> None:
    """The `block` policy: its pipe fills, and the command waits."""
    with _pumped() as pumped:
        writers = [pumped.start() for _ in range(3)]
        pumped.mix(*writers)
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


def test_what_comes_while_nothing_was_there_gets_its_record_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both streams of one process take turns, and bytes arrive between the look and the splice."""
    with _pumped() as pumped:
        writer = pumped.start()
        writer.write(b"first\n")
        pumped.until(writer.is_complete)
        writer.kept.run_stream = 1  # the other stream was moved since
        runs = Path(writer.kept.folder, "idx").stat().st_size

        def count_and_write(fd: int) -> int:
            waiting = unread_bytes(fd)
            if not waiting:
                writer.write(b"x")
            return waiting

        with monkeypatch.context() as patch:
            patch.setattr(relays, "unread_bytes", count_and_write)
            assert not pumped.pump.move(writer.stream)
        assert Path(writer.kept.folder, "idx").stat().st_size == runs
        pumped.until(writer.is_complete)
        assert Path(writer.kept.folder, "idx").stat().st_size == runs + IDX.size


@pytest.mark.parametrize("said_before", [b"", b"hello\n"])
def test_what_is_said_between_the_look_and_the_end_is_kept(said_before: bytes) -> None:
    """poll(2) looks for bytes first, and then whether there is a writer: who speaks in between and goes has
    only hung up.
    """
    with _pumped() as pumped:
        writer = pumped.start()
        writer.write(said_before)
        pumped.until(writer.is_complete)
        writer.write(b"last words\n")
        os.close(writer.end)
        pumped.pump._hung_up(writer.stream)
        assert writer.is_complete()
        assert not writer.stream.is_open
        assert pumped.ended == [writer.kept]
        pumped.writers.remove(writer)
        for fd in (writer.stream.source, writer.kept.idx):
            os.close(fd)
        writer.stream.close_log()


def test_what_is_let_go_of_while_it_takes_turns_is_not_moved_again() -> None:
    """The keeper ends, and strangers hold a stream of what has ended long ago."""
    with _pumped() as pumped:
        writers = [pumped.start() for _ in range(3)]
        pumped.mix(*writers)
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
        pumped.mix(*writers)
        broken, *others = writers
        log, broken.stream.log = broken.stream.log, os.open("/dev/null", os.O_RDONLY)
        broken.write(b"x")
        pumped.until(lambda: bool(pumped.errors))
        pumped.chat(*others, times=3)
        os.close(broken.stream.log)
        broken.stream.log = log
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
