"""Moves output from pipes and terminals into the log by splice(2): taking and appending are one system call.

So a SIGKILL cannot fall between the two, and after a restart the write offset is the log's size. Before the
first bytes of a run (the stream changed, or 100 ms passed) a record is appended to the index: written ahead,
so that a kill at any point leaves nothing to repair. When a stream gets its turn is decided by `round_robin`,
what may be kept by `limits`.

Some streams have a relay: a second pipe in which bytes wait between source and log, held by the shim like the
source itself. A terminal always has one, since splice(2) does not move from a terminal into a file. A pipe
gets one as soon as it brings very much (decision 130). While splice copies from a pipe into a file it holds
the pipe's lock, and a writer spins on that lock (`mutex_spin_on_owner`); from pipe to pipe it moves whole
pages in no time, and the copying happens while the writer writes.

Bytes in a relay are older than bytes in the source. No event reports them: code that leaves some there must
come back itself.
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable

from outlive.core.layout import STREAM_FILES
from outlive.keeper.supervisor.clients import Doorbells
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess, Stream
from outlive.keeper.supervisor.output.round_robin import RoundRobin
from outlive.kernel import sockets
from outlive.kernel.calls import has_no_writer, unread_bytes
from outlive.kernel.disk import FULL, Reserve
from outlive.kernel.failpoints import hit
from outlive.protocols.frames import IdxRecord
from outlive.protocols.keeper import Flags, Phase

BIG_PIPE_BYTES = 1 << 20  # 1 MiB: the most that an unprivileged process may ask for (pipe(7), pipe-max-size)
FULL_FLOW_BYTES = BIG_PIPE_BYTES >> 3  # with so much waiting at once, more follows soon
_OFFERED_AFTER = 1 << 20  # bytes of a stream: a shorter one ends before a relay would pay
_RELAY_TERMINAL_BYTES = 65536  # the size of a pipe; a terminal gives less at a time
_LETTERS = "rw"


def fill_relay(stream: Stream) -> int:
    """Return how many bytes wait in a stream's relay, after filling it from the source if it was empty.

    0: a pipe has little, which is moved directly from the pipe; its end is found there, too.

    Raises:
        BlockingIOError: A terminal has nothing.
        OSError: EIO when the terminal's other side is not open any more (pty(7)).
    """
    waiting = unread_bytes(stream.process.fds["r"])
    if waiting:
        return waiting
    if stream.is_terminal:
        waiting = os.splice(stream.source, stream.relay, _RELAY_TERMINAL_BYTES, flags=os.SPLICE_F_NONBLOCK)
        hit("pump.relayed")
    elif unread_bytes(stream.source) >= FULL_FLOW_BYTES:
        waiting = os.splice(stream.source, stream.relay, BIG_PIPE_BYTES, flags=os.SPLICE_F_NONBLOCK)
        hit("relay.filled")
    return waiting


def unread_of(stream: Stream) -> int:
    """Return how many bytes of a stream wait, in its source and in its relay together."""
    waiting = unread_bytes(stream.source)
    return waiting if stream.relay < 0 else waiting + unread_bytes(stream.process.fds["r"])


def offer_relay(stream: Stream) -> None:
    """Make a relay for a pipe in full flow, and ask the shim to hold it.

    It is used once the shim has answered `kept`.

    Only stdout of a process can have one.
    """
    process = stream.process
    if stream.index or stream.offset < _OFFERED_AFTER or process.shim is None or process.shim.is_inside:
        return
    stream.may_be_relayed = False
    with contextlib.suppress(OSError):  # out of descriptors, or of big pipes (pipe(7), pipe-user-pages-soft)
        ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, BIG_PIPE_BYTES)
            is_offered = sockets.send(process.shim.socket, b"keep " + _LETTERS.encode(), ends)
        except OSError:
            is_offered = False
        if is_offered:
            process.fds.update(zip(_LETTERS, ends, strict=True))
            hit("relay.offered")
        else:
            for end in ends:
                os.close(end)


def use_relay(process: ManagedProcess) -> None:
    """Use the relay from now on: the shim holds what it was offered."""
    for stream in process.streams[:1]:
        stream.relay = process.fds.get("w", -1)


_splice, _NONBLOCK = os.splice, os.SPLICE_F_NONBLOCK
_SPLICE_BYTES = 1 << 20  # at most, in one call: a big pipe's content
_RUN_NS = 100_000_000  # 100 ms: the precision of times in a log
_SHORT_BYTES = 4096  # less than this is little: a line, not a flow
# A read of a terminal gives at most 4095 bytes, however much it brings (n_tty.c).
_SHORT_TERMINAL_BYTES = 1024
_BUSY_BYTES = 32 * 1024  # half a usual pipe in one turn: the pipe is made bigger
# A stream that brings much is collected until its pipe is half full: fewer turns, doorbells and wake-ups for
# the same bytes.
_HALF_PIPE_BYTES = BIG_PIPE_BYTES >> 1
_REST_STEP_S = 0.00005  # by which a rest grows
_MOST_REST_S = 0.0008  # far below what a user could notice
_RETRY_S = 0.25  # until the next attempt on a full disk
_TERMINAL_BYTES = 128 * 1024  # twice the kernel's flip buffers (`_waiting`)


class Pump:
    """Owns the reading side of every stream.

    `bells` report each change, `ended` is called at each stream's end.
    """

    def __init__(
        self,
        loop: Loop,
        bells: Doorbells,
        reserve: Reserve,
        *,
        ended: Callable[[ManagedProcess], None],
        over_limit: Callable[[Stream], None],
    ) -> None:
        """Begin without streams; `rest` has to be the last hook of every turn."""
        self._loop = loop
        self._bells = bells
        self._reserve = reserve
        self._ended = ended
        self._over_limit = over_limit
        self._wheel = RoundRobin(loop, self.move, self._hung_up)
        self._most = 0  # the largest number of bytes that a big stream brought in this turn
        self._rest_s = 0.0

    def add(self, stream: Stream) -> None:
        """Start to move a stream's bytes."""
        self._wheel.watch(stream)
        if stream.relay >= 0:
            self._loop.later(0.0, lambda: self._move_on(stream))

    def move(self, stream: Stream) -> bool:
        """Move what is there with one splice; False when there was nothing (or nothing can be moved now)."""
        if stream.log < 0 and not self._open_log(stream):
            return False
        # The record of a new run comes first: without it the bytes would have no time and no place among the
        # streams.
        process = stream.process
        now = self._loop.now_ns
        if (process.run_stream != stream.index or now - process.run_ns >= _RUN_NS) and not self._begin_run(
            stream, now
        ):
            return False
        try:
            relayed = fill_relay(stream) if stream.relay >= 0 else 0
            # The relay's bytes are older than the source's.
            source = process.fds["r"] if relayed or stream.is_terminal else stream.source
            moved = _splice(source, stream.log, _SPLICE_BYTES, None, stream.offset, _NONBLOCK)
        except BlockingIOError:
            return False
        except OSError as error:
            return self._handle_error(stream, error)
        if not moved:
            self.close(stream)
            return False
        hit("pump.moved")
        stream.offset += moved
        if moved < relayed:
            self._loop.later(0.0, lambda: self._move_on(stream))
        if moved < _SHORT_BYTES and (not stream.is_terminal or moved < _SHORT_TERMINAL_BYTES):
            self._bells.touch(process)
            self._wheel.note_little(stream, now)
        else:
            is_bulk = stream.is_big and moved >= FULL_FLOW_BYTES
            if is_bulk and stream.may_be_relayed:
                offer_relay(stream)
            (self._bells.touch_bulk if is_bulk else self._bells.touch)(process)
            self._measure(stream, moved)
        limit = process.spec.output_limit
        if limit is not None and stream.offset > limit >> 1:
            self._over_limit(stream)
        return True

    def _hung_up(self, stream: Stream) -> None:
        """Move what came before the last writer closed, and end the stream at once if that was all."""
        if stream.is_terminal or unread_of(stream):
            self.move(stream)
            if not stream.is_open or stream.is_terminal or unread_of(stream):
                return
        self.close(stream)

    def _move_on(self, stream: Stream) -> None:
        """Move the rest of a relay's bytes; in a stream that is held they wait, too."""
        if stream.is_open and self._wheel.moves(stream):
            self.move(stream)

    def _open_log(self, stream: Stream) -> bool:
        """Make the log of a stream that brings its first bytes; close a stream that ended without any."""
        is_over = has_no_writer(stream.source)  # asked before counting: so no byte can come in between
        try:
            if unread_bytes(stream.source):
                path = f"{stream.process.folder}/{STREAM_FILES[stream.index]}"
                stream.log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                return True
        except OSError as error:
            return self._handle_error(stream, error)
        if is_over:
            self.close(stream)
        return False

    def _begin_run(self, stream: Stream, now: int) -> bool:
        process = stream.process
        if not stream.is_terminal and not unread_of(stream):
            if not has_no_writer(stream.source):
                # Nothing is there; bytes that come after this look must come with a record of their own.
                return False
            if not unread_of(stream):  # asked again: the last writer may have written before it closed
                return True  # the end of a stream begins no run
        record = IdxRecord(now, process.total, stream.offset, stream.index)
        try:
            os.write(process.idx, record.encode())
        except OSError as error:
            self._handle_error(stream, error)
            return False
        hit("pump.run_begun")
        process.run_stream = stream.index
        process.run_ns = now
        return True

    def _handle_error(self, stream: Stream, error: OSError) -> bool:
        if error.errno == errno.EIO and stream.is_terminal:
            self.close(stream)  # the last slave side was closed (pty(7))
            return False
        if error.errno not in FULL and error.errno != errno.EROFS:
            raise error
        self.hold(stream)
        if not stream.is_stalled:
            stream.is_stalled = True
            self._loop.later(
                0.0 if _make_room(stream, self._reserve) else _RETRY_S, lambda: self._retry(stream)
            )
            self._report_stall(stream.process)
        return False

    def _retry(self, stream: Stream) -> None:
        """Try again after the disk was full; nothing is lost, since the process waited at its full pipe."""
        stream.is_stalled = False
        if not stream.is_open:
            return
        process = stream.process
        self.add(stream)
        self.move(stream)
        self._report_stall(process)
        if process.phase == Phase.EXITED and stream.is_open:
            self._ended(process)

    def _report_stall(self, process: ManagedProcess) -> None:
        flags = process.flags & ~Flags.STALLED
        if any(stream.is_stalled for stream in process.streams):
            flags |= Flags.STALLED
        if flags != process.flags:
            process.flags = flags
            self._bells.touch(process)

    def hold(self, stream: Stream) -> None:
        """Stop reading until `add`; the process waits once its pipe is full.

        Also called before a descriptor is closed.
        """
        self._wheel.leave(stream)

    def drain(self, process: ManagedProcess) -> bool:
        """Move what is in the pipes now, and no more than that: a grandchild may write for ever.

        Returns whether all of it is in the log.
        """
        for stream in process.streams:
            if not stream.is_open:
                continue
            target = stream.offset + _waiting(stream)
            while stream.offset < target and self.move(stream):
                pass
            if stream.is_stalled:
                return False
            if stream.is_open:
                self.move(stream)  # if no writer is left, this notices the end at once
        return True

    def close(self, stream: Stream) -> None:
        """End a stream: no byte can come any more."""
        stream.is_open = False
        self.hold(stream)
        # The command's end mostly follows at once, and then one doorbell reports both.
        (self._bells.touch if stream.process.phase >= Phase.EXITED else self._bells.touch_later)(
            stream.process
        )
        self._ended(stream.process)

    def _measure(self, stream: Stream, moved: int) -> None:
        self._wheel.note_much(stream)
        if stream.is_big:
            self._most = max(self._most, moved)
        elif moved >= _BUSY_BYTES and not stream.is_terminal:
            stream.is_big = True
            # Unprivileged users may be refused (pipe(7), pipe-user-pages-soft): then the pipe keeps its size.
            with contextlib.suppress(OSError):
                fcntl.fcntl(stream.source, fcntl.F_SETPIPE_SZ, BIG_PIPE_BYTES)

    def rest(self) -> None:
        """Wait a moment before the next turn when a stream brings much, so that more is collected.

        As long as a pipe takes to be half full: a little longer each time it was less, half as long if it was
        more. So no writer waits for us; a pipe that is full in no time is read without any rest.
        """
        most, self._most = self._most, 0
        if not most:
            return
        if most > _HALF_PIPE_BYTES:
            self._rest_s /= 2
        else:
            self._rest_s = min(self._rest_s + _REST_STEP_S, _MOST_REST_S)
        if self._rest_s >= _REST_STEP_S:
            time.sleep(self._rest_s)


def _make_room(stream: Stream, reserve: Reserve) -> bool:
    """Give up some of the reserve for what an ended command has left in its pipe.

    Return whether there was some.

    That is limited, so that the command that filled the disk can be removed. What a tree writes that is being
    ended is not: its last writer is waited for, or it would take the room of what it leaves.
    """
    process = stream.process
    if process.phase < Phase.EXITED:
        return False
    if process.stop_at and not stream.is_terminal and not has_no_writer(stream.source):
        return False
    return reserve.give_up(keep=reserve.for_records)


def _waiting(stream: Stream) -> int:
    """Return how many bytes may be on their way at most."""
    if stream.is_terminal:
        # What was written to a terminal may still be in the kernel's flip buffers (64 KiB, tty_buffer.c).
        # FIONREAD does not count them, and each read moves them on a little: so read until a read would
        # block.
        return _TERMINAL_BYTES + unread_bytes(stream.process.fds["r"])
    try:
        return unread_of(stream)
    except OSError:
        return 0
