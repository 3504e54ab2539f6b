"""One process as the registry stores it: `StoredProcess`, and `ProcessFilter`, which selects some of them.

Pure: translates between records and SQLite rows. SQL is run in `registry` and `writer`; the tables are in
`schema`.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from outlive.core.command import BootTime, Grant, Profile, Sandbox
from outlive.core.cursor import Cursor
from outlive.core.documents import decode_json
from outlive.core.errors import StoreCorrupt
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import NOT_ENDED, Cause, State
from outlive.core.location import HERE, Location
from outlive.core.needs import Needs
from outlive.core.process import Owner, ProcessRecord, StartOrigin, check_tags
from outlive.core.terminal import TerminalNote
from outlive.core.values import dataclass

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NOT_ENDED = ", ".join(f"'{state.value}'" for state in sorted(NOT_ENDED))
_MOST_NS = 2**63 - 1  # in the year 2262
_UNCOUNTED = -1  # in `lost_bytes`: output is lost, and it is not known how much


def at_time(ns: int) -> datetime:
    """Return Unix nanoseconds as aware UTC, exact to the microsecond (a float would not be)."""
    return _EPOCH + timedelta(microseconds=ns // 1000)


def to_ns(moment: datetime) -> int:
    """Return aware UTC as Unix nanoseconds."""
    return (moment - _EPOCH) // _MICROSECOND * 1000


def bounded_ns(moment: datetime) -> int:
    """Return the same within what SQLite computes with (63 bits): what lies beyond is before or behind
    everything.
    """
    return max(-_MOST_NS // 2, min(to_ns(moment), _MOST_NS))


def encode_grant(grant: Grant) -> dict[str, object]:
    """Return what is stored of a token of a command's own."""
    return {"scope": grant.scope, "sha256": grant.digest, "expires": encode_boot_time(grant.expires)}


def read_grant(meta: object) -> Grant | None:
    """Return what `encode_grant` described; None where there is none."""
    if not isinstance(meta, dict):
        return None
    expires = read_boot_time(meta.get("expires"))
    return Grant(scope=str(meta["scope"]), digest=str(meta["sha256"]), expires=expires)


def encode_boot_time(moment: BootTime | None) -> list[str | int] | None:
    """Return what is stored of a moment by the clock since boot."""
    return None if moment is None else [moment.boot_id, moment.boottime_ns]


def read_boot_time(stored: object) -> BootTime | None:
    """Return what `encode_boot_time` described; None for anything else."""
    match stored:
        case [str(boot_id), int(boottime_ns)]:
            return BootTime(boot_id, boottime_ns)
    return None


