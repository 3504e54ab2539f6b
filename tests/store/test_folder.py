"""A process's folder alone tells its record: the registry can be lost."""

import json
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from outlive.core.cursor import Cursor
from outlive.core.identity import RANDOM_BYTES, new_process_id
from outlive.core.lifecycle import Cause, State
from outlive.core.process import ProcessRecord
from outlive.core.spec import Spec
from outlive.protocols.frames import ExitRecord, PidRecord, encode_exit, encode_pid
from outlive.protocols.keeper import encode_spec
from outlive.store.end_sentences import NEVER_RAN, ended_sentence
from outlive.store.folder import encode_meta, read_folder
from outlive.store.rows import StoredProcess
from tests.store.rows import a_row, stored_processes

ID = new_process_id(1, bytes(RANDOM_BYTES))


def write_spec(folder: Path, record: ProcessRecord) -> None:
    """Write the spec as a start does."""
    spec = Spec(
        program="/bin/sh",
        argv=("sh", "-c", "x"),
        env={"A": "b"},
        cwd=record.cwd,
        stdio=record.stdio,
        stdin=record.stdin,
        timeout_s=record.timeout_s,
        grace_s=record.grace_s,
        output_limit=1000,
        meta=encode_meta(record),
    )
    (folder / "spec").write_bytes(encode_spec(spec))


def write_pid(folder: Path) -> None:
    """Write the pid file of a command that was spawned."""
    record = PidRecord(
        pid=77, start_ticks=1, started_ns=5_000, boottime_ns=1, shim_pid=2, input_pipe=3, boot_id="boot"
    )
    (folder / "pid").write_bytes(b"starting\n" + encode_pid(record))


def load(folder: Path, *, is_live: bool = False) -> tuple[StoredProcess, str]:
    """Read the folder; it must be readable."""
    found = read_folder(str(folder), ID, is_live=is_live)
    assert found is not None
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(stored=stored_processes)
def test_the_spec_keeps_everything_a_record_begins_with(tmp_path: Path, stored: StoredProcess) -> None:
    record = stored.record
    if "\0" in record.cwd:
        return
    write_spec(tmp_path, record)
    rebuilt = load(tmp_path, is_live=True)[0].record
    for name in (
        "command", "shell", "cwd", "owner", "stdio", "stdin", "is_detached", "timeout_s", "grace_s", "tags",
        "group", "command_id", "created_at",
    ):  # fmt: skip
        if name == "command" and not record.command:
            continue  # an old spec without a text shows its words
        assert getattr(rebuilt, name) == getattr(record, name), name


def test_an_ended_process_is_whole_again(tmp_path: Path) -> None:
    write_spec(tmp_path, a_row(1).record)
    write_pid(tmp_path)
    (tmp_path / "out").write_bytes(b"x" * 10)
    (tmp_path / "err").write_bytes(b"y" * 4)
    (tmp_path / "exit").write_bytes(encode_exit(ExitRecord(kind="signaled", number=15, ended_ns=9_000)))
    done = {"out": 8, "err": 4, "cause": 1, "note": "Cancelled by a test.", "descendants": 0}
    (tmp_path / "done").write_text(json.dumps(done))
    stored, note = load(tmp_path)
    record = stored.record
    assert (record.state, record.exit_signal, record.exit_code) == (State.SIGNALED, 15, None)
    assert (record.cause, record.error, note) == (
        Cause.CANCEL,
        "Cancelled by a test.",
        "Cancelled by a test.",
    )
    assert (record.pid, record.stdout_bytes, record.stderr_bytes) == (77, 10, 4)
    assert stored.complete == Cursor(8, 4)
    assert (record.is_complete, record.is_closed, record.has_gaps) == (True, True, False)
    assert stored.output_limit == 1000


def test_without_an_exit_record_a_process_is_lost_and_has_no_code(tmp_path: Path) -> None:
    """Never invent an exit code."""
    write_spec(tmp_path, a_row(1).record)
    write_pid(tmp_path)
    record = load(tmp_path)[0].record
    assert (record.state, record.exit_code, record.exit_signal) == (State.LOST, None, None)
    assert record.error is not None
    assert "cannot be known" in record.error


def test_a_process_that_was_never_spawned_never_ran(tmp_path: Path) -> None:
    write_spec(tmp_path, a_row(1).record)
    (tmp_path / "pid").write_bytes(b"starting\n")
    record = load(tmp_path)[0].record
    assert (record.state, record.error) == (State.FAILED_TO_START, NEVER_RAN)
    assert load(tmp_path, is_live=True)[0].record.state is State.STARTING


def test_a_failed_start_tells_why(tmp_path: Path) -> None:
    write_spec(tmp_path, a_row(1).record)
    (tmp_path / "exit").write_bytes(encode_exit(ExitRecord(kind="failed", number=13, ended_ns=9_000)))
    record = load(tmp_path)[0].record
    assert record.state is State.FAILED_TO_START
    assert record.error is not None
    assert "Permission denied" in record.error


def test_a_live_process_runs_or_is_paused_or_is_stopping(tmp_path: Path) -> None:
    write_spec(tmp_path, a_row(1).record)
    write_pid(tmp_path)
    assert load(tmp_path, is_live=True)[0].record.state is State.RUNNING
    (tmp_path / "paused").write_text("sigstop\n")
    assert load(tmp_path, is_live=True)[0].record.state is State.PAUSED
    (tmp_path / "stop").write_text(
        json.dumps({"cause": 5, "grace_s": 1, "boottime_ns": 1, "note": "Good night."})
    )
    stored, note = load(tmp_path, is_live=True)
    assert (stored.record.cause, note) == (Cause.SHUTDOWN, "Good night.")
    (tmp_path / "exit").write_bytes(encode_exit(ExitRecord(kind="exited", number=3, ended_ns=9_000)))
    record = load(tmp_path, is_live=True)[0].record
    assert (record.exit_code, record.is_complete, record.is_closed) == (3, False, False)
    (tmp_path / "done").write_text(json.dumps({"out": 0, "err": 0, "cause": 5, "descendants": 2}))
    record = load(tmp_path, is_live=True)[0].record
    assert (record.is_complete, record.is_closed, record.descendants) == (True, False, 2)


def test_a_folder_without_a_readable_spec_is_none(tmp_path: Path) -> None:
    assert read_folder(str(tmp_path), ID, is_live=False) is None
    for content in (b"", b"outlive-spec-9 2\n{}", b"outlive-spec-1 2\n{}", b"outlive-spec-1 x\n"):
        (tmp_path / "spec").write_bytes(content)
        assert read_folder(str(tmp_path), ID, is_live=False) is None


def test_torn_files_count_as_missing(tmp_path: Path) -> None:
    write_spec(tmp_path, a_row(1).record)
    (tmp_path / "pid").write_bytes(b"starting\n12 x\n")
    (tmp_path / "exit").write_bytes(b"exi")
    (tmp_path / "done").write_bytes(b'{"out"')
    record = load(tmp_path)[0].record
    assert record.state is State.FAILED_TO_START
    assert load(tmp_path)[0].complete == Cursor(0, 0)


def test_each_end_has_its_sentence() -> None:
    """S0.8: error is null for a natural end, one sentence for every other."""
    for cause in Cause:
        text = ended_sentence(State.SIGNALED, cause, timeout_s=1.5, output_limit=9)
        assert (text is None) == (cause is Cause.NONE)
        assert ended_sentence(State.RUNNING, cause) is None
    assert ended_sentence(State.EXITED, Cause.TIMEOUT, timeout_s=60.0) == "Command timed out after 60 seconds"
