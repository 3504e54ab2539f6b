"""What a process's folder holds: the record of a process, rebuilt from the keeper's files alone
(`read_folder`).

The folders are the truth; the registry is filled from here when it has less. The keeper's files are only read
here.

One file is the server's own: `labels`, tags, group and name of a process that were changed after its start.
The command's original labels stay in `spec`; `labels`, where it exists, replaces them.

Blocking: run everything here in a thread.

The sizes of a terminal's window over time: `sizes` in the process's folder, one line for each change.

An emulator that draws old output has to know how wide the terminal was. The server writes the file; a line
that a crash has cut is ignored. Blocking: for a thread.
"""

import json
import os
from collections.abc import Mapping

from outlive.core.command import ApprovalState, BootTime, Profile, Sandbox, StandingApproval
from outlive.core.cursor import Cursor
from outlive.core.documents import decode_json
from outlive.core.errors import ProcessNotFound
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause, State
from outlive.core.location import HERE, Location
from outlive.core.needs import Needs
from outlive.core.process import Owner, ProcessRecord, StartOrigin
from outlive.core.redactions import redacted_member
from outlive.core.spec import CALLER_ENVIRONMENT, Spec
from outlive.core.terminal import TerminalNote
from outlive.core.values import dataclass, replace
from outlive.kernel.files import open_place, read_all, read_any, write_whole
from outlive.protocols.frames import (
    COPIED,
    NODE_BOOT,
    ExitRecord,
    PidRecord,
    decode_end,
    decode_exit,
    decode_pid,
    decoded,
)
from outlive.protocols.keeper import DoneRecord, decode_done, decode_stop, stored_spec
from outlive.protocols.trace_context import valid_traceparent
from outlive.store.end_sentences import NEVER_RAN, WAS_COPIED, ended_sentence, with_loss, with_missing
from outlive.store.rows import (
    StoredProcess,
    at_time,
    encode_boot_time,
    encode_grant,
    read_boot_time,
    read_grant,
    to_ns,
)

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
    """Store the labels in a process's folder; a crash leaves the old ones or the new ones, also a power cut.

    Raises:
        OSError: The disk refuses them, or the folder is gone.
    """
    content = json.dumps({"tags": dict(labels.tags), "group": labels.group, "name": labels.name}).encode()
    write_whole(f"{folder}/{_FILE}", content, survives="power cut", by_many=True)


def read_labels(folder: str) -> ChangedLabels | None:
    """Return changed labels; None when they were never changed, or are damaged."""
    return decoded(read_all(f"{folder}/{_FILE}"), _labels)


def _labels(raw: bytes) -> ChangedLabels:
    content = decode_json(raw)
    tags = {str(one): str(value) for one, value in content["tags"].items()}
    return ChangedLabels(tags=tags, group=_text(content["group"]), name=_text(content["name"]))


def read_start(folder: str) -> tuple[Spec, str | None, str]:
    """Return what a process was started with, the content of its script file (None: it has none), and where
    that lies.

    Raises:
        ProcessNotFound: The folder is not there, or its files cannot be read.
    """
    path = f"{folder}/script"
    if (spec := stored_spec(read_all(f"{folder}/spec"))) is None:
        text = f"What {os.path.basename(folder)} was started with cannot be read."
        raise ProcessNotFound("process_not_found", text)
    try:
        return spec, read_any(path).decode("utf-8", "surrogateescape"), path
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


