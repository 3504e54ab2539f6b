"""Rows for tests: strategies and plain ones."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from outlive.core.command import BootTime
from outlive.core.cursor import Cursor
from outlive.core.identity import RANDOM_BYTES, new_process_id
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner, ProcessRecord, StartOrigin
from outlive.store.rows import StoredProcess

START = datetime(2026, 1, 1, tzinfo=UTC)
names = st.text(max_size=8)
moments = st.integers(0, 10**15).map(lambda micros: START + timedelta(microseconds=micros))
sizes = st.integers(0, 2**62)


def a_row(number: int, **fields: object) -> StoredProcess:
    """Return an ended process; a larger number is a later one."""
    values: dict[str, object] = {
        "process_id": new_process_id((1_700_000_000_000 + number) * 1_000_000, bytes(RANDOM_BYTES)),
        "command": f"echo {number}",
        "shell": "/bin/sh",
        "cwd": "/",
        "state": State.EXITED,
        "owner": Owner(principal="me"),
        "exit_code": 0,
        "created_at": START + timedelta(seconds=number),
        "ended_at": START + timedelta(seconds=number + 1),
        "is_complete": True,
        "is_closed": True,
    }
    return StoredProcess(record=ProcessRecord(**{**values, **fields}), complete=Cursor(1, 2))  # type: ignore[arg-type] # built from names


stored_processes = st.builds(
    StoredProcess,
    record=st.builds(
        ProcessRecord,
        process_id=st.builds(
            new_process_id, st.integers(0, 2**63), st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)
        ),
        command=st.text(),
        shell=st.none() | names,
        cwd=names,
        state=st.sampled_from(State),
        owner=st.builds(
            Owner,
            principal=st.sampled_from(["me", "you"]),
            connection_id=st.sampled_from([None, "c1", "c2"]),
            request_id=st.sampled_from([None, "1", "2"]),
        ),
        origin=st.builds(
            StartOrigin, door=st.sampled_from(["", "mcp"]), host=names, parent=st.sampled_from(["", "01k"])
        ),
        stdio=st.sampled_from(["pipes", "merge", "pty"]),
        stdin=st.sampled_from(["none", "pipe"]),
        pid=st.none() | st.integers(1, 5),
        cause=st.sampled_from(Cause),
        exit_code=st.none() | st.integers(0, 255),
        exit_signal=st.none() | st.integers(1, 64),
        error=st.none() | names,
        created_at=moments,
        started_at=st.none() | moments,
        ended_at=st.none() | moments,
        stdout_bytes=sizes,
        stderr_bytes=sizes,
        is_complete=st.booleans(),
        is_closed=st.booleans(),
        has_gaps=st.booleans(),
        descendants=st.integers(0, 9),
        is_detached=st.booleans(),
        timeout_s=st.none() | st.floats(0, 1e9),
        grace_s=st.floats(0, 1e9),
        tags=st.dictionaries(
            st.sampled_from(["a", "b.c", 'q"']), st.sampled_from(["1", "2", "ü"]), max_size=2
        ),
        group=st.sampled_from([None, "g"]),
        command_id=st.sampled_from([None, "cmd_1_1", "cmd_1_2"]),
    ),
    complete=st.none() | st.builds(Cursor, sizes, sizes),
    output_limit=st.none() | sizes,
    ended_boot=st.none() | st.builds(BootTime, st.sampled_from(["b1", "b2"]), sizes),
)
