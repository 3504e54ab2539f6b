"""Processes as people read them: rows in columns, and the words for a state, an end and an age.

Pure but for `shown_table`, which asks what stdout is.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from outlive.cli.columns import shortened, table
from outlive.cli.output import Line, plain, terminal_width
from outlive.client.results import ProcessInfo
from outlive.core.identity import short_name
from outlive.core.location import ANY, LOCAL

_HEAD = ("ID", "NAME", "STATE", "PID", "AGE", "TIME", "OUTPUT")
_SIGNALED = 128  # how shells count an end by a signal
_UNKNOWN = 125  # it cannot be known how it ended, or it never ran
# The words for one state, at all doors for people: the page's are in base/words.js.
_CAUSES = {
    "cancel": "stopped",
    "timeout": "timed out",
    "output_limit": "killed (over its output limit)",
    "oom": "killed (out of memory)",
    "shutdown": "stopped",
    "approval_denied": "denied",
    "approval_expired": "not approved in time",
}
# Signals that the kernel sends for a fault of the program's own, or the program itself (signal(7)).
_OWN_FAULTS = frozenset({"ABRT", "BUS", "FPE", "ILL", "SEGV", "SYS", "TRAP", "XCPU", "XFSZ"})


def process_rows(
    infos: Sequence[ProcessInfo], *, now: datetime, project: str, more: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """Return the head and a row for each process.

    Those of `project` without a name are called by their short ids here. Where they run is a column once one
    of them runs elsewhere. `more` has what stands behind the states of those that live, by their ids.
    """
    is_spread = any(info.location is not None for info in infos)
    return [
        (*_HEAD, *(("ON",) if is_spread else ()), "COMMAND"),
        *(
            (
                short_name(info.process_id),
                info.name or ((info.short_id or "") if info.project == project else ""),
                outcome(info) + (more.get(info.process_id, "") if info.ended_at is None else ""),
                "" if info.pid is None else str(info.pid),
                age(info.created_at, now),
                _running_time(info, now),
                shown_size(info.cursor.stdout + info.cursor.stderr),
                *((_place(info),) if is_spread else ()),
                shown_command(info),
            )
            for info in infos
        ),
    ]


def _place(info: ProcessInfo) -> str:
    """Return where a process runs, in one word; a dash while that is not decided."""
    backend = LOCAL if info.location is None else info.location["backend"]
    return "-" if backend == ANY else backend


def shown_table(rows: Sequence[tuple[str, ...]]) -> list[Line]:
    """Return the lines of a table as stdout shows it best: cut at a terminal, whole elsewhere."""
    return table(rows, width=terminal_width())


def fitted(line: str) -> str:
    """Return a line that stdout shows without wrapping where it is a terminal."""
    width = terminal_width()
    return line if width is None else shortened(plain(line), width)


def outcome(info: ProcessInfo) -> str:
    """Return some words: the state, or how it ended; that its node is away; what is lost.

    What it has left running.
    """
    words = [_outcome(info)]
    if info.is_person_asked:
        words.append("a person was asked")
    if not info.is_reachable:
        words.append("unreachable")
    if info.output_lost:
        words.append("output lost")
    if info.descendants:
        words.append(f"left {info.descendants}")
    return ", ".join(words)


def _outcome(info: ProcessInfo) -> str:
    if info.cause is not None and info.ended_at is not None:
        return _CAUSES.get(info.cause, info.cause)
    if info.state == "exited":
        return "finished" if info.exit_code == 0 else f"failed (exit {info.exit_code})"
    if info.state == "signaled":
        name = short_signal(info.exit_signal)
        return f"crashed ({name})" if name in _OWN_FAULTS else f"killed ({name})"
    if asks(info):
        return "asks for input" if info.waiting == "input" else f"asks for {info.waiting}"
    state = "needs approval" if info.waits_for == "approval" else info.state.replace("_", " ")
    return f"unknown ({state})" if info.is_unknown and info.is_reachable else state


def asks(info: ProcessInfo) -> bool:
    """Tell whether a process waits for an answer: not a shell, for its next command."""
    return info.waiting is not None and not info.is_at_prompt


def needs_person(info: ProcessInfo) -> bool:
    """Tell whether it goes on only once a person has answered, or approved it."""
    return asks(info) or info.waits_for == "approval"


def short_signal(number: int | None) -> str:
    """Return a signal's name as `kill -l` has it: TERM."""
    # Start-up time: 0.8 ms for all states and signals, and most processes end by none.
    from outlive.core.lifecycle import signal_name  # noqa: PLC0415

    return signal_name(number).removeprefix("SIG")


