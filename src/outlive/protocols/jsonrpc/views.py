"""Processes and their output as JSON-RPC shows them to `list`, `get`, `attach`, `wait` and `read`. Pure.

The members are declared in `members` and `operations.answers`; their names are promised (S0). REST makes its
own views from these.
"""

import base64
import codecs
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal

from outlive.core.command import StandingApproval
from outlive.core.cursor import Cursor
from outlive.core.lifecycle import State
from outlive.core.location import HERE
from outlive.core.process import Observation, ProcessRecord, WaitingApproval
from outlive.core.values import dataclass
from outlive.protocols.jsonrpc.members import StatusWord
from outlive.protocols.jsonrpc.output import STREAM_NAMES

Encoding = Literal["utf-8", "base64"]
_Members = dict[str, object]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WORDS: dict[State, StatusWord] = {State.PAUSED: "paused", State.QUEUED: "queued"}


def status_word(record: ProcessRecord) -> StatusWord:
    """Return S0's word for a state: started, paused, completed or failed; queued before its turn."""
    if record.is_ended:
        return "completed" if record.wire_exit_code == 0 and not record.output_lost else "failed"
    return _WORDS.get(record.state, "started")


def process_view(record: ProcessRecord) -> _Members:
    """Return everything that a client may know of a process; times are ISO 8601 in UTC, sizes bytes."""
    view: _Members = {
        # What it is and how it is; `status` is S0's word, `state` the exact one.
        "process_id": record.process_id,
        "status": status_word(record),
        "state": record.state.value,
        "waits_for": record.waits_for,
        "hint": record.hint,
        "pid": record.pid,
        "pgid": record.pid,  # each command leads a group of its own (promise S0.3)
        "command": record.command,
        "shell": record.shell,
        "cwd": record.cwd,
        # How it ended; null while it runs.
        "exit_code": record.wire_exit_code,
        "error": record.error,
        "cause": None if record.cause.value == "none" else record.cause.value,
        "completed": record.is_complete,
        "streams": "closed" if record.is_closed else "open",
        "cursor": str(record.cursor),
        "stdout_bytes": record.stdout_bytes,
        "stderr_bytes": record.stderr_bytes,
        "created_at": record.created_at,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "stdio": record.stdio,
        "stdin": record.stdin,
        "detached": record.is_detached,
        "descendants": record.descendants,
        "stalled": record.is_stalled,
        "gaps": record.has_gaps,
        "output_lost": record.output_lost,
        "lost_bytes": record.lost_bytes,
        "timeout": record.timeout_s,
        "grace": record.grace_s,
        "tags": dict(record.tags),
        "group": record.group,
        "sandbox": record.sandbox.view(),
        "env_secrets": list(record.secret_names),
        "session_id": record.owner.connection_id,
    }
    _add_rest(view, record)
    return view


def _add_rest(view: _Members, record: ProcessRecord) -> None:
    """Add what is left out where it says nothing."""
    rest: dict[str, object] = {
        "started_by": record.origin.encode() if record.origin.door else None,
        "location": None if record.location == HERE else record.location.view(),
        "needs": None if record.needs is None else record.needs.view(),
        "name": record.name,
        "short_id": None if record.number is None else record.short_id,
        "project": record.project,
        "key": record.key,
        "unknown": record.is_unknown or None,
        "reachable": None if record.is_reachable else False,
        "waiting": None if record.waiting == "no" else record.waiting,
        "at_prompt": record.is_at_prompt or None,
        "person_asked": record.is_person_asked or None,
        "session_over": record.is_session_over or None,
        "redacted": record.redacted or None,
    }
    view |= {name: value for name, value in rest.items() if value is not None}


def _standing(standing: StandingApproval) -> _Members:
    return {
        "project": _shown(standing.project),
        "commands": [[_shown(word) for word in words] for words in standing.commands],
    }


