"""One process as the supervisor holds it: `ManagedProcess`, its output `Stream`s, and the link to its shim
(`ShimLink`).

State only: nothing here decides. `starts` fills it, `output` moves bytes, `endings` records the end.

`open_ends` makes a command's pipes or terminal: the keeper's ends are in `ManagedProcess.fds`, the command's
own are returned by the shim's letters, for `launcher` and `container_links` to hand over.
"""

import os
import socket
import termios
from collections.abc import Callable

from outlive.core.identity import id_to_bytes
from outlive.core.spec import Spec
from outlive.core.values import dataclass, field
from outlive.keeper.supervisor.loop import Timer
from outlive.protocols.keeper import RECORD, Flags, Phase

# Answers a request: keyword fields of the reply; an "error" field makes it a failure.
Answer = Callable[[dict[str, object]], None]

_OUT_OPEN = int(Flags.OUT_OPEN)
_ERR_OPEN = int(Flags.ERR_OPEN)


class ShimLink:
    """The supervisor's side of one shim: its socket, its pid, and the process that it serves now.

    `is_inside`: it runs in a container, for one command only; what it reports is checked, since the command
    may replace it.
    `taken`: how many shims the pool had given away when it gave away this one.
    """

    __slots__ = ("is_inside", "pid", "process", "socket", "taken")

    def __init__(self, link: socket.socket, pid: int = 0, *, is_inside: bool = False) -> None:
        self.socket = link
        self.pid = pid
        self.is_inside = is_inside
        self.taken = 0
        self.process: ManagedProcess | None = None


@dataclass(eq=False, slots=True)
class Stream:
    """One output stream: where its bytes come from, and how many the log holds (`offset`).

    `source` is read (a pipe, or a pty master), `log` is written; `relay` is the write end of a pipe between
    them. Where `log` is -1 it is opened with the first bytes: most commands write nothing to stderr. `number`
    is its number in `output.flow`, -1 until it is moved.
    """

    process: "ManagedProcess"
    index: int
    source: int = field(kw_only=True)
    log: int = field(kw_only=True)
    offset: int = field(default=0, kw_only=True)
    relay: int = field(default=-1, kw_only=True)
    is_terminal: bool = field(init=False)
    may_be_relayed: bool = field(init=False)  # no relay was offered to it yet
    is_open: bool = field(default=True, init=False)
    is_stalled: bool = field(default=False, init=False)  # the disk is full, and another attempt is due
    is_watched: bool = field(default=False, init=False)
    number: int = field(default=-1, init=False)

    def __post_init__(self) -> None:
        """Know whether it is a terminal's: only a pipe gets a relay later."""
        self.is_terminal = self.process.spec.stdio == "pty"
        self.may_be_relayed = not self.is_terminal

    def close_log(self) -> None:
        """Close the log, if it was opened."""
        if self.log >= 0:
            os.close(self.log)
            self.log = -1


@dataclass(eq=False, slots=True)
class ManagedProcess:
    """Everything about one process that the supervisor keeps; `fds` holds the keeper's ends by the shim's
    letters.

    `failed_at`: where its start failed, in the words of its shim. `is_adopted`: taken over from an earlier
    supervisor, whose state folder may have had another path. `is_owed`: reported as done, but its record
    waits until the file system is not read-only any more. `lent` (by `PassedStdin`) and `secrets` (by
    `frames.encode_secrets`) are here until the command has them. `idx_released`: pages of the index before
    this one have been considered for release. `typed_bytes`: of a line that is not ended, at a terminal that
    reads whole lines. `held_since`: since when its shim was found stopped whenever its tree was killed.
    `told`: the newest doorbell that was sent to every server; `last_doorbell` is set when it is let go of.
    """

    process_id: str
    folder: str
    spec: Spec
    key: bytes = field(init=False)
    phase: Phase = Phase.STARTING
    flags: int = 0
    code: int = 0
    cause: int = 0
    note: str = ""
    failed_at: str | None = None
    pid: int = 0
    ticks: int = 0
    pidfd: int = -1
    started_ns: int = 0
    ended_ns: int = 0
    descendants: int = 0
    shim: ShimLink | None = None
    listener: socket.socket | None = None
    is_adopted: bool = False
    is_empty: bool = False
    is_orphan: bool = False
    is_owed: bool = False
    streams: list[Stream] = field(default_factory=list)
    fds: dict[str, int] = field(default_factory=dict)
    lent: list[int] = field(default_factory=list)
    secrets: bytes | None = field(default=None, repr=False)
    idx: int = -1
    idx_released: int = 0
    released: list[int] = field(init=False)
    inputs: list[tuple[memoryview, Answer]] = field(default_factory=list)
    typed_bytes: int = 0
    answers: list[Answer] = field(default_factory=list)
    kill_timer: Timer | None = None
    timeout_timer: Timer | None = None
    held_since: float = 0.0
    stop_at: float = 0.0
    deadline: float = 0.0
    told: bytes = b""
    last_doorbell: bytes = b""

    def __post_init__(self) -> None:
        """Find its key, and begin with all of both streams."""
        self.key = id_to_bytes(self.process_id)
        self.released = [0, 0]

    @property
    def total(self) -> int:
        """Bytes of both streams in the log."""
        return sum(stream.offset for stream in self.streams)

    @property
    def is_closed(self) -> bool:
        """Whether no stream can bring bytes any more."""
        return not any(stream.is_open for stream in self.streams)

    def doorbell(self) -> bytes:
        """Return the record of the newest state, as it is sent to servers."""
        if self.last_doorbell:
            return self.last_doorbell
        out = err = 0
        # Plain integers: each operation on a Flag costs a microsecond, and this runs for every piece of
        # output.
        flags = int(self.flags)
        for stream in self.streams:
            if stream.index == 0:
                out = stream.offset
                if stream.is_open:
                    flags |= _OUT_OPEN
            else:
                err = stream.offset
                if stream.is_open:
                    flags |= _ERR_OPEN
        return RECORD.pack(
            self.key, out, err, self.pid, self.code, self.phase, self.cause, flags, self.descendants
        )

    def end(self) -> None:
        """Keep the final doorbell instead of the streams.

        Streams and process refer to each other. The supervisor collects no cycles, so without this they would
        stay in memory.
        """
        self.last_doorbell = self.doorbell()
        self.streams = []

    def answer_all(self, fields: dict[str, object]) -> None:
        """Answer every request for this start, once."""
        answers, self.answers = self.answers, []
        for answer in answers:
            answer(fields)

    def take_pidfd(self, pidfd: int) -> None:
        """Keep this pidfd instead of the present one; -1 changes nothing."""
        if pidfd >= 0:
            if self.pidfd >= 0:
                os.close(self.pidfd)
            self.pidfd = pidfd

    def let_go_of_what_was_given(self) -> None:
        """Close what the command's shim has now: the listener for later supervisors, and what was lent."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        for fd in self.lent:
            os.close(fd)
        self.lent = []

    def close_fd(self, letter: str) -> None:
        """Close one of the keeper's ends, if it is open."""
        fd = self.fds.pop(letter, -1)
        if fd >= 0:
            os.close(fd)


