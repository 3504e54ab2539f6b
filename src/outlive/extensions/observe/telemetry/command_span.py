"""A command as a span: `CommandSpan`, made of the record of its end, and the line that keeps it on disk.

Pure.

Names follow OpenTelemetry's semantic conventions for CLI programs and for processes (1.37, in development).
Nothing that a secret could be in is taken over: of the command its program's name, of the environment and the
output nothing.
"""

import json
import re
import shlex
import signal
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from outlive.core.documents import decode_json
from outlive.core.lifecycle import Cause, State
from outlive.core.process import ProcessRecord
from outlive.core.values import asdict, dataclass, field
from outlive.protocols.trace_context import span_of
from outlive.store.rows import to_ns

_Value = str | int

# Characters; within them is the first word of nearly every line.
_LOOKED_AT = 1000
_is_assignment = re.compile(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=.*", re.DOTALL).fullmatch
# In an assignment these may begin something that has blanks without quotes: its next word would be a part of
# a value.
_OPENING = frozenset("$`(){}<>|&;")
# What programs are called. Quotes, stars in the place of secrets, and all that a shell expands is in no such
# name.
_is_program = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}", re.ASCII).fullmatch
_UNNAMED = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpan:
    """What is sent of one command; times are Unix nanoseconds, ids hexadecimal digits.

    `parent_id` is "" where no caller named one.
    """

    process_id: str
    trace_id: str
    span_id: str
    parent_id: str = ""
    flags: int = 1
    name: str = _UNNAMED
    begun_ns: int = 0
    ended_ns: int = 0
    is_error: bool = False
    attributes: Mapping[str, _Value] = field(default_factory=dict)


def span_from(record: ProcessRecord, *, now: datetime, shows_line: bool = False) -> CommandSpan | None:
    """Return the span of a process that has ended; None where it never ran.

    A start that was refused, or that waited and was denied, is in the metrics and the audit log, and has no
    duration.

    Args:
        record: What is known of it.
        now: Its end, where that is not known.
        shows_line: Whether the whole command is shown, secrets redacted, as lists show it.
    """
    if record.started_at is None:
        return None
    place = span_of(record.process_id, record.owner.traceparent)
    program = program_of(record)
    executable = record.shell.rpartition("/")[2] if record.shell else program
    attributes: dict[str, _Value | None] = {
        "process.executable.name": executable or _UNNAMED,
        "process.command": program or None,
        "process.command_line": record.command if shows_line else None,
        "process.pid": record.pid,
        "process.exit.code": record.wire_exit_code,
        "error.type": error_type(record),
        "outlive.process_id": record.process_id,
        "outlive.state": record.state.value,
        "outlive.cause": None if record.cause is Cause.NONE else record.cause.value,
        "outlive.principal": record.owner.principal,
        "outlive.backend": record.location.backend,
        "outlive.stdout_bytes": record.stdout_bytes,
        "outlive.stderr_bytes": record.stderr_bytes,
    }
    begun_ns = to_ns(record.started_at)
    return CommandSpan(
        process_id=record.process_id,
        trace_id=place.trace_id,
        span_id=place.span_id,
        parent_id=place.parent_id,
        flags=place.flags,
        name=program or executable or _UNNAMED,
        begun_ns=begun_ns,
        ended_ns=max(begun_ns, to_ns(record.ended_at or now)),  # the clock may have been set back
        is_error=attributes["error.type"] is not None,
        attributes={name: _plain(value) for name, value in attributes.items() if value is not None},
    )


def _plain(value: _Value) -> _Value:
    """Return a value that protobuf can encode: bytes of a command that are no UTF-8 (PEP 383) become question
    marks.
    """
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def program_of(record: ProcessRecord) -> str:
    """Return the name of the program that a command begins with, without its folder; "" where no word is
    surely one.

    A shell line may begin with assignments, whose values are often secrets: they are no part of it, in
    whatever quotes they stand.
    """
    text = record.command[:_LOOKED_AT]
    assignments: list[str] = []
    word = ""
    try:
        for word in _words(text) if record.shell else text.split(maxsplit=1):
            if not (record.shell and _is_assignment(word)):
                break
            assignments.append(word)
        else:
            return ""
    except ValueError:  # a quote without its end: the words are not known
        return ""
    name = word.rpartition("/")[2]
    return name if _is_program(name) and not _OPENING.intersection("".join(assignments)) else ""


def _words(line: str) -> Iterable[str]:
    """Return the words of a shell line, its operators among them, without their quotes.

    Nothing is expanded.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    return lexer


def error_type(record: ProcessRecord) -> str | None:
    """Return why a command counts as failed, in one of few words; None for one that has not.

    The conventions ask for few different values (`error.type`). What outlive did to it says more than the
    signal that it did it with.
    """
    if record.exit_code == 0 and not record.output_lost:
        return None
    if record.cause is not Cause.NONE:
        return record.cause.value
    if record.exit_signal is not None:
        try:
            return signal.Signals(record.exit_signal).name
        except ValueError:
            return f"signal {record.exit_signal}"
    if record.state is State.LOST:
        return State.LOST.value
    return str(record.exit_code) if record.exit_code else "output_lost"


def encode_span(span: CommandSpan) -> bytes:
    """Return a span as a line."""
    return json.dumps(asdict(span)).encode() + b"\n"


def decode_span(line: bytes) -> CommandSpan | None:
    """Return the span of a line; None for one that a crash has torn."""
    try:
        members: dict[str, Any] = decode_json(line)
        span = CommandSpan(**members)
        is_whole = len(bytes.fromhex(span.trace_id)) == 16 and len(bytes.fromhex(span.span_id)) == 8
        bytes.fromhex(span.parent_id)
        return span if is_whole and isinstance(span.ended_ns, int) else None
    except (ValueError, TypeError, RecursionError):
        return None