def approval_view(one: WaitingApproval) -> _Members:
    """Return what a person has to know to approve a start.

    `redacted` does not count `command`, which repeats secrets of the words.
    """
    record = one.record
    approval = record.approval
    view: _Members = {
        "process_id": record.process_id,
        "digest": one.digest,
        "command": record.command,
        "argv": [_shown(word) for word in one.argv],
        "script": one.script or None,
        "script_bytes": one.script_bytes,
        "cwd": record.cwd,
        "variables": [_shown(name) for name in one.env],
        "env": {_shown(name): None if value is None else _shown(value) for name, value in one.env.items()},
        "profile": record.sandbox.profile.value,
        "location": None if record.location == HERE else record.location.view(),
        "reason": "" if approval is None else approval.reason,
        "principal": record.owner.principal,
        "since": record.created_at,
        "expires_at": None if approval is None else approval.expires_at,
        "tags": dict(record.tags),
        "group": record.group,
        "always": None if approval is None or approval.standing is None else _standing(approval.standing),
        "only_once": "" if approval is None else approval.only_once,
    }
    if one.redacted:
        view["redacted"] = one.redacted
    return view


def _shown(word: str) -> str:
    # Bytes that are no UTF-8 cannot be sent in JSON: they become U+FFFD.
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def stats_view(seen: Observation) -> _Members:
    """Return what a process's tree looks like; times are seconds, sizes bytes."""
    view: _Members = {
        "pids": list(seen.pids),
        "threads": seen.threads,
        "cpu": seen.cpu_s,
        "memory_bytes": seen.memory_bytes,
        "ports": list(seen.ports),
        "waiting": None if seen.waiting == "no" else seen.waiting,
    }
    if seen.is_at_prompt:
        view["at_prompt"] = True
    return view


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one stream that ends at offset `end`; `data` None stands for released output from `start` on.

    `redacted`: how many secrets it shows redacted of which no earlier piece has shown a part. `time_ns`: when
    its first byte was written (Unix), within a tenth of a second; 0 where that is not asked for, or not
    known.
    """

    stream: int
    start: int
    end: int
    data: bytes | None
    redacted: int = 0
    time_ns: int = 0


def page_view(
    pieces: Iterable[Piece], cursor: Cursor, *, encoding: Encoding, is_last: bool
) -> tuple[list[_Members], Cursor]:
    """Return the `chunks` of a page and the cursor behind it.

    A character that the end of a chunk cuts moves into its stream's next chunk, and at the end of the page to
    the next page (the cursor is then before it), so that the joined texts are the decoded stream. `is_last`:
    nothing will follow, and an unfinished character is shown as U+FFFD.
    """
    chunks: list[_Members] = []
    # By stream: the offset up to which it is shown, and the bytes of an unfinished character.
    ends = [cursor.stdout, cursor.stderr]
    held = [b"", b""]
    for piece in pieces:
        stream = piece.stream
        if piece.data is None:
            # What is held belongs before the gap, and its rest was in it.
            _finish(chunks, ends, held, stream)
            gap: _Members = {
                "type": STREAM_NAMES[stream],
                "gap": True,
                "from": piece.start,
                "to": piece.end,
                "end": piece.end,
            }
            chunks.append(gap)
            ends[stream] = piece.end
            continue
        if encoding == "base64":
            text, unread = base64.b64encode(piece.data).decode(), b""
        else:
            raw = held[stream] + piece.data
            text, consumed = codecs.utf_8_decode(raw, "replace")
            unread = raw[consumed:]
        held[stream] = unread
        ends[stream] = piece.end - len(unread)
        if text:
            shown: _Members = {"type": STREAM_NAMES[stream], "data": text, "end": ends[stream]}
            if piece.redacted:
                shown["redacted"] = piece.redacted
            if piece.time_ns:
                shown["time"] = moment_of(piece.time_ns)
            chunks.append(shown)
    if is_last:
        for stream in (0, 1):
            _finish(chunks, ends, held, stream)
    return chunks, Cursor(*ends)


def moment_of(time_ns: int) -> datetime:
    """Return a time of the log's index (Unix), in UTC."""
    return _EPOCH + timedelta(microseconds=time_ns // 1000)


def _finish(chunks: list[_Members], ends: list[int], held: list[bytes], stream: int) -> None:
    """Show an unfinished character whose rest will never come."""
    if held[stream]:
        ends[stream] += len(held[stream])
        text = held[stream].decode("utf-8", "replace")
        chunks.append({"type": STREAM_NAMES[stream], "data": text, "end": ends[stream]})
        held[stream] = b""
