"""Relay pipes: where the bytes of a stream wait between its source and its log, held by the shim like the source itself.

A terminal always has one: splice(2) does not move from a terminal into a file. A pipe gets one as soon as it brings very
much (decision 130). While splice copies from a pipe into a file nobody can write into that pipe, and who tries spins
(`mutex_spin_on_owner`); from pipe to pipe it moves whole pages in no time, and the copying happens beside the writing.

What is in a relay is older than what is in the source. No event tells of it: whoever leaves something there comes back.
"""

import contextlib
import fcntl
import os

from outlive.keeper.common import sockets
from outlive.keeper.common.failpoints import hit
from outlive.keeper.common.kernel import unread_bytes
from outlive.keeper.supervisor.managed_process import ManagedProcess, Stream

BIG_PIPE_BYTES = 1 << 20
FULL_FLOW_BYTES = BIG_PIPE_BYTES >> 3  # waiting at once: more follows soon
_OFFERED_AFTER = 1 << 20  # bytes of a stream
_TERMINAL_BYTES = 65536
_LETTERS = "rw"


def fill_relay(stream: Stream) -> int:
    """Return how many bytes wait in a stream's relay, after taking the source's into it if none did.

    0: what there is of a pipe is little, and is moved from the pipe itself; so is its end.

    Raises:
        BlockingIOError: A terminal has nothing.
        OSError: EIO where nobody has a terminal's other side open any more (pty(7)).
    """
    waiting = unread_bytes(stream.kept.fds["r"])
    if waiting:
        return waiting
    if stream.is_terminal:
        waiting = os.splice(stream.source, stream.relay, _TERMINAL_BYTES, flags=os.SPLICE_F_NONBLOCK)
        hit("pump.relayed")
    elif unread_bytes(stream.source) >= FULL_FLOW_BYTES:
        waiting = os.splice(stream.source, stream.relay, BIG_PIPE_BYTES, flags=os.SPLICE_F_NONBLOCK)
        hit("relay.filled")
    return waiting


def unread_of(stream: Stream) -> int:
    """Return how many bytes of a stream wait, in its source and in its relay."""
    waiting = unread_bytes(stream.source)
    return waiting if stream.relay < 0 else waiting + unread_bytes(stream.kept.fds["r"])


def offer_relay(stream: Stream) -> None:
    """Make a relay for a pipe in full flow, and ask the shim to hold it: it is used once the shim does, which it says.

    A shim of before says nothing, and the stream goes on without. Of a process's streams stdout can have one.
    """
    kept = stream.kept
    if stream.index or stream.offset < _OFFERED_AFTER or kept.shim is None or kept.shim.is_inside:
        return
    stream.may_be_relayed = False
    with contextlib.suppress(OSError):  # out of descriptors, or of big pipes (pipe(7), pipe-user-pages-soft)
        ends = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, BIG_PIPE_BYTES)
            is_offered = sockets.send(kept.shim.socket, b"keep " + _LETTERS.encode(), ends)
        except OSError:
            is_offered = False
        if is_offered:
            kept.fds.update(zip(_LETTERS, ends, strict=True))
            hit("relay.offered")
        else:
            for end in ends:
                os.close(end)


def use_relay(kept: ManagedProcess) -> None:
    """Take note that the shim holds what it was offered."""
    for stream in kept.streams[:1]:
        stream.relay = kept.fds.get("w", -1)