# In the order of the columns; the table `processes` in schema.py has exactly these.
COLUMNS = (
    # Which process it is, and whose.
    "process_id",
    "command_id",
    "principal",
    "connection_id",
    "request_id",
    # How it was started.
    "command",
    "shell",
    "cwd",
    "stdio",
    "stdin",
    # Its life, and its end. Times are Unix nanoseconds; the end is also known by the clock since boot, by
    # which records age.
    "state",
    "pid",
    "cause",
    "exit_code",
    "exit_signal",
    "error",
    "created_ns",
    "started_ns",
    "ended_ns",
    "ended_boot_id",
    "ended_boottime_ns",
    # Its output: the sizes now, the sizes at completion (bytes behind these are descendants'), and whether it
    # may grow.
    "stdout_bytes",
    "stderr_bytes",
    "complete_stdout",
    "complete_stderr",
    "is_complete",
    "is_closed",
    "has_gaps",
    "lost_bytes",
    "descendants",
    # What the caller asked for.
    "is_detached",
    "timeout_s",
    "grace_s",
    "output_limit",
    "tags",
    "group_name",
    # What it is called in its project, and where its start came from. Texts of several members are JSON.
    "project",
    "number",
    "start_key",
    "name",
    "origin",
    # Where and how it runs.
    "terminal",
    "location",
    "needs",
    "sandbox",
    "secret_names",
    "redacted",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProcess:
    """A record, and what else the engine needs to serve the process again.

    `complete` is the end of the output at completion: later bytes belong to descendants. `ended_boot` is the
    moment at which its end became known, by the clock since boot.
    """

    record: ProcessRecord
    complete: Cursor | None = None
    output_limit: int | None = None
    ended_boot: BootTime | None = None

    def to_row(self) -> tuple[object, ...]:
        """Return the values of `COLUMNS`."""
        record = self.record
        return (
            record.process_id,
            record.command_id,
            _text(record.owner.principal),
            _text(record.owner.connection_id),
            _text(record.owner.request_id),
            _text(record.command),
            _text(record.shell),
            _text(record.cwd),
            record.stdio,
            record.stdin,
            record.state.value,
            record.pid,
            record.cause.value,
            record.exit_code,
            record.exit_signal,
            _text(record.error),
            to_ns(record.created_at),
            None if record.started_at is None else to_ns(record.started_at),
            None if record.ended_at is None else to_ns(record.ended_at),
            None if self.ended_boot is None else self.ended_boot.boot_id,
            None if self.ended_boot is None else self.ended_boot.boottime_ns,
            record.stdout_bytes,
            record.stderr_bytes,
            None if self.complete is None else self.complete.stdout,
            None if self.complete is None else self.complete.stderr,
            record.is_complete,
            record.is_closed,
            record.has_gaps,
            _lost(record),
            record.descendants,
            record.is_detached,
            record.timeout_s,
            record.grace_s,
            self.output_limit,
            json.dumps(dict(record.tags)) if record.tags else None,
            _text(record.group),
            _text(record.project),
            record.number,
            _text(record.key),
            record.name,
            _text(json.dumps(origin)) if (origin := record.origin.encode()) else None,
            json.dumps(record.terminal.encode()) if record.terminal is not None else None,
            None if record.location == HERE else json.dumps(record.location.encode()),
            None if record.needs is None else _text(json.dumps(record.needs.view())),
            json.dumps(record.sandbox.view()) if record.sandbox.profile is not Profile.OPEN else None,
            json.dumps(record.secret_names) if record.secret_names else None,
            record.redacted,
        )

    @classmethod
    def from_row(cls, values: tuple[object, ...]) -> "StoredProcess":
        """Rebuild from the values of `COLUMNS`."""
        row = _Row(zip(COLUMNS, values, strict=True))
        started_ns, ended_ns = row.number("started_ns"), row.number("ended_ns")
        complete_stdout, complete_stderr = row.number("complete_stdout"), row.number("complete_stderr")
        tags: Mapping[str, str] = decode_json(row.text("tags") or "{}")
        record = ProcessRecord(
            process_id=ProcessId(row.word("process_id")),
            command=row.word("command"),
            shell=row.text("shell"),
            cwd=row.word("cwd"),
            state=State(row.word("state")),
            owner=Owner(
                principal=row.word("principal"),
                connection_id=row.text("connection_id"),
                request_id=row.text("request_id"),
            ),
            origin=StartOrigin.decode(decode_json(row.text("origin") or "null")),
            stdio=row.word("stdio"),
            stdin=row.word("stdin"),
            pid=row.number("pid"),
            cause=Cause(row.word("cause")),
            exit_code=row.number("exit_code"),
            exit_signal=row.number("exit_signal"),
            error=row.text("error"),
            created_at=at_time(row.count("created_ns")),
            started_at=None if started_ns is None else at_time(started_ns),
            ended_at=None if ended_ns is None else at_time(ended_ns),
            stdout_bytes=row.count("stdout_bytes"),
            stderr_bytes=row.count("stderr_bytes"),
            is_complete=bool(row.count("is_complete")),
            is_closed=bool(row.count("is_closed")),
            has_gaps=bool(row.count("has_gaps")),
            output_lost=(lost_bytes := row.number("lost_bytes")) is not None,
            lost_bytes=None if lost_bytes == _UNCOUNTED else lost_bytes,
            descendants=row.count("descendants"),
            is_detached=bool(row.count("is_detached")),
            timeout_s=row.real("timeout_s"),
            grace_s=row.real("grace_s") or 0.0,
            tags=tags,
            group=row.text("group_name"),
            command_id=row.text("command_id"),
            sandbox=Sandbox.decode(decode_json(row.text("sandbox") or "null")),
            secret_names=tuple(decode_json(row.text("secret_names") or "[]")),
            terminal=TerminalNote.decode(decode_json(row.text("terminal") or "null")),
            location=_location(row.text("location")),
            needs=Needs.decode(decode_json(row.text("needs") or "null")),
            redacted=row.count("redacted"),
            project=row.text("project"),
            number=row.number("number"),
            key=row.text("start_key"),
            name=row.text("name"),
        )
        complete = None
        if complete_stdout is not None and complete_stderr is not None:
            # Both or none: one alone would be a row that a crash has torn.
            complete = Cursor(complete_stdout, complete_stderr)
        boot_id, boottime_ns = row.text("ended_boot_id"), row.number("ended_boottime_ns")
        ended = None if boot_id is None or boottime_ns is None else BootTime(boot_id, boottime_ns)
        return cls(
            record=record, complete=complete, output_limit=row.number("output_limit"), ended_boot=ended
        )


def _location(text: str | None) -> Location:
    try:
        return Location.decode(decode_json(text or "null"))
    except ValueError as error:
        raise StoreCorrupt("store_corrupt", f"A row of the registry makes no sense: {error}.") from error


def _text(text: str | None) -> str | None:
    # SQLite stores UTF-8 only: undecodable bytes of a command (surrogates) become U+FFFD.
    if text is None or text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def _lost(record: ProcessRecord) -> int | None:
    if not record.output_lost:
        return None
    return _UNCOUNTED if record.lost_bytes is None else record.lost_bytes


def _lower(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass").lower()


def _is_run_of(record: ProcessRecord, command: str, cwd: str) -> bool:
    """Return whether a process has begun to run these words there, as the registry's text has them."""
    is_same = _text(record.command) == _text(command) and _text(record.cwd) == _text(cwd)
    return is_same and record.started_at is not None


def _has_lived(record: ProcessRecord, since: datetime) -> bool:
    """Return whether a process, or what it has left, lived at this moment or later."""
    is_alive = record.state in NOT_ENDED or record.descendants > 0
    return is_alive or (record.ended_at or record.created_at) >= since


class _Row(dict[str, object]):
    """A row's values by column name, each read with its type."""

    def word(self, column: str) -> str:
        return str(self[column])

    def text(self, column: str) -> str | None:
        value = self[column]
        return None if value is None else str(value)

    def count(self, column: str) -> int:
        return self.number(column) or 0

    def number(self, column: str) -> int | None:
        value = self[column]
        return value if isinstance(value, int) else None

    def real(self, column: str) -> float | None:
        value = self[column]
        return float(value) if isinstance(value, (int, float)) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFilter:
    """Which processes to list; None means any. `before` is the last id of the previous page.

    `active` selects processes of which something runs: the main process, or descendants that it left (True);
    or those whose main process has ended (False). `project` "" selects those of no project. All `tags` must
    match. `since` is a process id: that one and later ones; `until` is one, too: earlier ones. `ended_since`
    is a moment: what has ended then or later. `alive_since` is one, too: not what had ended before. `text` is
    contained in the command, ASCII letters in either case. `same_as` are a command and a folder: what has
    begun to run these words there.
    """

    principal: str | None = None
    connection_id: str | None = None
    request_id: str | None = None
    command_id: str | None = None
    project: str | None = None
    number: int | None = None
    key: str | None = None
    name: str | None = None
    pid: int | None = None
    group: str | None = None
    tags: Mapping[str, str] | None = None
    active: bool | None = None
    detached: bool | None = None
    states: frozenset[State] | None = None
    text: str | None = None
    same_as: tuple[str, str] | None = None
    since: str | None = None
    until: str | None = None
    ended_since: datetime | None = None
    alive_since: datetime | None = None
    before: str | None = None

    def __post_init__(self) -> None:
        """Refuse values that no process can have; raises InvalidRequest for a tag without a name."""
        check_tags(self.tags or {})

    def matches(self, record: ProcessRecord) -> bool:
        """Return whether `record` is selected (the same decision as `where`)."""
        owner = record.owner
        return (
            (self.principal is None or owner.principal == self.principal)
            and (self.connection_id is None or owner.connection_id == self.connection_id)
            and (self.request_id is None or owner.request_id == self.request_id)
            and (self.command_id is None or record.command_id == self.command_id)
            and (self.project is None or (record.project or "") == self.project)
            and (self.number is None or record.number == self.number)
            and (self.key is None or record.key == self.key)
            and (self.name is None or record.name == self.name)
            and (self.pid is None or record.pid == self.pid)
            and (self.group is None or record.group == self.group)
            and all(record.tags.get(name) == value for name, value in (self.tags or {}).items())
            and (
                self.active is None
                or (record.state in NOT_ENDED) == self.active
                or (self.active and record.descendants > 0)
            )
            and (self.detached is None or record.is_detached == self.detached)
            and (self.states is None or record.state in self.states)
            and (self.text is None or _lower(self.text) in _lower(record.command))
            and (self.same_as is None or _is_run_of(record, *self.same_as))
            and (self.since is None or record.process_id >= self.since)
            and (self.until is None or record.process_id < self.until)
            and (self.alive_since is None or _has_lived(record, self.alive_since))
            and (
                self.ended_since is None
                or (record.ended_at is not None and record.ended_at >= self.ended_since)
            )
            and (self.before is None or record.process_id < self.before)
        )

    def where(self) -> tuple[str, list[object]]:
        """Return the SQL condition and its parameters."""
        clauses: list[str] = []
        values: list[object] = []
        equal = {
            "principal": self.principal,
            "connection_id": self.connection_id,
            "request_id": self.request_id,
            "command_id": self.command_id,
            "coalesce(project, '')": self.project,
            "number": self.number,
            "start_key": self.key,
            "name": self.name,
            "pid": self.pid,
            "group_name": self.group,
            "is_detached": self.detached,
        }
        for column, wanted in equal.items():
            if wanted is not None:
                clauses.append(f"{column} = ?")
                values.append(wanted)
        # The table of tags finds candidates by one tag only.
        for name, value in (self.tags or {}).items():
            clauses.append("EXISTS (SELECT 1 FROM json_each(tags) WHERE key = ? AND value = ?)")
            values += [name, value]
        if self.active is not None:
            clauses.append(
                f"(state IN ({_NOT_ENDED}) OR descendants > 0)"
                if self.active
                else f"state NOT IN ({_NOT_ENDED})"
            )
        if self.states is not None:
            clauses.append("state IN (SELECT value FROM json_each(?))")
            values.append(json.dumps([state.value for state in self.states]))
        if self.text is not None:
            # SQLite's lower() changes ASCII letters only, as `_lower`.
            clauses.append("instr(lower(command), lower(?)) > 0")
            values.append(self.text)
        if self.same_as is not None:
            command, cwd = map(_text, self.same_as)
            # The plus keeps SQLite from putting the words into the expression that `processes_by_run` is made
            # of.
            clauses.append(
                "cwd = ? AND substr(command, 1, 64) = substr(?, 1, 64) AND +command = ? AND started_ns "
                "NOT NULL"
            )
            values += [cwd, command, command]
        for order, bound in ((">=", self.since), ("<", self.until), ("<", self.before)):
            if bound is not None:
                clauses.append(f"process_id {order} ?")
                values.append(bound)
        if self.alive_since is not None:
            # What is lost may have no end: it was alive when it was started, for certain.
            clauses.append(
                f"(state IN ({_NOT_ENDED}) OR descendants > 0 OR coalesce(ended_ns, created_ns) >= ?)"
            )
            values.append(bounded_ns(self.alive_since))
        if self.ended_since is not None:
            clauses.append("ended_ns >= ?")
            values.append(to_ns(self.ended_since))
        return " AND ".join(clauses) or "1", values
