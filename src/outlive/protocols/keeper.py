"""The local protocol between the server (or the command line) and the supervisor, and the spec file.

Standard library only.

Messages are SEQPACKET packets. A request is "J" + JSON (+ NUL + raw bytes); its reply has the same form, and
repeats `req`. A doorbell is "D" + records of 48 bytes, each the newest state of one process: a slow reader
sees fewer of them, never stale ones. It has no number of its own: both sides have found the number of the
state folder (`outlive.FORMAT`) to be theirs.

Sockets are in `kernel.sockets`; what a request does is decided in `keeper.supervisor.requests`.
"""

import json
import math
import operator
import struct
from collections.abc import Mapping
from enum import IntEnum, IntFlag
from typing import NamedTuple

from outlive.core.documents import decode_json
from outlive.core.spec import Spec
from outlive.protocols.frames import (
    EXTENDED,
    SPEC_VERSION,
    decode_exec,
    decoded,
    encode_exec,
    split_extended,
    take_begins,
    within,
)

MAX_INLINE_BYTES = 96 * 1024  # below the default send buffer (208 KiB); more travels in a memfd
RECORD = struct.Struct("<16sQQiiBBHI")  # 48 bytes
DOORBELLS_PER_PACKET = 256  # 12 KB, which fits every reader's buffer

# `reason` in the details of an error: supervisors end at their start, and will until something is mended.
CANNOT_START = "cannot_start"

# An object's text. `json.dumps` makes an encoder anew for each text, as soon as it is told anything.
to_json = json.JSONEncoder(check_circular=False).encode
# Members of a spec that its head holds, and those that it holds only where they are set. `meta` is the last
# one.
_HEAD = ("stdio", "stdin", "rows", "cols", "timeout_s", "grace_s", "output_limit", "on_limit", "after_exit")
_members_of = operator.itemgetter(*_HEAD)
_SELDOM = ("secrets", "groups", "container")
_FACTS = (*_SELDOM, *_HEAD)
_facts_of = operator.attrgetter(*_FACTS)


class Phase(IntEnum):
    """How far a process is: from EXITED on the code is known, from DONE on the output is complete."""

    STARTING = 0
    RUNNING = 1
    PAUSED = 2
    STOPPING = 3
    EXITED = 4
    DONE = 5


class Flags(IntFlag):
    """Facts about a process beside its phase."""

    SIGNALED = 1  # code is a signal number
    FAILED = 2  # never started; code is an errno
    LOST = 4  # it has ended, and how cannot be known
    OUT_OPEN = 8
    ERR_OPEN = 16
    STALLED = 32  # the disk is full, and the process waits
    BLOCKED = 64  # on_limit "block": the process waits until output is released
    GAPS = 128  # output was released from the log
    HOLDER_LOST = 256  # output is lost: shim and supervisor died at the same instant, or the log was cut
    SYNC = 512  # no process: everything that lives has been mentioned
    # It runs on a node that is away, and the rest is what was known last (never from a keeper).
    UNKNOWN = 1024


class CauseCode(IntEnum):
    """Why outlive ended a process; the numbers of `core.lifecycle.Cause`."""

    NONE = 0
    CANCEL = 1
    TIMEOUT = 2
    OUTPUT_LIMIT = 3
    OOM = 4
    SHUTDOWN = 5
    APPROVAL_DENIED = 6  # this one and the next only in files that the server writes
    APPROVAL_EXPIRED = 7


_NUMBERS = range(1 << 63)
_COUNTS = range(1 << 31)


class StopRecord(NamedTuple):
    """A stop that began: why, at whose request, and when it began with how much grace (0: not said).

    Its time is by the clock since boot: no clock that is set moves its end.
    """

    cause: int
    note: str
    grace_s: float
    boottime_ns: int


class DoneRecord(NamedTuple):
    """How a process was when its output was whole: sizes of the logs, why it ended, what was left of it.

    `boottime_ns` is by the clock of the boot `boot_id`; None where no keeper of this machine wrote it.
    """

    out: int
    err: int
    cause: int
    note: str
    descendants: int
    holder_lost: bool
    closed: bool
    boot_id: str
    boottime_ns: int | None


def decode_stop(raw: bytes) -> StopRecord:
    """Read a `stop` file.

    Raises:
        ValueError, TypeError, LookupError: The bytes are no such record.
    """
    found = decode_json(raw)
    grace_s = found.get("grace_s", 0.0)
    if not isinstance(grace_s, int | float) or not math.isfinite(grace_s) or grace_s < 0:
        raise ValueError("grace_s")
    return StopRecord(
        cause=_cause_in(found),
        note=_words(found["note"]),
        grace_s=grace_s,
        boottime_ns=within(found.get("boottime_ns", 0), _NUMBERS),
    )


def decode_done(raw: bytes) -> DoneRecord:
    """Read a `done` file.

    Raises:
        ValueError, TypeError, LookupError: The bytes are no such record.
    """
    found = decode_json(raw)
    moment = found.get("boottime_ns")
    return DoneRecord(
        out=within(found["out"], _NUMBERS),
        err=within(found["err"], _NUMBERS),
        cause=_cause_in(found),
        note=_words(found.get("note", "")),
        descendants=within(found["descendants"], _COUNTS),
        holder_lost=found.get("holder_lost") is True,
        closed=found.get("closed") is True,
        boot_id=str(found.get("boot_id")),
        boottime_ns=None if moment is None else within(moment, _NUMBERS),
    )


