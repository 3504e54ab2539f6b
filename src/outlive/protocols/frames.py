"""The files of a process folder as bytes: spec, pid, exit, idx records, marks. Standard library only.

Owns the formats; the keeper and the store read and write them. Old folders meet new programs, so a format
changes only together with its version word.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = [
    "IDX",
    "ExitRecord",
    "IdxRecord",
    "PidRecord",
    "Spec",
    "decode_exec",
    "decode_exit",
    "decode_idx",
    "decode_pid",
    "decode_spec",
    "encode_exec",
    "encode_exit",
    "encode_pid",
    "encode_spec",
    "exit_from_wait",
    "spec_exec_block",
]

_SPEC_VERSION = b"outlive-spec-1"
IDX = struct.Struct("<QQQQ")  # 32 bytes divide a page: a kill cannot tear a record


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """Everything the keeper needs to run one command, and what the engine wants to find again (`meta`).

    `program` is the resolved file, `argv[0]` what the command sees. `stdio` is "pipes", "merge" (one pipe) or
    "pty"; `stdin` "none" or "pipe". Times in seconds, sizes in bytes, None = no limit. `on_limit` is
    "truncate", "block" or "kill"; `after_exit` (what happens to descendants) "keep", "kill" or "wait".
    """

    program: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    stdio: str = "pipes"
    stdin: str = "none"
    rows: int = 24
    cols: int = 80
    timeout_s: float | None = None
    grace_s: float = 10.0
    output_limit: int | None = None
    on_limit: str = "truncate"
    after_exit: str = "keep"
    meta: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PidRecord:
    """The command as the kernel knows it: pid plus start time in clock ticks since boot is its identity."""

    pid: int
    start_ticks: int
    started_ns: int
    boottime_ns: int
    shim_pid: int
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord:
    """How the main process ended: kind "exited" (code), "signaled" (signal), "failed" (errno) or "lost"."""

    kind: str
    number: int
    ended_ns: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class IdxRecord:
    """The beginning of a run: from here on bytes belong to `stream` (0 stdout, 1 stderr).

    `start` counts the bytes of both streams before the run, `offset` those of the run's own stream.
    """

    time_ns: int
    start: int
    offset: int
    stream: int

    def encode(self) -> bytes:
        """Return the 32 bytes."""
        return IDX.pack(self.time_ns, self.start, self.offset, self.stream)


def encode_exec(program: str, cwd: str, argv: tuple[str, ...], env: Mapping[str, str]) -> bytes:
    """Return what the shim needs, separated by NUL so that it needs no parser."""
    words = [program, cwd, str(len(argv)), *argv, *(f"{name}={value}" for name, value in env.items())]
    return b"\0".join(word.encode("utf-8", "surrogateescape") for word in words)


def decode_exec(block: bytes) -> tuple[bytes, bytes, list[bytes], dict[bytes, bytes]]:
    """Return program, cwd, argv and environment of an exec block."""
    words = block.split(b"\0")
    end = 3 + int(words[2])
    env: dict[bytes, bytes] = {}
    for word in words[end:]:
        name, _, value = word.partition(b"=")
        env[name] = value
    return words[0], words[1], words[3:end], env


def encode_spec(spec: Spec) -> bytes:
    """Return the spec file: a version line with the head's length, the JSON head, the exec block."""
    head = json.dumps(
        {
            "stdio": spec.stdio,
            "stdin": spec.stdin,
            "rows": spec.rows,
            "cols": spec.cols,
            "timeout_s": spec.timeout_s,
            "grace_s": spec.grace_s,
            "output_limit": spec.output_limit,
            "on_limit": spec.on_limit,
            "after_exit": spec.after_exit,
            "meta": dict(spec.meta),
        }
    ).encode()
    block = encode_exec(spec.program, spec.cwd, spec.argv, spec.env)
    return b"%s %d\n%s%s" % (_SPEC_VERSION, len(head), head, block)


def spec_exec_block(raw: bytes) -> bytes:
    """Return the exec block of a spec file without reading its JSON head."""
    line_end = raw.index(b"\n")
    return raw[line_end + 1 + int(raw[len(_SPEC_VERSION) + 1 : line_end]) :]


def decode_spec(raw: bytes) -> Spec:
    """Read a spec file.

    Raises:
        ValueError: The bytes are no spec of this version.
    """
    line, _, rest = raw.partition(b"\n")
    version, _, length = line.partition(b" ")
    if version != _SPEC_VERSION:
        raise ValueError(f"unknown spec version {line[:40]!r}")
    head = json.loads(rest[: int(length)])
    program, cwd, argv, env = decode_exec(rest[int(length) :])
    return Spec(
        program=_text(program),
        argv=tuple(_text(word) for word in argv),
        env={_text(name): _text(value) for name, value in env.items()},
        cwd=_text(cwd),
        stdio=head["stdio"],
        stdin=head["stdin"],
        rows=head["rows"],
        cols=head["cols"],
        timeout_s=head["timeout_s"],
        grace_s=head["grace_s"],
        output_limit=head["output_limit"],
        on_limit=head["on_limit"],
        after_exit=head["after_exit"],
        meta=head["meta"],
    )


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def encode_pid(record: PidRecord) -> bytes:
    """Return the pid file's second line (the first, "starting", is written before the spawn)."""
    return b"%d %d %d %d %d %s\n" % (
        record.pid,
        record.start_ticks,
        record.started_ns,
        record.boottime_ns,
        record.shim_pid,
        record.boot_id.encode(),
    )


def decode_pid(raw: bytes) -> PidRecord | None:
    """Read a pid file; None when the command's pid was not recorded (yet)."""
    lines = raw.split(b"\n")
    if len(lines) < 3:
        return None
    words = lines[1].split()
    return PidRecord(
        pid=int(words[0]),
        start_ticks=int(words[1]),
        started_ns=int(words[2]),
        boottime_ns=int(words[3]),
        shim_pid=int(words[4]),
        boot_id=words[5].decode(),
    )


def encode_exit(record: ExitRecord) -> bytes:
    """Return the exit file: kind, number, Unix nanoseconds, free text."""
    return f"{record.kind} {record.number} {record.ended_ns} {record.note}\n".encode()


def decode_exit(raw: bytes) -> ExitRecord:
    """Read an exit file.

    Raises:
        ValueError: The bytes are no exit record.
    """
    words = raw.decode().rstrip("\n").split(" ", 3)
    if len(words) < 3 or words[0] not in {"exited", "signaled", "failed", "lost"}:
        raise ValueError(f"not an exit record: {raw[:60]!r}")
    note = words[3] if len(words) > 3 else ""
    return ExitRecord(kind=words[0], number=int(words[1]), ended_ns=int(words[2]), note=note)


def exit_from_wait(status: int, ended_ns: int) -> ExitRecord:
    """Translate a wait status word (waitpid(2), /proc/PID/stat field 52) into a record."""
    signal = status & 0x7F
    if signal:
        return ExitRecord(kind="signaled", number=signal, ended_ns=ended_ns)
    return ExitRecord(kind="exited", number=status >> 8 & 0xFF, ended_ns=ended_ns)


def decode_idx(raw: bytes) -> Iterator[IdxRecord]:
    """Yield the whole records in `raw`; a tail shorter than a record is not one yet, zeros are a punched hole."""
    for time_ns, start, offset, stream in IDX.iter_unpack(raw[: len(raw) - len(raw) % IDX.size]):
        if time_ns:
            yield IdxRecord(time_ns, start, offset, stream)
