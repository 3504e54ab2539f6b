"""What is kept beside a line with a final filter: exit codes, bytes, bounds, secrets, and that it
survives.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from outlive.core.command import Command, Limits, Profile
from outlive.core.cursor import BEGINNING
from outlive.core.lifecycle import State
from outlive.engine import Engine, Process
from outlive.engine.commands.unfiltered import MOST_BYTES, keeping_unfiltered, unfiltered_log, unfiltered_of
from outlive.kernel.processes import descendants
from outlive.store.folder import bytes_on_disk
from outlive.store.output_log import OutputLog
from outlive.store.retention import Retention
from tests.engine.engines import ME, an_engine, output_of, settled
from tests.engine.test_recovery import kill_supervisor
from tests.keeper.house import House, shim_program
from tests.support.processes import Gate
from tests.support.server import run_outlive

_PRINTED = "ghp_Qr5tUv7wXy9zAb1cDe3fGh5iJk7lMn9oPq1r"


@pytest.fixture
async def keeping(shared_house: House) -> AsyncIterator[Engine]:
    """An engine that has the native program."""
    async with an_engine(shared_house.state_dir, runner=shim_program()) as opened:
        yield opened


async def _start(engine: Engine, line: str, **options: object) -> Process:
    command = Command(line=line, keeps_unfiltered=True, **options)  # type: ignore[arg-type] # options by name
    return await engine.starts.start(command, owner=ME)


async def _run(engine: Engine, line: str, **options: object) -> Process:
    process = await _start(engine, line, **options)
    async with asyncio.timeout(60):
        await engine.queries.wait(process)
    return process


async def _bytes_of(process: Process, *, raw: bool = False) -> tuple[bytes, list[tuple[int, int]]]:
    return await asyncio.to_thread(lambda: _all_of(unfiltered_log(process, raw=raw)))


def _all_of(log: OutputLog) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the bytes of a log, and its gaps."""
    data, gaps, cursor = b"", [], BEGINNING
    while chunks := log.read(cursor, 256 * 1024):
        for chunk in chunks:
            if chunk.is_gap:
                gaps.append((chunk.offset, chunk.end))
            data += chunk.data
        cursor = type(cursor)(chunks[-1].end, 0)
    log.close()
    return data, gaps


@pytest.mark.parametrize(
    ("line", "exit_code", "before", "entered"),
    [
        ("sh -c 'seq 4; echo lost >&2; exit 3' 2>&1 | tail -1", 0, 3, b"1\n2\n3\n4\nlost\n"),
        ("seq 3 | grep nope", 1, 0, b"1\n2\n3\n"),
        ("set -o pipefail; sh -c 'seq 2; exit 7' | tail -1", 7, 7, b"1\n2\n"),
        ("set -e; sh -c 'seq 2; exit 7' | grep nope", 1, 7, b"1\n2\n"),
        ("cd / && sh -c 'seq 2; exit 9' | cat | sort | head -1", 0, 0, b"1\n2\n"),
        ("seq 2 | sh -c 'cat; exit 5' | head -9", 0, 5, b"1\n2\n"),
        ("sh -c 'echo a; kill -KILL $$' | tail -1", 0, 137, b"a\n"),
        ("true | tail -1", 0, 0, b""),
        ("no-such-program | tail -1", 0, 127, b""),
        ("seq 9 | tail -1; seq 2 | tail -1", 0, 0, b"1\n2\n"),
        ("printf 'no newline' | tail -1", 0, 0, b"no newline"),
    ],
)
async def test_the_exit_code_and_the_bytes_before_the_filter_are_kept(
    keeping: Engine, line: str, exit_code: int, before: int, entered: bytes
) -> None:
    process = await _run(keeping, line)
    kept = await unfiltered_of(process)
    assert kept is not None
    assert (process.record.exit_code, kept.exit_code_before, kept.size) == (exit_code, before, len(entered))
    assert await _bytes_of(process) == (entered, [])


