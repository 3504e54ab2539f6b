"""`env_secrets`: the process has the values, no file does, and a start that lost them does not happen."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, StartFailed
from outlive.core.lifecycle import State
from outlive.engine import Engine
from tests.engine.engines import ME, an_engine, output_of, run, settled
from tests.keeper.house import House
from tests.support.processes import Gate

CANARY = "canary-7d1f0c9e"


def _files_with(folder: Path, text: str) -> list[str]:
    """Return the files of a state folder that hold a text; sockets are skipped."""
    found = []
    # The keeper takes prepared folders meanwhile: os.walk passes over one that is gone.
    for path in (Path(place, name) for place, _, names in os.walk(folder) for name in names):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and text.encode() in path.read_bytes():
                found.append(path.relative_to(folder).as_posix())
    return found


async def test_the_process_has_a_secret_and_no_file_does(shared_house: House, engine: Engine) -> None:
    line = 'printf %s "$KEY_OF_MINE" | sha256sum; printf %s "${#KEY_OF_MINE}"'
    process = await run(engine, line, env_secrets={"KEY_OF_MINE": CANARY})
    out, _ = await output_of(process)
    assert out.endswith(str(len(CANARY)).encode())
    await settled(engine, process)
    assert process.record.secret_names == ("KEY_OF_MINE",)
    assert (await engine.queries.find(process.process_id)).record.secret_names == ("KEY_OF_MINE",)
    assert engine.redaction.secrets.of(process.process_id) == {"KEY_OF_MINE": CANARY}
    assert _files_with(shared_house.state_dir, CANARY) == []
    assert "KEY_OF_MINE" in (Path(process.folder) / "spec").read_text()


async def test_a_secret_comes_on_top_of_the_environment_and_may_be_any_bytes(engine: Engine) -> None:
    odd = "a=b\n\udcff"
    command = Command(argv=("/usr/bin/env", "-0"), env={"A": "plain"}, env_secrets={"A": odd, "EMPTY": ""})
    process = await engine.starts.start(command, owner=ME)
    await engine.queries.wait(process)
    words = (await output_of(process))[0].split(b"\0")
    assert b"A=a=b\n\xff" in words
    assert b"EMPTY=" in words
    assert b"A=plain" not in words


async def test_a_terminal_and_an_argv_are_given_secrets_too(engine: Engine) -> None:
    command = Command(argv=("/bin/sh", "-c", "printf '<%s>' $K"), stdio="pty", env_secrets={"K": CANARY})
    process = await engine.starts.start(command, owner=ME)
    assert (await output_of(process))[0] == f"<{CANARY}>".encode()


@pytest.mark.parametrize(
    "secrets",
    [{"": "x"}, {"A=B": "x"}, {"A\0": "x"}, {"A": "\0"}, {"A": "\ud800"}, {"OUTLIVE_PROCESS_ID": "x"}],
)
async def test_an_impossible_secret_is_refused_without_being_repeated(
    engine: Engine, secrets: dict[str, str]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await engine.starts.start(Command(line="true", env_secrets=secrets), owner=ME)
    assert refused.value.code == "invalid_params"


async def test_too_many_secret_bytes_are_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="65536 are the most") as refused:
        await engine.starts.start(Command(line="true", env_secrets={"A": CANARY * 10_000}), owner=ME)
    assert CANARY not in refused.value.message
    with pytest.raises(InvalidRequest, match="more than 64"):
        await engine.starts.start(
            Command(line="true", env_secrets={f"A{n}": "" for n in range(65)}), owner=ME
        )


async def test_the_next_server_reads_the_secrets_of_what_runs(own_house: House, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    async with an_engine(own_house.state_dir) as first:
        command = Command(line=f"{gate.wait}; echo $K", env_secrets={"K": CANARY})
        started = await first.starts.start(command, owner=ME)
    async with an_engine(own_house.state_dir) as second:
        process = await second.queries.find(started.process_id)
        assert second.redaction.secrets.of(process.process_id) == {"K": CANARY}
        gate.open()
        assert await output_of(process) == (f"{CANARY}\n".encode(), b"")
        await settled(second, process)
        await second.records.remove(process)
        assert second.redaction.secrets.of(process.process_id) == {}


async def test_a_queued_command_keeps_its_secrets_in_memory_and_loses_them_with_the_server(
    own_house: House, tmp_path: Path
) -> None:
    gate, marker = Gate(tmp_path / "gate"), tmp_path / "ran"

    def waiting(line: str) -> Command:
        return Command(line=line, group="g", group_limit=1, env_secrets={"K": CANARY})

    async with an_engine(own_house.state_dir) as engine:
        await engine.starts.start(Command(line=gate.wait, group="g", group_limit=1), owner=ME)
        admitted = await engine.starts.start(waiting("echo $K"), owner=ME)
        assert admitted.record.state is State.QUEUED
        assert _files_with(own_house.state_dir, CANARY) == []
        gate.open()
        assert (await output_of(admitted))[0] == f"{CANARY}\n".encode()
        gate.path.unlink()
        blocker = await engine.starts.start(Command(line=gate.wait, group="g"), owner=ME)
        lost = await engine.starts.start(waiting(f"touch {marker}"), owner=ME)
    async with an_engine(own_house.state_dir) as engine:
        record = (await engine.queries.find(lost.process_id)).record
        assert record.state is State.FAILED_TO_START
        assert "secrets_lost" in (record.error or "")
        gate.open()
        await engine.queries.wait(await engine.queries.find(blocker.process_id))
        assert not marker.exists()


@pytest.fixture
def armed_house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A keeper that dies at the failpoint of the test's parameter once `tmp_path / "token"` exists."""
    with House(
        tmp_path / "state", env={"OUTLIVE_FAILPOINT": f"{request.param}@{tmp_path / 'token'}"}
    ) as house:
        yield house


@pytest.mark.parametrize("armed_house", ["start.committed"], indirect=True)
async def test_a_start_whose_supervisor_dies_with_the_secrets_does_not_run(
    armed_house: House, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    async with an_engine(armed_house.state_dir) as engine:
        (tmp_path / "token").touch()
        with pytest.raises(StartFailed) as failed:
            await engine.starts.start(Command(line=f"touch {marker}", env_secrets={"K": CANARY}), owner=ME)
    assert failed.value.code == "secrets_lost"
    assert not marker.exists()
    assert _files_with(armed_house.state_dir, CANARY) == []


@pytest.mark.parametrize("armed_house", ["shim.received"], indirect=True)
async def test_a_start_survives_its_shim_with_its_secrets(armed_house: House, tmp_path: Path) -> None:
    async with an_engine(armed_house.state_dir) as engine:
        (tmp_path / "token").touch()
        process = await engine.starts.start(Command(line="echo $K", env_secrets={"K": CANARY}), owner=ME)
        assert await output_of(process) == (f"{CANARY}\n".encode(), b"")
    assert not (tmp_path / "token").exists()