def _cause_in(found: Mapping[str, object]) -> int:
    return int(CauseCode(within(found["cause"], _NUMBERS)))


def _words(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no words")
    return value


def decode_unbound(raw: bytes) -> tuple[int | None]:
    """Read an `unbound` file: how much output is kept from then on; None: all of it.

    Raises:
        ValueError: The bytes are no such record.
    """
    return (None,) if raw == b"-\n" else (within(raw.removesuffix(b"\n"), _NUMBERS),)


def encode_message(message: Mapping[str, object], payload: bytes | memoryview = b"") -> bytes:
    """Return a request or reply, with raw bytes behind the JSON if the message carries any."""
    head = b"J" + to_json(message).encode()
    return head + b"\0" + payload if payload else head


def decode_message(packet: bytes) -> tuple[dict[str, object], bytes]:
    """Return the JSON object and the raw bytes of a packet that begins with "J".

    Raises:
        ValueError: The packet is no message.
    """
    head, _, payload = packet.partition(b"\0")
    message = decode_json(head[1:].decode())  # given bytes, it would first have to find out the encoding
    if head[:1] != b"J" or not isinstance(message, dict):
        raise ValueError("not a keeper message")
    return message, payload


def encode_spec(spec: Spec) -> bytes:
    """Return the spec file: a version line with the head's length, the JSON head, the exec block."""
    members = dict(zip(_FACTS, _facts_of(spec), strict=True))
    for name in _SELDOM:
        if not members[name]:
            del members[name]
    head = to_json({**members, "meta": dict(spec.meta)}).encode()
    shared = "" if spec.shared_env is None else spec.shared_env.text
    block = encode_exec(
        spec.program,
        spec.cwd,
        spec.argv,
        spec.env,
        steps=spec.confinement,
        shared=shared,
        umask=spec.umask,
        nice=spec.nice,
    )
    return b"%s %d\n%s%s" % (SPEC_VERSION, len(head), head, block)


def with_meta(raw: bytes, added: Mapping[str, object]) -> bytes:
    """Return a spec file with more members in its `meta`; its command is taken over as it is.

    Raises:
        ValueError: The bytes are no spec of this version.
    """
    head, block = _parts(raw)
    members = decode_json(head)
    members["meta"] |= added
    text = to_json(members).encode()
    return b"%s %d\n%s%s" % (SPEC_VERSION, len(text), text, block)


def _parts(raw: bytes) -> tuple[bytes, bytes]:
    """Return the JSON head and the exec block of a spec file."""
    line, _, rest = raw.partition(b"\n")
    version, _, length = line.partition(b" ")
    if version != SPEC_VERSION:
        raise ValueError(f"unknown spec version {line[:40]!r}")
    return rest[: int(length)], rest[int(length) :]


def decode_spec(raw: bytes, *, with_command: bool = True) -> Spec:
    """Read a spec file; without its command (program, words, environment, folder) in a third of the time.

    Raises:
        ValueError: The bytes are no spec of this version.
    """
    text, block = _parts(raw)
    head = decode_json(text)
    members = dict(zip(_HEAD, _members_of(head), strict=True))
    members.update(
        secrets=tuple(head.get("secrets", ())),
        groups=tuple(head.get("groups", ())),
        container=head.get("container", ""),
        meta=head["meta"],
    )
    if not with_command:
        return Spec(program="", argv=(), env={}, cwd="", **members)
    program, cwd, argv, env = decode_exec(block)
    # An extended block has steps before the program: what `decode_exec` took for the program is only a mark.
    steps: list[bytes] = []
    if program == EXTENDED.encode():
        steps, program, argv = split_extended(argv)
    umask, nice = take_begins(env)
    return Spec(
        umask=umask,
        nice=nice,
        confinement=tuple(_text(step) for step in steps) or None,
        program=_text(program),
        argv=tuple(_text(word) for word in argv),
        env={_text(name): _text(value) for name, value in env.items()},
        cwd=_text(cwd),
        **members,
    )


def stored_spec(raw: bytes, *, with_command: bool = True) -> Spec | None:
    """Return the spec of a process folder; None where it cannot be read, or says what no spec does."""
    return decoded(raw, lambda found: _checked(decode_spec(found, with_command=with_command)))


def _checked(spec: Spec) -> Spec:
    seconds = (spec.grace_s, 0 if spec.timeout_s is None else spec.timeout_s)
    numbers = (spec.rows, spec.cols, 0 if spec.output_limit is None else spec.output_limit)
    words = (*spec.secrets, *spec.groups, spec.container)
    is_possible = (
        spec.stdio in {"pipes", "merge", "pty"}
        and spec.stdin in {"none", "pipe", "lent"}
        and spec.on_limit in {"truncate", "block", "kill"}
        and spec.after_exit in {"keep", "kill", "wait"}
        and all(type(one) in {int, float} and math.isfinite(one) and one >= 0 for one in seconds)
        and all(type(one) is int and one in _NUMBERS for one in numbers)
        and all(isinstance(word, str) for word in words)
        and isinstance(spec.meta, dict)
    )
    if not is_possible:
        raise ValueError("no spec says this")
    return spec


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
