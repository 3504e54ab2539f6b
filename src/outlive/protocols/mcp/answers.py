"""The answers of the lean tools as text: one header line, then head, omission mark and tail (promise S4.13). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from outlive.core.command import Profile
from outlive.core.cursor import Cursor
from outlive.core.lifecycle import State
from outlive.core.location import HERE
from outlive.core.process import ProcessRecord, Waiting
from outlive.core.redactions import hidden_words
from outlive.protocols.mcp.results import error_sentence
from outlive.protocols.plain import Line

_MIN_CUT = 40  # characters of each end of a cut line: fewer would show nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known of a process beside its record.

    `cursor` is None when the answer shows no output: the reader continues at its own cursor. `lines` is None when they were not
    counted. `workspace`: its name, and what the process has left there. `redacted`: how many secrets in the output are redacted.
    """

    duration_s: float
    cursor: Cursor | None = None
    lines: int | None = None
    ports: tuple[int, ...] = ()
    waiting: Waiting = "no"
    workspace: str | None = None
    redacted: int = 0


def header(record: ProcessRecord, now: Circumstances) -> str:
    """Return the line that describes a process's state completely."""
    size = record.stdout_bytes + record.stderr_bytes
    parts = [
        f"id={record.process_id}",
        _state(record),
        f"{now.duration_s:.1f}s",
        f"{size}B" if now.lines is None else f"{size}B/{now.lines} lines",
        f"cwd={record.cwd}",
    ]
    if record.sandbox.profile is not Profile.OPEN or record.sandbox.features:
        parts.append(f"sandbox={record.sandbox.profile}({','.join(record.sandbox.features)})")
    if record.location != HERE:
        parts.append(f"on={record.location.backend}")
    if record.output_lost:
        parts.append("output lost" if record.lost_bytes is None else f"{record.lost_bytes}B of output lost")
    if not record.is_reachable:
        parts.append("reachable=false (its node is away: this is what was known last)")
    elif record.is_unknown:
        parts.append("not found again yet: this is what was known last")
    if now.workspace is not None:
        parts.append(f"workspace={now.workspace}")
    if now.ports:
        parts.append(f"ports={','.join(map(str, now.ports))}")
    if now.waiting != "no":
        parts.append("waiting for a password" if now.waiting == "password" else "waiting for input")
    if record.is_complete and record.descendants:
        parts.append(f"{record.descendants} descendants still run")
    if now.redacted:
        parts.append(hidden_words(now.redacted))
    if now.cursor is not None:
        parts.append(f"cursor={now.cursor}")
    # An error gets a line of its own: an agent that reads only the beginning must not miss it.
    text = f"[{' '.join(parts)}]"
    error = error_sentence(record)
    return f"{text}\n[{error}]" if error else text


def _state(record: ProcessRecord) -> str:
    # An ended process whose output is still being read counts as running: its text may not be complete.
    if record.state is State.EXITED and record.is_complete:
        return f"exit={record.exit_code}"
    if record.state is State.SIGNALED and record.is_complete:
        return f"signal={record.exit_signal}"
    return "running" if record.state in {State.EXITED, State.SIGNALED} else record.state.value


def body(head: Sequence[Line], tail: Sequence[Line], *, budget: int, process_id: str) -> str:
    """Return lines as text of about `budget` characters, with one mark for what is left out.

    `tail` are lines that come after a gap; it is empty when `head` is everything. The mark names the call that shows exactly
    what is missing.
    """
    # Half of the budget for the head; the tail gets the rest, since errors are mostly at the end.
    before, after = _chosen(head, tail, budget=budget)
    every = [*head, *tail]
    if not tail and len(before) + len(after) == len(head):
        return "\n".join(line.text for line in every)
    if len(every) == 1:
        return _cut_line(every[0], budget, process_id=process_id)
    # The call in the mark begins where the head ends and stops where the tail begins.
    start = before[-1].end if before else every[0].start
    end = after[0].start if after else every[-1].end
    missing = end.stdout + end.stderr - start.stdout - start.stderr
    mark = f'[... {missing} bytes omitted: read(id="{process_id}", cursor="{start}", end="{end}") ...]'
    return "\n".join([*(line.text for line in before), mark, *(line.text for line in after)])


def redacted_in(head: Sequence[Line], tail: Sequence[Line], *, budget: int) -> int:
    """Return how many secrets in the lines that `body` shows are redacted; a line that is cut counts as a whole."""
    before, after = _chosen(head, tail, budget=budget)
    every = [*head, *tail]
    return sum(line.redacted for line in (every if len(every) == 1 else [*before, *after]))


def _chosen(
    head: Sequence[Line], tail: Sequence[Line], *, budget: int
) -> tuple[Sequence[Line], Sequence[Line]]:
    """Return the lines that are shown of the beginning and of the end."""
    before = head[: _fitting([line.text for line in head], budget // 2)]
    rest = tail or head[len(before) :]
    room = budget - sum(len(line.text) + 1 for line in before)
    return before, rest[len(rest) - _fitting([line.text for line in reversed(rest)], room) :]


def _fitting(texts: Sequence[str], room: int) -> int:
    """Return how many texts fit, with their newlines."""
    for count, text in enumerate(texts):
        room -= len(text) + 1
        if room < 0:
            return count
    return len(texts)


def _cut_line(line: Line, budget: int, *, process_id: str) -> str:
    """Return both ends of a line that is too long on its own."""
    half = max(_MIN_CUT, budget // 2)
    missing = len(line.text) - 2 * half
    if missing <= 0:
        return line.text
    call = f'read(id="{process_id}", cursor="{line.start}", end="{line.end}", budget={len(line.text) + 1})'
    return f"{line.text[:half]}\n[... {missing} characters of this line omitted: {call} ...]\n{line.text[-half:]}"