def exit_status(info: ProcessInfo) -> int:
    """Return what a shell would call a process's end: its exit code, 128 + signal, 125 when it cannot be
    known.
    """
    if info.exit_signal is not None:
        return _SIGNALED + info.exit_signal
    return _UNKNOWN if info.exit_code is None else info.exit_code


def age(moment: datetime, now: datetime) -> str:
    """Return the time since then in its largest unit."""
    return shown_span((now - moment).total_seconds())


def shown_size(count: int) -> str:
    """Return bytes in their largest unit (powers of 1024)."""
    for shift, unit in ((30, "G"), (20, "M"), (10, "K")):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.1f}{unit}"
    return f"{count}B"


def shown_command(info: ProcessInfo) -> str:
    """Return the command on one line; a terminal has room for less of it, which `columns` sees to."""
    return plain(info.command)


def _needs(needs: Mapping[str, Any]) -> str:
    """Return what a process needs of its machine, as `--need` takes it."""
    words = [
        f"{name}={shown_size(value) if name == 'memory' else f'{value:g}'}"
        for name in ("cpu", "memory", "gpu")
        if (value := needs.get(name)) is not None
    ]
    return ", ".join([*words, *(f"{name}={value}" for name, value in needs.get("labels", {}).items())])


def describe(info: ProcessInfo) -> list[str]:
    """Return everything about a process, a line each; what is not there is left out."""
    facts: list[tuple[str, object]] = [
        ("id", info.process_id),
        ("name", info.name),
        ("short", info.short_id),
        ("project", info.project),
        ("key", info.key),
        ("command", info.command),
        ("state", outcome(info)),
        ("error", info.error),
        ("hint", info.hint),
        ("pid", info.pid),
        ("folder", info.cwd or None),  # "": it began where its node lets commands begin
        ("shell", info.shell),
        ("created", _moment(info.created_at)),
        ("started", _moment(info.started_at)),
        ("ended", _moment(info.ended_at)),
        ("output", f"{info.cursor.stdout} bytes stdout, {info.cursor.stderr} bytes stderr"),
        ("gaps", "yes: parts of the output were released" if info.has_gaps else None),
        ("lost", _loss(info)),
        ("stdio", info.stdio),
        ("stdin", info.stdin),
        ("timeout", None if info.timeout_s is None else f"{info.timeout_s:g} s"),
        ("grace", f"{info.grace_s:g} s"),
        ("group", info.group),
        ("tags", " ".join(f"{name}={value}" for name, value in sorted(info.tags.items())) or None),
        ("sandbox", _sandbox(info)),
        ("on", None if info.location is None else " ".join(info.location.values())),
        ("needs", None if info.needs is None else _needs(info.needs)),
        ("node", None if info.is_reachable else "away: the rest is what was known last"),
        (
            "found",
            "not yet: the rest is what was known last" if info.is_unknown and info.is_reachable else None,
        ),
        ("secrets", " ".join(info.secret_names) or None),
        ("left", f"{info.descendants} descendants" if info.descendants else None),
    ]
    return [f"{name:<9}{plain(str(value))}" for name, value in facts if value is not None]


def _loss(info: ProcessInfo) -> str | None:
    if not info.output_lost:
        return None
    return "some of its output" if info.lost_bytes is None else f"{info.lost_bytes} bytes of its output"


def _sandbox(info: ProcessInfo) -> str | None:
    if not info.features:
        return None if info.profile == "open" else info.profile
    return f"{info.profile}: {', '.join(info.features)}"


def _running_time(info: ProcessInfo, now: datetime) -> str:
    if info.started_at is None:
        return ""
    return shown_span(((info.ended_at or now) - info.started_at).total_seconds())


def shown_span(seconds: float) -> str:
    """Return a time in its largest unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0.0, seconds):.1f}s" if seconds < 10 else f"{int(seconds)}s"


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone().isoformat(sep=" ", timespec="milliseconds")
