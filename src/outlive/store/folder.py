"""What a process's folder holds: the record of a process, rebuilt from the keeper's files alone (`read_folder`).

The folders are the truth; the registry is filled from here when it has less. The keeper's files are only read here.

One file is the server's own: `labels`, tags, group and name of a process that were changed after its start. The command's original
labels stay in `spec`; `labels`, where it exists, replaces them.

Blocking: run everything here in a thread.

The sizes of a terminal's window over time: `sizes` in the process's folder, one line for each change.

An emulator that draws old output has to know how wide the terminal was. The server writes the file; a line that a crash has cut
is ignored. Blocking: for a thread.
"""

import contextlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from outlive.core.command import ApprovalState, Profile, Sandbox
from outlive.core.cursor import Cursor
from outlive.core.errors import ProcessNotFound
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause, State
from outlive.core.location import HERE, Location
from outlive.core.needs import Needs
from outlive.core.process import Owner, ProcessRecord, StartOrigin
from outlive.core.redactions import redacted_member
from outlive.core.spec import CALLER_ENVIRONMENT, Spec
from outlive.core.terminal import TerminalNote
from outlive.policy.standing_approvals import decode_standing, encode_standing
from outlive.protocols.frames import COPIED, ExitRecord, PidRecord, decode_end, decode_exit, decode_pid
from outlive.protocols.keeper import decode_spec
from outlive.protocols.trace_context import valid_traceparent
from outlive.store.end_sentences import NEVER_RAN, WAS_COPIED, ended_sentence, with_loss, with_missing
from outlive.store.retention import BootTime
from outlive.store.rows import StoredProcess, at_time, encode_grant, read_grant, to_ns