async def test_what_a_leaving_filter_did_not_read_is_kept_as_far_as_it_was_written(keeping: Engine) -> None:
    """`head` leaves at once; the writer gets its SIGPIPE, and what lay in the pipe is kept."""
    process = await _run(keeping, "yes | head -1")
    kept = await unfiltered_of(process)
    assert kept is not None
    assert kept.exit_code_before == 128 + signal.SIGPIPE
    assert await output_of(process) == (b"y\n", b"")
    data, _ = await _bytes_of(process)
    assert data[:4] == b"y\ny\n"


@pytest.mark.parametrize(
    "line",
    [
        "cd /nowhere && seq 3 | tail -1",
        "false && seq 3 | tail -1",
        "seq 3",
        "seq 3 | tail -1 &",
        "seq 3 | sort",
        "kill -KILL $$ | tail -1",
    ],
)
async def test_nothing_is_said_of_a_filter_that_did_not_run(keeping: Engine, line: str) -> None:
    assert await unfiltered_of(await _run(keeping, line)) is None


async def test_without_a_copy_the_exit_code_is_known_all_the_same(keeping: Engine, tmp_path: Path) -> None:
    """A file such as a virtual environment's `activate` changes PATH.

    What lists processes gets no copier beside it.
    """
    activate = tmp_path / "activate"
    activate.write_text("PATH=/nowhere:$PATH; export PATH; hash -r\n")
    for line in (f". {activate} && sh -c 'exit 3' | tail -1", "ps | sh -c 'cat; exit 3' | tail -1"):
        kept = await unfiltered_of(await _run(keeping, line))
        assert kept is not None, line
        assert (kept.exit_code_before, kept.size) == (3, None)


async def test_without_the_native_program_only_exit_codes_are_kept(shared_house: House) -> None:
    async with an_engine(shared_house.state_dir, runner="/nowhere/outlive-runner") as engine:
        process = await _run(engine, "sh -c 'echo a; exit 4' | tail -1")
        kept = await unfiltered_of(process)
    assert kept is not None
    assert (kept.exit_code_before, kept.size) == (4, None)
    assert "unfiltered" not in await _files_of(process)


async def test_where_processes_are_counted_only_exit_codes_are_kept(keeping: Engine) -> None:
    # Far above what this user runs already, other tests included: those count for an ordinary user.
    process = await _run(keeping, "sh -c 'echo a; exit 4' | tail -1", limits=Limits(processes=50_000))
    kept = await unfiltered_of(process)
    assert kept is not None
    assert (kept.exit_code_before, kept.size) == (4, None)


async def test_nothing_is_kept_unless_it_is_asked_for(keeping: Engine) -> None:
    process = await keeping.starts.start(Command(line="seq 3 | tail -1"), owner=ME)
    async with asyncio.timeout(10):
        await keeping.queries.wait(process)
    assert await unfiltered_of(process) is None
    assert not {"filter", "codes", "unfiltered"} & await _files_of(process)


@pytest.mark.parametrize(
    ("options", "profile", "shell"),
    [
        ({"stdio": "pty"}, Profile.OPEN, "/bin/bash"),
        ({"prelude": "/some/file"}, Profile.OPEN, "/bin/bash"),
        ({}, Profile.WORKSPACE, "/bin/bash"),
        ({}, Profile.SEALED, "/bin/bash"),
        ({}, Profile.OPEN, "/bin/sh"),
        ({"keeps_unfiltered": False}, Profile.OPEN, "/bin/bash"),
    ],
)
def test_a_command_stays_as_it_is_where_nothing_can_be_kept(
    options: dict[str, object], profile: Profile, shell: str
) -> None:
    command = Command(**{"line": "seq 3 | tail -1", "keeps_unfiltered": True, **options})  # type: ignore[arg-type]
    assert keeping_unfiltered(command, profile, shell=shell, runner="/r", limit=None) == command