def read_folder(
    folder: str, process_id: ProcessId, *, is_live: bool, boot_id: str | None = None
) -> tuple[StoredProcess, str] | None:
    """Return a process and the note of its end from its folder; None when the folder has no readable spec.

    The note names the caller that asked for the end, if one did.

    Args:
        folder: The process's folder.
        process_id: Its id.
        is_live: Whether the keeper still holds it. If not, nothing will change any more: without an exit
            record it is lost (or never ran), and what is in the logs is all of its output.
        boot_id: The present boot, where it is not known which processes the keeper holds: none that ran on
            this machine in another one.
    """
    if (spec := stored_spec(read_all(f"{folder}/spec"))) is None:
        return None
    labels = read_labels(folder)
    if (base := decoded(b"spec", lambda _: base_record(spec, process_id, labels))) is None:
        return None
    sizes = (_size(f"{folder}/out"), _size(f"{folder}/err"))
    done = decoded(read_all(f"{folder}/done"), decode_done)
    stop = decoded(read_all(f"{folder}/stop"), decode_stop)
    # `done` repeats what `stop` says; `stop` alone means that the process is being stopped.
    why = done if done is not None else stop
    note, cause = ("", Cause.NONE) if why is None else (why.note, _CAUSES[why.cause])
    pid, ended = _life(folder)
    is_live &= boot_id is None or pid is None or pid.boot_id in {boot_id, NODE_BOOT}
    # A copied folder knows nothing about the end: the process went on in the original.
    if ended is not None and ended.kind == "lost" and ended.note == COPIED:
        note = WAS_COPIED
    # `closed` was written with `done` if the streams were closed by then, else as a file of its own later.
    is_closed = not is_live or (done is not None and (done.closed or _exists(f"{folder}/closed")))
    record = replace(
        _with_end(base, pid, ended, is_live=is_live, is_paused=_exists(f"{folder}/paused")),
        cause=cause,
        started_at=at_time(pid.started_ns) if pid is not None else None,
        stdout_bytes=sizes[0],
        stderr_bytes=sizes[1],
        is_complete=done is not None or not is_live,
        is_closed=is_closed,
        has_gaps=_exists(f"{folder}/gaps"),
        descendants=done.descendants if is_live and done is not None else 0,
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
        complete = Cursor(*sizes) if done is None else Cursor(done.out, done.err)
    if done is not None and done.holder_lost:
        record = with_loss(record, None)
    moment = _ended_boot(done, pid, ended) if record.is_ended else None
    stored = StoredProcess(
        record=record, complete=complete, output_limit=spec.output_limit, ended_boot=moment
    )
    return with_missing(stored, folder), note


def base_record(spec: Spec, process_id: ProcessId, changed: ChangedLabels | None = None) -> ProcessRecord:
    """Return the record that a spec describes, before its start; `changed` are labels that were given
    since.
    """
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
        "asked": encode_boot_time(approval.asked),
        "timeout_s": approval.timeout_s,
        "variables": list(approval.variables),
        "approved_by": approval.approved_by,
        "only_once": approval.only_once,
        "files": dict(approval.files),
        **({} if approval.standing is None else {"standing": approval.standing.encode()}),
    }


def _approval(meta: object) -> ApprovalState | None:
    if not isinstance(meta, dict):
        return None
    variables, files = meta.get("variables"), meta.get("files")
    return ApprovalState(
        reason=str(meta.get("reason") or ""),
        expires_at=at_time(_number(meta, "expires_ns")),
        asked=read_boot_time(meta.get("asked")),
        timeout_s=timeout_s if isinstance(timeout_s := meta.get("timeout_s"), int | float) else 0.0,
        variables=tuple(map(str, variables)) if isinstance(variables, list) else (),
        approved_by=_text(meta.get("approved_by")),
        files={str(name): str(state) for name, state in files.items()} if isinstance(files, dict) else {},
        standing=StandingApproval.decode(meta.get("standing")),
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


def _life(folder: str) -> tuple[PidRecord | None, ExitRecord | None]:
    """Return the command's pid record and its exit record; None for one that does not exist or is damaged."""
    raw = read_all(f"{folder}/pid")
    return decode_pid(raw), decode_end(raw) or decoded(read_all(f"{folder}/exit"), decode_exit)


def _ended_boot(done: DoneRecord | None, pid: PidRecord | None, ended: ExitRecord | None) -> BootTime | None:
    """Return when it ended by the clock since boot; only roughly where the keeper has recorded no end."""
    if done is not None and done.boottime_ns is not None:
        return BootTime(done.boot_id, done.boottime_ns)
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
    fd = open_place(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        os.write(fd, b"%d %d %d\n" % (size.offset, size.rows, size.cols))
        is_long = os.fstat(fd).st_size > _MAX_BYTES
    finally:
        os.close(fd)
    # A window that is dragged by hand changes its size many times a second: the file must not grow for ever.
    if is_long:
        kept = read_sizes(folder)
        lines = b"".join(b"%d %d %d\n" % (one.offset, one.rows, one.cols) for one in kept[len(kept) // 2 :])
        write_whole(path, lines)


def read_sizes(folder: str) -> list[WindowSize]:
    """Return the changes, oldest first."""
    try:
        lines = read_any(f"{folder}/{_WINDOW_SIZES_FILE}", most=2 * _MAX_BYTES).split(b"\n")
    except OSError:
        return []
    found = [line.split() for line in lines[:-1]]
    return [
        WindowSize(*map(int, words)) for words in found if len(words) == 3 and all(map(bytes.isdigit, words))
    ]
