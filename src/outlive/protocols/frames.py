"""The files that shims, guardian and supervisor write into process folders, as bytes. Standard library only.

Owns the formats of the exec block, pid, exit and idx; the spec's head is `protocols.keeper`'s. A new program
must read old folders, so a format changes only together with its version word. Files are read and written in
`kernel.state_files`.

It imports next to nothing, and its records are plain classes: dataclasses and json alone make the guardian's
image twice as large (measured).
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from outlive import FORMAT, __version__

SPEC_VERSION = b"outlive-spec-1"
# In the program's place, where no file can be: steps stand before the program.
EXTENDED = "/dev/null/outlive-exec-2"
# In an exec block, the name of a command's umask ("022") and niceness ("-5"); "-" stands for one that was not
# asked for.
BEGINS = "OUTLIVE_UMASK_NICE"
_BEGINS = BEGINS.encode()
USUAL_UMASK = 0o022  # of a command that asks for none
_STARTING = b"starting"
NODE_BOOT = "node"  # the boot id in the pid record of what runs on a node, which has boots of its own
COPIED = "copied"  # note of an exit record: the process lived when the state folder was copied
OUT_OF_MEMORY = "oom"  # note of an exit record: the container's memory was used up
WITHDRAWN = "withdrawn"  # note of an exit record: the command was cancelled before the keeper had started it
IDX = struct.Struct("<QQQQ")  # 32 bytes, which divide a page: a kill cannot tear a record


_Result = TypeVar("_Result")
_NS = range(1 << 63)  # times in nanoseconds, and ticks
_PIDS = range(1, 1 << 31)
# What the number of an end may be: exit code, signal, error number; nothing is known of what is lost.
_ENDS = {"exited": range(256), "signaled": range(1, 128), "failed": range(4096), "lost": range(4096)}


def decoded(raw: bytes, decode: Callable[[bytes], _Result]) -> _Result | None:
    """Return what a file says; None where it says nothing: it is missing, empty, cut, or damaged otherwise.

    The one place where damage becomes absence: decoders check what they read, and raise.
    """
    try:
        return decode(raw) if raw else None
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def within(value: object, bounds: range) -> int:
    """Return an integer that lies in a range.

    Raises:
        ValueError: It does not, or is no integer.
    """
    number = int(value) if isinstance(value, bytes | str) else value
    if type(number) is not int or number not in bounds:
        raise ValueError(f"{value!r} is no number of {bounds}")
    return number


class _Record:
    """Equality and text of a record, by its named fields."""

    __slots__: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__slots__))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class PidRecord(_Record):
    """The command as the kernel knows it: pid and start time (clock ticks since boot) together identify
    it.

    `input_pipe` is the inode of the pipe through which it is sent input, 0 where it has none or is unknown.
    """

    __slots__ = ("boot_id", "boottime_ns", "input_pipe", "pid", "shim_pid", "start_ticks", "started_ns")

    def __init__(
        self,
        *,
        pid: int,
        start_ticks: int,
        started_ns: int,
        boottime_ns: int,
        shim_pid: int,
        input_pipe: int,
        boot_id: str,
    ) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self.started_ns = started_ns
        self.boottime_ns = boottime_ns
        self.shim_pid = shim_pid
        self.input_pipe = input_pipe
        self.boot_id = boot_id


class ExitRecord(_Record):
    """How the main process ended: kind "exited" (number: code), "signaled" (signal), "failed" (errno) or
    "lost".
    """

    __slots__ = ("ended_ns", "kind", "note", "number")

    def __init__(self, *, kind: str, number: int, ended_ns: int, note: str = "") -> None:
        """`ended_ns` is Unix time."""
        self.kind = kind
        self.number = number
        self.ended_ns = ended_ns
        self.note = note


class IdxRecord(_Record):
    """The beginning of a run: from here on, bytes belong to `stream` (0 stdout, 1 stderr).

    `start` counts the bytes of both streams before the run, `offset` those of the run's own stream.
    """

    __slots__ = ("offset", "start", "stream", "time_ns")

    def __init__(self, time_ns: int, start: int, offset: int, stream: int) -> None:
        """`time_ns` is Unix time, never 0: zeros are a hole in the file."""
        self.time_ns = time_ns
        self.start = start
        self.offset = offset
        self.stream = stream

    def encode(self) -> bytes:
        """Return the 32 bytes."""
        return IDX.pack(self.time_ns, self.start, self.offset, self.stream)


def encode_exec(
    program: str,
    cwd: str,
    argv: tuple[str, ...],
    env: Mapping[str, str],
    *,
    steps: tuple[str, ...] | None = None,
    shared: str = "",
    umask: int | None = None,
    nice: int | None = None,
) -> bytes:
    """Return what the shim needs, separated by NUL so that it needs no parser.

    With `steps` as an extended block.

    `shared` are words of the environment that come before those of `env`, already joined by NUL. `umask` and
    `nice` are the last word, in the form of a variable.
    """
    if steps:
        # The steps come before the program, so that a shim splits them off without a search.
        argv = (str(len(steps)), *steps, program, *argv)
        program = EXTENDED
    before = (shared,) if shared else ()
    begins = f"{BEGINS}={'-' if umask is None else format(umask, '03o')} {'-' if nice is None else nice}"
    words = (program, cwd, str(len(argv)), *argv, *before, *map("=".join, env.items()), begins)
    return "\0".join(words).encode("utf-8", "surrogateescape")


def decode_exec(block: bytes) -> tuple[bytes, bytes, list[bytes], dict[bytes, bytes]]:
    """Return program, cwd, argv and environment of an exec block.

    The last one still has the word for `take_begins`.
    """
    words = block.split(b"\0")
    # Program, folder and the number of words come first; what follows the words is the environment.
    end = 3 + int(words[2])
    env: dict[bytes, bytes] = {}
    for word in words[end:]:
        name, _, value = word.partition(b"=")
        env[name] = value
    return words[0], words[1], words[3:end], env


def take_begins(env: dict[bytes, bytes]) -> tuple[int | None, int | None]:
    """Remove umask and niceness from the environment that `decode_exec` returned; None for one that is not
    set.
    """
    umask, _, nice = env.pop(_BEGINS, b"- -").partition(b" ")
    return None if umask == b"-" else int(umask, 8), None if nice == b"-" else int(nice)


def split_extended(words: list[bytes]) -> tuple[list[bytes], bytes, list[bytes]]:
    """Return steps, program and argv of an extended exec block, whose words `decode_exec` has returned as
    argv.
    """
    end = 1 + int(words[0])
    return words[1:end], words[end], words[end + 1 :]


def encode_secrets(secrets: Mapping[str, str]) -> bytes:
    """Return NAME=VALUE words as a shim reads them from a file in memory; NUL ends each."""
    return b"".join(f"{name}={value}\0".encode("utf-8", "surrogateescape") for name, value in secrets.items())


def encode_pid(record: PidRecord) -> bytes:
    """Return the pid file's second line.

    The first line, "starting", is written before the spawn; the last one records how the command ended.
    """
    return pid_line(
        record.pid,
        record.start_ticks,
        record.started_ns,
        record.boottime_ns,
        record.shim_pid,
        record.input_pipe,
        record.boot_id.encode(),
    )


def pid_line(
    pid: int,
    start_ticks: int,
    started_ns: int,
    boottime_ns: int,
    shim_pid: int,
    input_pipe: int,
    boot_id: bytes,
) -> bytes:
    """Return the same from its parts."""
    numbers = (pid, start_ticks, started_ns, boottime_ns, shim_pid, input_pipe)
    return b"%d %d %d %d %d %d %s\n" % (*numbers, boot_id)


def decode_pid(raw: bytes) -> PidRecord | None:
    """Read pid and start time from a pid file; None when they were not recorded (yet), or are damaged."""
    for line in raw.split(b"\n")[:-1]:  # without a newline behind it a line is torn
        if line[:1].isdigit():
            return decoded(line, _pid_record)
    return None


def decode_end(raw: bytes) -> ExitRecord | None:
    """Read the end from a pid file, its last line; None when the shim has recorded none, or it is damaged."""
    last = raw.split(b"\n")[:-1][-1:]
    # Three lines at most: "starting", the pid record (it begins with a digit), the end.
    if not last or last[0] == _STARTING or last[0][:1].isdigit():
        return None
    return decoded(last[0], decode_exit)


def _pid_record(line: bytes) -> PidRecord:
    pid, ticks, started, boottime, shim, pipe, boot_id = line.split()
    return PidRecord(
        pid=within(pid, _PIDS),
        start_ticks=within(ticks, _NS),
        started_ns=within(started, _NS),
        boottime_ns=within(boottime, _NS),
        shim_pid=within(shim, range(1 << 31)),
        input_pipe=within(pipe, _NS),
        boot_id=boot_id.decode("ascii"),
    )


def encode_exit(record: ExitRecord) -> bytes:
    """Return how a command ended as a line: kind, number, Unix nanoseconds, free text.

    The shim adds it to the pid file; a process that learns the end without a shim writes it into `exit`.
    """
    return f"{record.kind} {record.number} {record.ended_ns} {record.note}\n".encode()


def decode_exit(raw: bytes) -> ExitRecord:
    """Read an exit record.

    Raises:
        ValueError: The bytes are no exit record.
    """
    words = raw.decode().rstrip("\n").split(" ", 3)
    if len(words) < 3 or words[0] not in _ENDS:
        raise ValueError(f"not an exit record: {raw[:60]!r}")
    note = words[3] if len(words) > 3 else ""
    number = within(words[1], _ENDS[words[0]])
    return ExitRecord(kind=words[0], number=number, ended_ns=within(words[2], _NS), note=note)


def decode_gaps(raw: bytes) -> tuple[tuple[int, int], tuple[int, int]]:
    """Read the released range of each stream from a file `gaps`.

    Raises:
        ValueError: The bytes say no ranges.
    """
    out_begin, out_end, err_begin, err_end = (within(word, _NS) for word in raw.split())
    if not raw.endswith(b"\n") or out_begin > out_end or err_begin > err_end:
        raise ValueError(f"no ranges: {raw[:60]!r}")
    return (out_begin, out_end), (err_begin, err_end)


def encode_identity(name: str, device: int, inode: int, boot: str) -> bytes:
    """Return the line of a state folder's `identity`: its format, what made it, a random id, where and in
    which boot that was.
    """
    return f"{FORMAT} {__version__} {name} {device} {inode} {boot}\n".encode()


def decode_identity(raw: bytes) -> tuple[str, int, int, str] | None:
    """Return what `encode_identity` was given; None for a line of another format."""
    # Bytes: digits of other scripts are none to int(). A line without its end was cut.
    match raw.split() if raw.endswith(b"\n") else ():
        case [number, _, name, device, inode, boot] if (
            number == b"%d" % FORMAT and device.isdigit() and inode.isdigit() and len(device + inode) <= 40
        ):
            return name.decode("ascii", "replace"), int(device), int(inode), boot.decode("ascii", "replace")
    return None


def exit_from_wait(status: int, ended_ns: int) -> ExitRecord:
    """Translate a wait status word (waitpid(2), /proc/PID/stat field 52) into a record."""
    # The low seven bits are the signal that ended the process, the next byte is its exit code (waitpid(2)).
    signal = status & 0x7F
    if signal:
        return ExitRecord(kind="signaled", number=signal, ended_ns=ended_ns)
    return ExitRecord(kind="exited", number=status >> 8 & 0xFF, ended_ns=ended_ns)


def decode_idx(raw: bytes) -> Iterator[IdxRecord]:
    """Yield the complete records in `raw`; a shorter tail is no record yet, zeros are a punched hole."""
    for time_ns, start, offset, stream in IDX.iter_unpack(raw[: len(raw) - len(raw) % IDX.size]):
        if time_ns and stream < 2:  # else it is damaged
            yield IdxRecord(time_ns, start, offset, stream)