@pytest.mark.thorough
@pytest.mark.parametrize("filter_", ["tail -c 10", "grep -c nope", "head -c 199999999"])
async def test_a_flood_is_kept_within_bounds(keeping: Engine, filter_: str) -> None:
    """200 MB: the first bytes and the last ones, a hole between them, and no more than a step beyond the
    limit on disk.
    """
    size = 200_000_000
    writer = f"head -c {size} /dev/zero"
    process = await _run(keeping, f"{writer} | {filter_}")
    kept = await unfiltered_of(process)
    assert kept is not None
    assert kept.size == size
    path = f"{process.folder}/unfiltered/out"
    assert bytes_on_disk(path) <= MOST_BYTES + MOST_BYTES // 4
    log = unfiltered_log(process)
    gap = log.gap(0)
    assert gap is not None
    assert MOST_BYTES // 2 - 4096 <= gap[0] <= MOST_BYTES // 2
    assert MOST_BYTES // 2 <= size - gap[1] <= MOST_BYTES * 3 // 4
    assert log.look(0, 10, size - 10)[0] == bytes(10)
    log.close()


async def test_a_smaller_output_limit_bounds_it_as_well(keeping: Engine) -> None:
    process = await _run(keeping, "seq 1000000 | tail -1", output_limit=100_000)
    data, gaps = await _bytes_of(process)
    assert data.startswith(b"1\n2\n")
    assert data.endswith(b"999999\n1000000\n")
    assert len(gaps) == 1
    assert bytes_on_disk(f"{process.folder}/unfiltered/out") <= 150_000


async def test_secrets_are_hidden_as_in_the_output(keeping: Engine) -> None:
    """Patterns and values; of a server that forgot the values, too."""
    line = f"sh -c 'echo {_PRINTED}; echo v=$MINE end' | grep -v nothing"
    process = await _run(keeping, line, env_secrets={"MINE": "canary-93ac14de"})
    data, _ = await _bytes_of(process)
    assert b"canary" not in data
    assert _PRINTED.encode() not in data
    assert data.endswith(b" end\n")
    raw, _ = await _bytes_of(process, raw=True)
    assert b"v=canary-93ac14de end" in raw
    await settled(keeping, process)
    async with asyncio.timeout(10):
        while "masks" not in await _files_of(process, "unfiltered"):  # noqa: ASYNC110 - files have no event
            await asyncio.sleep(0.01)
    forgetful = Process(process.record, process.folder, output_limit=None)
    data, _ = await _bytes_of(forgetful)
    assert b"canary" not in data
    await asyncio.to_thread(os.unlink, f"{process.folder}/unfiltered/masks")
    data, _ = await _bytes_of(forgetful)
    assert set(data) <= set(b"*\n")


async def test_only_the_owner_of_the_state_folder_can_read_it(keeping: Engine) -> None:
    """Whatever the command's umask is: as the output, which no other user reads."""
    process = await _run(keeping, "umask 0; seq 3 | tail -1")
    for name in ("unfiltered", "unfiltered/out"):
        state = await asyncio.to_thread(os.stat, f"{process.folder}/{name}")
        assert state.st_mode & 0o077 == 0, name
    root = await asyncio.to_thread(os.stat, Path(process.folder).parents[1])
    assert root.st_mode & 0o077 == 0


@pytest.mark.parametrize("trick", ["mkfifo", "ln -s /etc/passwd", "mkdir"])
async def test_what_a_line_puts_in_its_place_is_not_read(keeping: Engine, trick: str) -> None:
    """No reader waits for a pipe, and none follows a link."""
    folder = "$OUTLIVE_STATE_DIR/processes/$OUTLIVE_PROCESS_ID"
    line = f"sh -c 'sleep 0.1; cd {folder}/unfiltered; rm out; {trick} out' | tail -1"
    kept = await unfiltered_of(await _run(keeping, line))
    assert kept is None or kept.size is None
    forged = f"sh -c 'sleep 0.1; cd {folder}; rm filter; {trick} filter' | tail -1"
    assert await unfiltered_of(await _run(keeping, forged)) is None