_IUTF8 = 0o040000  # termios(3); Python has no name for this flag


def _pipe(process: ManagedProcess, letter: str, *, keeper_reads: bool) -> int:
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    ours, theirs = (read_end, write_end) if keeper_reads else (write_end, read_end)
    os.set_blocking(ours, False)
    process.fds[letter] = ours
    return theirs


def lost_of(process: ManagedProcess) -> str | None:
    """Return the name of something that was handed over for a start and is lost; None when nothing is."""
    if process.spec.stdin == "lent" and not process.lent:
        return "stdin"
    return "secrets" if process.spec.secrets and process.secrets is None else None


def in_memory(content: bytes) -> int:
    """Return a file without a name, in memory and on no disk (memfd_create(2))."""
    fd = os.memfd_create("outlive", os.MFD_CLOEXEC)
    os.pwrite(fd, content, 0)
    return fd


def open_ends(process: ManagedProcess) -> dict[str, int]:
    """Open pipes or terminal; return the command's own ends.

    After an OSError only the keeper's ends in `process.fds` are open.
    """
    ends: dict[str, int] = {}
    try:
        if process.spec.stdio == "pty":
            _open_terminal(process, ends)
        else:
            if process.spec.stdin == "pipe":
                ends["I"] = _pipe(process, "i", keeper_reads=False)
            elif process.spec.stdin == "lent":
                ends["I"] = os.dup(process.lent[0])
            else:
                ends["I"] = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
            for stream, letter in zip(process.streams, "oe", strict=False):
                ends[letter.upper()] = _pipe(process, letter, keeper_reads=True)
                stream.source = process.fds[letter]
        if process.secrets:
            ends["S"] = in_memory(process.secrets)
        if process.lent[1:] and not process.spec.container:
            ends["D"] = os.dup(process.lent[1])
    except OSError:
        for fd in ends.values():
            os.close(fd)
        raise
    return ends


def _open_terminal(process: ManagedProcess, ends: dict[str, int]) -> None:
    if process.spec.stdin == "lent":
        ends["I"] = os.dup(process.lent[0])
    stream = process.streams[0]
    relay_read, stream.relay = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    process.fds.update(r=relay_read, w=stream.relay)
    if process.spec.container:
        return  # a container opens its own terminal: one of another mount namespace has no name there
    master, ends["T"] = os.openpty()
    process.fds["m"] = master
    os.set_blocking(master, False)
    set_window_size(master, process.spec.rows, process.spec.cols)
    flags = termios.tcgetattr(master)  # on Linux both sides have the same attributes
    flags[0] |= _IUTF8  # without it, erasing a character of a line removes one byte of it
    termios.tcsetattr(master, termios.TCSANOW, flags)
    stream.source = master


def set_window_size(terminal: int, rows: int, cols: int) -> None:
    """Set a terminal's size; its foreground process group gets SIGWINCH (tty_ioctl(4) TIOCSWINSZ)."""
    termios.tcsetwinsize(terminal, (rows, cols))
