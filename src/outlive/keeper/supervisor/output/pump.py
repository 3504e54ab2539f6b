"""What it means that a stream was moved: `Pump`. Bytes go from pipes and terminals into the log by `flow`.

Taking and appending are one system call there, so a SIGKILL cannot fall between the two, and after a restart
the write offset is the log's size. Before the first bytes of a run (the stream changed, or 100 ms passed) a
record is appended to the index: written ahead, so that a kill at any point leaves nothing to repair. What may
be kept is decided by `limits`.

Some streams have a relay: a second pipe in which bytes wait between source and log, held by the shim like the
source itself. A terminal always has one, a pipe gets one as soon as it brings very much (decision 130).
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable

from outlive.core.layout import STREAM_FILES
from outlive.keeper.supervisor.clients import Doorbells
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess, Stream
from outlive.keeper.supervisor.output.flow import ENDED, NEEDS_LOG, FlowLibrary, Report
from outlive.kernel import sockets
from outlive.kernel.calls import has_no_writer, unread_bytes
from outlive.kernel.disk import FULL, Reserve
from outlive.kernel.failpoints import hit
from outlive.protocols.keeper import Flags, Phase

BIG_PIPE_BYTES = 1 << 20  # 1 MiB: the most that an unprivileged process may ask for (pipe(7), pipe-max-size)
_FULL_FLOW_BYTES = BIG_PIPE_BYTES >> 3  # with so much moved at once, more follows soon
_OFFERED_AFTER = 1 << 20  # bytes of a stream: a shorter one ends before a relay would pay
_LETTERS = "rw"
_RETRY_S = 0.25  # until the next attempt on a full disk
_TERMINAL_BYTES = 128 * 1024  # twice the kernel's flip buffers (`_waiting`)


def _unread_of(stream: Stream) -> int:
    """Return how many bytes of a stream wait, in its source and in its relay together."""
    waiting = unread_bytes(stream.source)
    return waiting if stream.relay < 0 else waiting + unread_bytes(stream.process.fds["r"])


def _offer_relay(stream: Stream) -> None:
    """Make a relay for a pipe in full flow, and ask the shim to hold it.

    It is used once the shim has answered `kept`. Only stdout of a process can have one.
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


class Pump:
    """Owns the reading side of every stream.

    `bells` report each change, `ended` is called at each stream's end, `over_limit` when a process may have
    written more than its limit.
    """

    def __init__(
        self,
        loop: Loop,
        bells: Doorbells,
        reserve: Reserve,
        flow: FlowLibrary,
        *,
        ended: Callable[[ManagedProcess], None],
        over_limit: Callable[[Stream], None],
    ) -> None:
        self._loop = loop
        self._bells = bells
        self._reserve = reserve
        self._flow = flow
        self._ended = ended
        self._over_limit = over_limit
        self._streams: dict[int, Stream] = {}
        loop.watch(flow.descriptor, self._turn)

    def add(self, stream: Stream) -> None:
        """Start to move a stream's bytes."""
        if stream.number < 0:
            self._open(stream.process)
        self._set(stream)
        self._flow.watch(stream.number, is_watched=True)
        stream.is_watched = True
        if stream.relay >= 0:
            self._loop.later(0.0, lambda: self._move_on(stream))  # no event tells of what is in a relay

    def use_relay(self, process: ManagedProcess) -> None:
        """Use the relay from now on: the shim holds what it was offered."""
        for stream in process.streams[:1]:
            stream.relay = process.fds.get("w", -1)
            if stream.number >= 0:  # else it is moved later, or never
                self._set(stream)

    def hold(self, stream: Stream) -> None:
        """Stop reading until `add`; the process waits once its pipe is full.

        Also called before a descriptor is closed.
        """
        if stream.is_watched:
            stream.is_watched = False
            self._flow.watch(stream.number, is_watched=False)

    def forget(self, process: ManagedProcess) -> None:
        """Let go of a process's streams: the rest of its output is not wanted."""
        for stream in process.streams:
            self.hold(stream)
        numbers = [stream.number for stream in process.streams if self._streams.pop(stream.number, None)]
        if numbers:
            self._flow.close(numbers[0] // 2)
        for stream in process.streams:
            stream.number = -1

    def move(self, stream: Stream) -> bool:
        """Move what is there; False when there was nothing (or nothing can be moved now)."""
        if stream.number < 0:
            self._open(stream.process)
            self._set(stream)
        return self._take(stream, self._flow.move(stream.number, self._loop.now_ns))

    def _open(self, process: ManagedProcess) -> None:
        offsets = {stream.index: stream.offset for stream in process.streams}
        number = self._flow.open(process.idx, offsets.get(0, 0), offsets.get(1, 0))
        for stream in process.streams:
            stream.number = 2 * number + stream.index
            self._streams[stream.number] = stream

    def _set(self, stream: Stream) -> None:
        relay = (stream.relay, stream.process.fds["r"]) if stream.relay >= 0 else None
        self._flow.set(
            stream.number,
            source=stream.source,
            log=stream.log,
            relay=relay,
            is_terminal=stream.is_terminal,
        )

    def _turn(self, _events: int) -> None:
        # Whose reports they are, before one of them changes that.
        reports = [(self._streams[report[0]], report) for report in self._flow.turn(self._loop.now_ns)]
        failed = None
        for stream, report in reports:
            try:
                if stream.is_open:
                    self._take(stream, report)
            except OSError as error:  # the others have moved, too, and servers must learn it
                failed = error
        if failed is not None:
            raise failed

    def _take(self, stream: Stream, report: Report) -> bool:
        """Act on what a move has found; return whether bytes were moved."""
        _, result, offset = report
        # What was handled before it in this turn may have moved the stream further.
        stream.offset = max(stream.offset, offset)
        if result == ENDED:
            self.close(stream)
        elif result == NEEDS_LOG:
            return self._open_log(stream) and self.move(stream)
        elif result < 0:
            self._handle_error(stream, OSError(-result, os.strerror(-result)))
        elif result:
            is_bulk = result >= _FULL_FLOW_BYTES
            if is_bulk and stream.may_be_relayed:
                _offer_relay(stream)
            (self._bells.touch_bulk if is_bulk else self._bells.touch)(stream.process)
            limit = stream.process.spec.output_limit
            if limit is not None and stream.offset > limit >> 1:
                self._over_limit(stream)
        return result > 0

    def _move_on(self, stream: Stream) -> None:
        """Move what is in a relay; in a stream that is held it waits, too."""
        if stream.is_watched:
            self.move(stream)

    def _open_log(self, stream: Stream) -> bool:
        """Make the log of a stream that has brought its first bytes."""
        path = f"{stream.process.folder}/{STREAM_FILES[stream.index]}"
        try:
            stream.log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._handle_error(stream, error)
            return False
        self._set(stream)
        return True

    def _handle_error(self, stream: Stream, error: OSError) -> None:
        if error.errno == errno.EIO and stream.is_terminal:
            self.close(stream)  # the last slave side was closed (pty(7))
            return
        self.hold(stream)
        if not stream.is_stalled:
            stream.is_stalled = True
            self._loop.later(
                0.0 if _make_room(stream, self._reserve) else _RETRY_S, lambda: self._retry(stream)
            )
            self._report_stall(stream.process)
        if error.errno not in FULL and error.errno != errno.EROFS:
            raise error  # into the log, at most once in each attempt

    def _retry(self, stream: Stream) -> None:
        """Try again after the disk was full; nothing is lost, since the process waited at its full pipe."""
        stream.is_stalled = False
        if not stream.is_open or stream.number < 0:
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
        return _unread_of(stream)
    except OSError:
        return 0