_FILE = "labels"
UNFILTERED = (
    "unfiltered"  # a folder in a process's own: what entered the final filter of its line, as an output log
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedLabels:
    """What a process was given since its start, in the place of what it was started with."""

    tags: Mapping[str, str]
    group: str | None
    name: str | None


def write_labels(folder: str, labels: ChangedLabels) -> None:
    """Store the labels in a process's folder; a crash leaves the old ones or the new ones.

    Raises:
        OSError: The disk refuses them, or the folder is gone.
    """
    # A name of its own, so that two writers never share a file.
    new = f"{folder}/{_FILE}.{time.monotonic_ns()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        json.dump({"tags": dict(labels.tags), "group": labels.group, "name": labels.name}, file)
    os.rename(new, f"{folder}/{_FILE}")


def read_labels(folder: str, started_as: str | None) -> ChangedLabels | None:
    """Return changed labels; None when they were never changed (or a crash of the machine tore the file).

    `started_as` is the name in the spec: files of earlier versions say nothing of names.
    """
    try:
        with open(f"{folder}/{_FILE}", encoding="utf-8") as file:
            content = json.load(file)
        tags, group, name = content["tags"], content["group"], content.get("name", started_as)
        return ChangedLabels(
            tags={str(one): str(value) for one, value in tags.items()}, group=_text(group), name=_text(name)
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def read_start(folder: str) -> tuple[Spec, str | None, str]:
    """Return what a process was started with, the content of its script file (None: it has none), and where that lies.

    Raises:
        ProcessNotFound: The folder is not there, or of another version.
    """
    path = f"{folder}/script"
    try:
        with open(f"{folder}/spec", "rb") as file:
            spec = decode_spec(file.read())
    except (OSError, ValueError, LookupError):
        text = f"What {os.path.basename(folder)} was started with cannot be read."
        raise ProcessNotFound("process_not_found", text) from None
    try:
        with open(path, "rb") as file:
            return spec, file.read().decode("utf-8", "surrogateescape"), path
    except OSError:
        return spec, None, path


_CAUSES = tuple(Cause)  # in the order of protocols.keeper.CauseCode
_ENDED = {
    "exited": State.EXITED,
    "signaled": State.SIGNALED,
    "failed": State.FAILED_TO_START,
    "lost": State.LOST,
}


def encode_meta(record: ProcessRecord) -> dict[str, object]:
    """Return what the spec stores of a new record, beside what the keeper itself needs."""
    owner = record.owner
    came = {"door": owner.door, "address": owner.address} if owner.door else {}
    return {
        **came,
        **({"traceparent": owner.traceparent} if owner.traceparent else {}),
        **({"origin": origin} if (origin := record.origin.encode()) else {}),
        "command": record.command,
        "shell": record.shell,
        "principal": record.owner.principal,
        "connection_id": record.owner.connection_id,
        "request_id": record.owner.request_id,
        **({} if record.project is None else {"project": record.project}),
        **({} if record.number is None else {"number": record.number}),
        **({} if record.key is None else {"key": record.key}),
        **({} if record.name is None else {"name": record.name}),
        "created_ns": to_ns(record.created_at),
        "command_id": record.command_id,
        "detached": record.is_detached,
        "tags": dict(record.tags),
        "group": record.group,
        **({} if record.approval is None else {"approval": _encode_approval(record.approval)}),
        **({} if record.grant is None else {"grant": encode_grant(record.grant)}),
        **({"sandbox": record.sandbox.view()} if record.sandbox.profile is not Profile.OPEN else {}),
        **({} if record.location == HERE else {"location": record.location.encode()}),
        **({} if record.terminal is None else {"terminal": record.terminal.encode()}),
        **({} if record.needs is None else {"needs": record.needs.view()}),
        **redacted_member(record.redacted),
    }


def read_folder(folder: str, process_id: ProcessId, *, is_live: bool) -> tuple[StoredProcess, str] | None:
    """Return a process and the note of its end from its folder; None when the folder has no readable spec.

    The note names the caller that asked for the end, if one did.

    Args:
        folder: The process's folder.
        process_id: Its id.
        is_live: Whether the keeper still holds it. If not, nothing will change any more: without an exit record it is
            lost (or never ran), and what is in the logs is all of its output.
    """
    raw_spec = _content(f"{folder}/spec")
    if raw_spec is None:
        return None
    try:
        spec = decode_spec(raw_spec)
        base = base_record(spec, process_id, read_labels(folder, _text(spec.meta.get("name"))))
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    sizes = (_size(f"{folder}/out"), _size(f"{folder}/err"))
    done, stop = _json(f"{folder}/done"), _json(f"{folder}/stop")
    # `done` repeats what `stop` says; `stop` alone means that the process is being stopped.
    why = done if done is not None else stop or {}
    note, cause = str(why.get("note") or ""), _cause(why.get("cause"))
    pid, ended = _life(folder)
    # A copied folder knows nothing about the end: the process went on in the original.
    if ended is not None and ended.kind == "lost" and ended.note == COPIED:
        note = WAS_COPIED
    # `closed` was written with `done` if the streams were closed by then, else as a file of its own later.
    is_closed = not is_live or bool(done and (done.get("closed") or _exists(f"{folder}/closed")))
    record = replace(
        _with_end(base, pid, ended, is_live=is_live, is_paused=_exists(f"{folder}/paused")),
        cause=cause,
        started_at=at_time(pid.started_ns) if pid is not None else None,
        stdout_bytes=sizes[0],
        stderr_bytes=sizes[1],
        is_complete=done is not None or not is_live,
        is_closed=is_closed,
        has_gaps=_exists(f"{folder}/gaps"),
        descendants=_number(done, "descendants") if is_live and done else 0,
    )
    if record.error is None:
        record = replace(
            record,
            error=ended_sentence(
                record.state,
                cause,
                note=note,
                timeout_s=spec.timeout_s,
                output_limit=spec.output_limit,
                errno=ended.number if ended is not None and ended.kind == "failed" else 0,
            ),
        )
    complete = None
    # The sizes at completion; bytes behind them are output of descendants.
    if record.is_complete:
        complete = Cursor(*sizes) if done is None else Cursor(_number(done, "out"), _number(done, "err"))
    if done is not None and done.get("holder_lost"):
        record = with_loss(record, None)
    moment = _ended_boot(done, pid, ended) if record.is_ended else None
    stored = StoredProcess(
        record=record, complete=complete, output_limit=spec.output_limit, ended_boot=moment
    )
    return with_missing(stored, folder), note


def base_record(spec: Spec, process_id: ProcessId, changed: ChangedLabels | None = None) -> ProcessRecord:
    """Return the record that a spec describes, before its start; `changed` are labels that were given since."""
    meta = spec.meta
    tags, group, name = meta.get("tags"), _text(meta.get("group")), _text(meta.get("name"))
    if changed is not None:
        tags, group, name = dict(changed.tags), changed.group, changed.name
    created_ns = meta.get("created_ns")
    return ProcessRecord(
        process_id=process_id,
        command=str(meta.get("command") or " ".join(spec.argv)),
        shell=_text(meta.get("shell")),
        cwd=spec.cwd,
        state=State.STARTING,
        owner=Owner(
            principal=str(meta.get("principal") or ""),
            connection_id=_text(meta.get("connection_id")),
            request_id=_text(meta.get("request_id")),
            door=_text(meta.get("door")) or "",
            address=_text(meta.get("address")) or "",
            traceparent=valid_traceparent(meta.get("traceparent")),
        ),
        origin=StartOrigin.decode(meta.get("origin")),
        stdio=spec.stdio,
        stdin=spec.stdin,
        created_at=at_time(created_ns if isinstance(created_ns, int) else 0),
        is_detached=bool(meta.get("detached")),
        timeout_s=spec.timeout_s,
        grace_s=spec.grace_s,
        tags={str(name): str(value) for name, value in tags.items()} if isinstance(tags, dict) else {},
        group=group,
        command_id=_text(meta.get("command_id")),
        approval=_approval(meta.get("approval")),
        grant=read_grant(meta.get("grant")),
        sandbox=Sandbox.decode(meta.get("sandbox")),
        secret_names=tuple(name for name in spec.secrets if name != CALLER_ENVIRONMENT),
        terminal=TerminalNote.decode(meta.get("terminal")),
        location=Location.decode(meta.get("location")),
        needs=Needs.decode(meta.get("needs")),
        redacted=_number(meta, "redacted"),
        project=_text(meta.get("project")),
        number=_number(meta, "number") or None,
        key=_text(meta.get("key")),
        name=name,
    )


def _encode_approval(approval: ApprovalState) -> dict[str, object]:
    return {
        "reason": approval.reason,
        "expires_ns": to_ns(approval.expires_at),
        "variables": list(approval.variables),
        "approved_by": approval.approved_by,
        "only_once": approval.only_once,
        **({} if approval.standing is None else {"standing": encode_standing(approval.standing)}),
    }


def _approval(meta: object) -> ApprovalState | None:
    if not isinstance(meta, dict):
        return None
    variables = meta.get("variables")
    return ApprovalState(
        reason=str(meta.get("reason") or ""),
        expires_at=at_time(_number(meta, "expires_ns")),
        variables=tuple(map(str, variables)) if isinstance(variables, list) else (),
        approved_by=_text(meta.get("approved_by")),
        standing=decode_standing(meta.get("standing")),
        only_once=str(meta.get("only_once") or ""),
    )


def _with_end(
    base: ProcessRecord, pid: PidRecord | None, ended: ExitRecord | None, *, is_live: bool, is_paused: bool
) -> ProcessRecord:
    """Return the record with its state, its pid, and how it ended if it has."""
    if ended is not None:
        state = _ENDED[ended.kind]
        return replace(
            base,
            state=state,
            pid=pid.pid if pid is not None else None,
            exit_code=ended.number if state is State.EXITED else None,
            exit_signal=ended.number if state is State.SIGNALED else None,
            ended_at=at_time(ended.ended_ns),
        )
    if pid is None:
        if is_live:
            return base
        return replace(base, state=State.FAILED_TO_START, error=NEVER_RAN)
    if not is_live:
        return replace(base, state=State.LOST, pid=pid.pid)
    return replace(base, state=State.PAUSED if is_paused else State.RUNNING, pid=pid.pid)


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _json(path: str) -> dict[str, object] | None:
    """Return a JSON object; None when the file is missing or torn by a crash of the machine."""
    with contextlib.suppress(ValueError):
        content = json.loads(_content(path) or b"null")
        if isinstance(content, dict):
            return content
    return None


def _life(folder: str) -> tuple[PidRecord | None, ExitRecord | None]:
    """Return the command's pid record and its exit record; None for one that does not exist or is torn."""
    raw = _content(f"{folder}/pid") or b""
    pid = ended = None
    with contextlib.suppress(ValueError, IndexError):
        pid = decode_pid(raw)
    with contextlib.suppress(ValueError):
        ended = decode_end(raw) or decode_exit(_content(f"{folder}/exit") or b"")
    return pid, ended


def _ended_boot(
    done: dict[str, object] | None, pid: PidRecord | None, ended: ExitRecord | None
) -> BootTime | None:
    """Return when it ended by the clock since boot; from files of earlier versions only roughly."""
    if done is not None and isinstance(done.get("boottime_ns"), int):
        return BootTime(str(done.get("boot_id")), _number(done, "boottime_ns"))
    if pid is None:
        return None
    # How long it ran is taken from the wall clock, which is wrong only if it was set meanwhile.
    lasted_ns = 0 if ended is None else max(0, ended.ended_ns - pid.started_ns)
    return BootTime(pid.boot_id, pid.boottime_ns + lasted_ns)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def bytes_on_disk(path: str) -> int:
    """Return what a file takes on disk, holes left out; 0 for one that is not there."""
    try:
        return os.lstat(path).st_blocks * 512  # of stat(2)'s own unit
    except OSError:
        return 0


def _exists(path: str) -> bool:
    return os.path.exists(path)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _number(content: Mapping[str, object], name: str) -> int:
    value = content.get(name)
    return value if isinstance(value, int) else 0


def _cause(number: object) -> Cause:
    return _CAUSES[number] if isinstance(number, int) and 0 <= number < len(_CAUSES) else Cause.NONE


_WINDOW_SIZES_FILE = "sizes"
_MAX_BYTES = 64 * 1024  # some thousand changes; beyond that the newer half is kept


@dataclass(frozen=True, slots=True)
class WindowSize:
    """Rows and columns from an offset of the output on."""

    offset: int
    rows: int
    cols: int


def note_size(folder: str, size: WindowSize) -> None:
    """Append a change.

    Raises:
        OSError: The disk refuses it, or the folder is gone.
    """
    path = f"{folder}/{_WINDOW_SIZES_FILE}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, b"%d %d %d\n" % (size.offset, size.rows, size.cols))
        is_long = os.fstat(fd).st_size > _MAX_BYTES
    finally:
        os.close(fd)
    # A window that is dragged by hand changes its size many times a second: the file must not grow for ever.
    if is_long:
        kept = read_sizes(folder)
        lines = b"".join(b"%d %d %d\n" % (one.offset, one.rows, one.cols) for one in kept[len(kept) // 2 :])
        with open(f"{path}.new", "wb") as file:
            file.write(lines)
        os.replace(f"{path}.new", path)


def read_sizes(folder: str) -> list[WindowSize]:
    """Return the changes, oldest first."""
    try:
        with open(f"{folder}/{_WINDOW_SIZES_FILE}", "rb") as file:
            lines = file.read(2 * _MAX_BYTES).split(b"\n")
    except OSError:
        return []
    found = [line.split() for line in lines[:-1]]
    return [
        WindowSize(*map(int, words)) for words in found if len(words) == 3 and all(map(bytes.isdigit, words))
    ]
