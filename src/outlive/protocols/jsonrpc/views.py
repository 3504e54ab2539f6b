"""Processes and their output as JSON-RPC shows them to `list`, `get`, `attach`, `wait` and `read`."""

import base64
import codecs
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from outlive.core.cursor import Cursor
from outlive.core.lifecycle import State
from outlive.core.location import HERE
from outlive.core.process import Observation, ProcessRecord
from outlive.core.redactions import redacted_member
from outlive.protocols.jsonrpc.output import STREAM_NAMES

Encoding = Literal["utf-8", "base64"]
_WORDS = {State.PAUSED: "paused", State.QUEUED: "queued"}


def status_word(record: ProcessRecord) -> str:
    """Return S0's word for a state: started, paused, completed or failed; queued before its group's turn."""
    if record.is_ended:
        return "completed" if record.wire_exit_code == 0 and not record.output_lost else "failed"
    return _WORDS.get(record.state, "started")


def process_view(record: ProcessRecord) -> dict[str, object]:
    """Return everything a client may know of a process; times are ISO 8601 in UTC, sizes bytes."""
    return {
        "process_id": record.process_id,
        "status": status_word(record),
        "state": record.state.value,
        "waits_for": record.waits_for,
        "hint": record.hint,
        "pid": record.pid,
        "pgid": record.pid,
        "command": record.command,
        "shell": record.shell,
        "cwd": record.cwd,
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
        **place_view(record),
        **redacted_member(record.redacted),
    }


def place_view(record: ProcessRecord) -> dict[str, object]:
    """Return where a process runs, if it is not simply this machine; and whether that, or the keeper, says nothing now."""
    view: dict[str, object] = {} if record.location == HERE else {"location": record.location.view()}
    if record.is_unknown:
        view["unknown"] = True
    return view if record.is_reachable else {**view, "reachable": False}


def approval_view(
    record: ProcessRecord,
    *,
    digest: str,
    argv: Sequence[str],
    script: str,
    script_bytes: int,
    env: Mapping[str, str | None],
    redacted: int = 0,
) -> dict[str, object]:
    """Return what a person has to know to approve a start.

    Args:
        record: What waits.
        digest: Stands for all that decides what runs; an approval carries it.
        argv: The words that would be executed.
        script: Its script, or the beginning of it;
        script_bytes: and how long that is.
        env: The variables that the caller has set (None: taken away), with masked values or without.
        redacted: How many secrets and values are stars in it; `command` has those of the words again, and always, so it does not count.
    """
    approval = record.approval
    return {
        "process_id": record.process_id,
        "digest": digest,
        "command": record.command,
        "argv": [_shown(word) for word in argv],
        "script": script or None,
        "script_bytes": script_bytes,
        "cwd": record.cwd,
        "variables": [_shown(name) for name in env],
        "env": {_shown(name): None if value is None else _shown(value) for name, value in env.items()},
        "profile": record.sandbox.profile.value,
        "location": record.location.view() if not record.location.is_here else None,
        "reason": "" if approval is None else approval.reason,
        "principal": record.owner.principal,
        "since": record.created_at,
        "expires_at": None if approval is None else approval.expires_at,
        "tags": dict(record.tags),
        "group": record.group,
        **redacted_member(redacted),
    }


def _shown(word: str) -> str:
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def stats_view(seen: Observation) -> dict[str, object]:
    """Return what a process's tree looks like; times are seconds, sizes bytes."""
    return {
        "pids": list(seen.pids),
        "threads": seen.threads,
        "cpu": seen.cpu_s,
        "memory_bytes": seen.memory_bytes,
        "ports": list(seen.ports),
        "waiting": None if seen.waiting == "no" else seen.waiting,
    }


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one stream that ends at offset `end`; `data` None stands for released output from `start` on.

    `redacted`: how many secrets it shows as stars that none before it has shown a part of.
    """

    stream: int
    start: int
    end: int
    data: bytes | None
    redacted: int = 0


def page_view(
    pieces: Iterable[Piece], cursor: Cursor, *, encoding: Encoding, is_last: bool
) -> tuple[list[Mapping[str, object]], Cursor]:
    """Return the `chunks` of a page and the cursor behind it.

    A character cut by a chunk's end moves into its stream's next chunk, and at the page's end to the next page
    (the cursor then stands before it), so that joined texts are the decoded stream. `is_last`: nothing will follow,
    an unfinished character is shown as U+FFFD.
    """
    chunks: list[Mapping[str, object]] = []
    ends = [cursor.stdout, cursor.stderr]
    held = [b"", b""]
    for piece in pieces:
        stream = piece.stream
        if piece.data is None:
            _finish(chunks, ends, held, stream)
            gap = {
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
            shown = {"type": STREAM_NAMES[stream], "data": text, "end": ends[stream]}
            chunks.append({**shown, **redacted_member(piece.redacted)})
    if is_last:
        for stream in (0, 1):
            _finish(chunks, ends, held, stream)
    return chunks, Cursor(*ends)


def _finish(chunks: list[Mapping[str, object]], ends: list[int], held: list[bytes], stream: int) -> None:
    """Show an unfinished character whose rest will never come."""
    if held[stream]:
        ends[stream] += len(held[stream])
        text = held[stream].decode("utf-8", "replace")
        chunks.append({"type": STREAM_NAMES[stream], "data": text, "end": ends[stream]})
        held[stream] = b""
