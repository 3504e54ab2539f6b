"""Sandboxed commands under kills of the keeper: output exact, codes exact, and the whole tree under
control.
"""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from outlive.core.command import Command, Profile
from outlive.core.controls import Pause, Resume
from outlive.core.lifecycle import State
from outlive.engine import Engine, Process
from outlive.keeper.sandbox.capabilities import ask_offers
from tests.engine.engines import ME, an_engine, output_of, run, settled
from tests.keeper.house import House, is_paused, shim_program
from tests.support.processes import Gate, Marker, poll_until

pytestmark = pytest.mark.thorough

_OBSTACLES = ask_offers("/", program=shim_program()).obstacles
PROFILES = [
    pytest.param(
        profile,
        marks=pytest.mark.skipif(bool(_OBSTACLES[profile]), reason=f"{profile.value}: {_OBSTACLES[profile]}"),
    )
    for profile in (Profile.GUARDED, Profile.OFFLINE, Profile.SEALED)
]


def _lines(gate: Gate) -> str:
    return f"for i in $(seq 300); do echo line $i; done; {gate.wait}; echo behind; sh -c 'exit 7'; exit 43"


_WANTED = b"".join(b"line %d\n" % number for number in range(1, 301)) + b"behind\n"


@pytest.mark.parametrize("profile", PROFILES)
async def test_output_and_exit_code_survive_the_whole_keeper(
    own_house: House, tmp_path: Path, profile: Profile
) -> None:
    gate = Gate(tmp_path / "workspace" / "gate")
    gate.path.parent.mkdir()
    async with an_engine(own_house.state_dir) as engine:
        process = await _start(engine, _lines(gate), profile, gate.path.parent)
        await asyncio.to_thread(_kill_everybody, own_house, process.process_id)
        gate.open()
        assert await output_of(process) == (_WANTED, b"")
        assert process.record.exit_code == 43
        await settled(engine, process)


def _kill_everybody(house: House, process_id: str) -> None:
    house.kill(house.supervisor(), house.guardian())
    house.wait_redundant()
    house.kill_shim_of(process_id)
    house.wait_redundant()
    house.kill(house.supervisor())
    house.wait_redundant()


@pytest.mark.parametrize("profile", PROFILES)
async def test_a_signal_is_the_end_that_is_told(engine: Engine, tmp_path: Path, profile: Profile) -> None:
    process = await run(engine, "kill -TERM $$; sleep 60", profile=profile.value, cwd=str(tmp_path))
    assert (process.record.state, process.record.exit_signal) == (State.SIGNALED, signal.SIGTERM)


@pytest.mark.parametrize("profile", PROFILES)
async def test_the_command_leads_its_session_and_its_tree_is_paused_and_ended(
    engine: Engine, marker: Marker, tmp_path: Path, profile: Profile
) -> None:
    line = (
        f"trap 'echo told; exit 5' TERM; {marker.sleep} & (setsid {marker.sleep} &); env -i setsid "
        f"{marker.sleep} & wait"
    )
    process = await _start(engine, line, profile, tmp_path)
    pid = process.record.pid
    assert pid is not None
    assert os.getpgid(pid) == os.getsid(pid) == pid
    await poll_until(lambda: len(marker.pids()) == 3)
    await engine.controls.control(process, Pause())
    assert all(is_paused(one) for one in [pid, *marker.pids()])
    await engine.controls.control(process, Resume())
    assert not any(is_paused(one) for one in marker.pids())
    await engine.controls.cancel(process, grace_s=10)
    assert await output_of(process) == (b"told\n", b"")
    assert process.record.exit_code == 5
    assert marker.pids() == []
    await settled(engine, process)


@pytest.mark.parametrize("profile", PROFILES)
async def test_an_orphaned_tree_is_ended_whatever_it_hides(
    own_house: House, marker: Marker, tmp_path: Path, profile: Profile
) -> None:
    hidden = f"env -i setsid {marker.sleep} & " if profile is Profile.SEALED else ""
    async with an_engine(own_house.state_dir) as engine:
        (tmp_path / "workspace").mkdir()
        line = f"{marker.sleep} & {hidden} wait"
        process = await _start(engine, line, profile, tmp_path / "workspace")
        count = 2 if hidden else 1
        await poll_until(lambda: len(marker.pids()) == count)
        await asyncio.to_thread(own_house.kill_shim_of, process.process_id)
        await asyncio.to_thread(own_house.wait_redundant)
        await engine.controls.control(process, Pause())
        assert all(is_paused(one) for one in marker.pids())
        await engine.controls.control(process, Resume())
        await engine.controls.cancel(process, grace_s=5)
        async with asyncio.timeout(20):
            await engine.queries.wait(process)
        assert process.record.exit_signal == signal.SIGTERM
        assert marker.pids() == []
        await settled(engine, process)


async def test_what_a_sealed_command_leaves_running_goes_on_and_is_counted(
    engine: Engine, marker: Marker, tmp_path: Path
) -> None:
    if _OBSTACLES[Profile.SEALED]:
        pytest.skip(_OBSTACLES[Profile.SEALED])
    process = await run(engine, f"{marker.sleep} & exit 3", profile="sealed", cwd=str(tmp_path))
    assert (process.record.exit_code, process.record.descendants) == (3, 1)
    await poll_until(lambda: len(marker.pids()) == 1)
    await engine.controls.cancel(process)
    async with asyncio.timeout(20):
        await engine.queries.wait(process, until="closed")
    assert marker.pids() == []


async def test_a_sealed_command_in_a_terminal_has_a_name_for_it(engine: Engine, tmp_path: Path) -> None:
    if _OBSTACLES[Profile.SEALED]:
        pytest.skip(_OBSTACLES[Profile.SEALED])
    line = "tty; test -t 0 && stty size < /dev/tty"
    process = await run(engine, line, profile="sealed", stdio="pty", rows=31, cols=99, cwd=str(tmp_path))
    assert await output_of(process) == (b"/dev/console\r\n31 99\r\n", b"")


@pytest.mark.parametrize("profile", PROFILES)
async def test_an_unknown_program_and_a_lost_folder_are_told_as_without_a_sandbox(
    engine: Engine, tmp_path: Path, profile: Profile
) -> None:
    process = await run(engine, "no-such-program-here", profile=profile.value, cwd=str(tmp_path))
    assert process.record.exit_code == 127
    bad = tmp_path / "bad"
    bad.write_text("#!/no/such/interpreter\n")
    bad.chmod(0o755)
    with pytest.raises(Exception, match="No such file") as failed:
        await engine.starts.start(
            Command(argv=(str(bad),), profile=profile.value, cwd=str(tmp_path)), owner=ME
        )
    assert failed.value.code == "not_found"  # type: ignore[attr-defined] # an OutliveError


async def _start(engine: Engine, line: str, profile: Profile, folder: Path) -> Process:
    return await engine.starts.start(Command(line=line, profile=profile.value, cwd=str(folder)), owner=ME)