@pytest.mark.thorough
async def test_the_command_line_prints_it(shared_house: House, keeping: Engine) -> None:
    process = await _run(keeping, f"sh -c 'seq 3; echo {_PRINTED}; exit 6' | tail -1")
    done = await asyncio.to_thread(
        run_outlive, "logs", "--unfiltered", process.process_id, state_dir=shared_house.state_dir
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1\n2\n3\nghp_*")
    assert "before the filter: exit code 6" in done.stderr
    found = await asyncio.to_thread(
        run_outlive,
        *("logs", "--unfiltered", "--grep", "2", process.process_id),
        state_dir=shared_house.state_dir,
    )
    assert found.stdout == "2\n"
    without = await keeping.starts.start(Command(line="seq 3 | tail -1"), owner=ME)
    await keeping.queries.wait(without)
    refused = await asyncio.to_thread(
        run_outlive, "logs", "--unfiltered", without.process_id, state_dir=shared_house.state_dir
    )
    assert refused.returncode != 0
    assert "Nothing was kept" in refused.stderr


async def test_it_survives_the_death_of_keeper_and_server(own_house: House, gate: Gate) -> None:
    """The copier is one of the command's own processes: no other one has to live for it."""
    async with an_engine(own_house.state_dir, runner=shim_program()) as engine:
        wait = gate.wait.replace("'", "")
        process = await _start(engine, f"sh -c 'seq 3; {wait}; seq 4 6; exit 8' | tail -1")
        async with asyncio.timeout(10):
            while not bytes_on_disk(f"{process.folder}/unfiltered/out"):  # noqa: ASYNC110 - written by another process
                await asyncio.sleep(0.01)
    assert kill_supervisor(own_house)
    gate.open()
    async with an_engine(own_house.state_dir) as engine:
        found = await engine.queries.find(process.process_id)
        async with asyncio.timeout(20):
            await engine.queries.wait(found)
        kept = await unfiltered_of(found)
        assert kept is not None
        assert (found.record.exit_code, kept.exit_code_before) == (0, 8)
        assert await output_of(found) == (b"6\n", b"")
        assert await _bytes_of(found) == (b"1\n2\n3\n4\n5\n6\n", [])


async def test_a_killed_copier_ends_the_pipeline(keeping: Engine) -> None:
    """As a dead reader would: the writer gets its SIGPIPE, the filter its end of input."""
    process = await _start(keeping, "yes | tail -c 2")
    async with asyncio.timeout(10):
        # Two have the name for a moment: the other one is about to become the filter.
        while len(copiers := await asyncio.to_thread(_copiers_below, process.record.pid or 0)) != 1:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        while not bytes_on_disk(f"{process.folder}/unfiltered/out"):  # noqa: ASYNC110 - written by another process
            await asyncio.sleep(0.01)
    os.kill(copiers[0], signal.SIGKILL)
    async with asyncio.timeout(10):
        await keeping.queries.wait(process)
    assert process.record.exit_code == 0
    assert await output_of(process) == (b"y\n", b"")


async def test_a_stop_ends_all_of_it(keeping: Engine) -> None:
    process = await _start(keeping, "sh -c 'yes' | tail -1")
    async with asyncio.timeout(10):
        while process.status.state is not State.RUNNING:  # noqa: ASYNC110 - no event is public
            await asyncio.sleep(0.01)
        await keeping.controls.cancel(process, note="Enough.")
        await keeping.queries.wait(process)
    assert process.record.descendants == 0
    assert await unfiltered_of(process) is None


async def test_retention_counts_and_removes_it(own_house: House) -> None:
    async with an_engine(own_house.state_dir, runner=shim_program()) as engine:
        processes = [await _run(engine, "head -c 300000 /dev/zero | tail -c 1") for _ in range(3)]
        for process in processes:
            await settled(engine, process)
    # The outputs are a byte each.
    retention = Retention(max_bytes=700_000)
    async with (
        an_engine(own_house.state_dir, retention=retention, retention_interval_s=0.05) as engine,
        asyncio.timeout(20),
    ):
        while await _files_of(processes[0]):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.02)
        assert all([await _files_of(process) for process in processes[1:]])


def _copiers_below(pid: int) -> list[int]:
    found = []
    for one in descendants([pid]):
        with suppress(OSError):
            found += [one] if Path(f"/proc/{one}/comm").read_text() == "outlive-copier\n" else []
    return found


async def _files_of(process: Process, part: str = "") -> set[str]:
    with suppress(FileNotFoundError):
        return set(await asyncio.to_thread(os.listdir, os.path.join(process.folder, part)))
    return set()
