"""Limits of resources: what enforces them is told, they hold, and an end for want of memory is told as
that.
"""

import os
import signal
from pathlib import Path

import pytest

from outlive.config import Settings
from outlive.core.command import Command, Limits, Profile
from outlive.core.errors import InvalidRequest, StartFailed
from outlive.core.lifecycle import Cause, State
from outlive.engine import Engine
from outlive.keeper.sandbox.capabilities import Capabilities
from outlive.keeper.sandbox.cgroups import find_limits
from outlive.keeper.sandbox.steps import Machine, SandboxPlace, bounds_of
from tests.engine.engines import ME, an_engine, output_of, run, settled
from tests.keeper.house import House
from tests.support.processes import Marker, poll_until

_GROUPS = find_limits(os.getpid())
_MB = 1 << 20


@pytest.mark.thorough
async def test_files_and_processor_time_are_limits_of_each_process(engine: Engine) -> None:
    process = await run(engine, "ulimit -n; ulimit -Hn; ulimit -t", limits=Limits(files=64, cpu_s=30))
    assert await output_of(process) == (b"64\n64\n30\n", b"")
    assert set(process.record.sandbox.features) == {"rlimit_files", "rlimit_cpu"}
    busy = await run(engine, "while :; do :; done", limits=Limits(cpu_s=1))
    assert busy.record.exit_signal in {signal.SIGXCPU, signal.SIGKILL}


async def test_the_operators_limits_hold_and_a_start_may_lower_them(shared_house: House) -> None:
    settings = Settings(limit_files=100)
    async with an_engine(shared_house.state_dir, options=settings) as engine:
        assert (await output_of(await run(engine, "ulimit -n")))[0] == b"100\n"
        lower = await run(engine, "ulimit -n", limits=Limits(files=50), profile="guarded")
        assert (await output_of(lower))[0] == b"50\n"
        with pytest.raises(InvalidRequest, match="files may be 100"):
            await engine.starts.start(Command(line="true", limits=Limits(files=101)), owner=ME)


@pytest.mark.skipif("memory" not in _GROUPS, reason="no control group can limit memory here")
async def test_want_of_memory_is_told_and_the_group_is_gone_afterwards(
    engine: Engine, tmp_path: Path
) -> None:
    profile = "guarded"
    command = Command(argv=("tail", "/dev/zero"), profile=profile, limits=Limits(memory_bytes=32 * _MB))
    process = await engine.starts.start(command, owner=ME)
    assert "cgroup_memory" in process.record.sandbox.features
    await output_of(process)
    assert (process.record.state, process.record.exit_signal) == (State.SIGNALED, signal.SIGKILL)
    assert process.record.cause is Cause.OOM
    assert "memory" in (process.record.error or "")
    await settled(engine, process)
    machine = (await engine.sandboxes.offers()).machine
    assert not _exists(machine.memory_file.format(f"outlive-{process.process_id}"))


def _exists(path: str) -> bool:
    return os.path.exists(path)


@pytest.mark.thorough
@pytest.mark.skipif("pids" not in _GROUPS, reason="no control group can limit processes here")
async def test_a_fork_bomb_stays_small_and_leaves_nothing(engine: Engine, marker: Marker) -> None:
    line = f"for i in $(seq 100); do {marker.sleep} & done 2>/dev/null; wait"
    process = await engine.starts.start(Command(line=line, limits=Limits(processes=20)), owner=ME)
    assert process.record.sandbox.features == ("cgroup_processes",)
    await poll_until(lambda: len(marker.pids()) >= 15)
    assert len(marker.pids()) < 20
    await engine.controls.cancel(process, grace_s=1)
    await engine.queries.wait(process)
    assert marker.pids() == []
    await settled(engine, process)
    machine = (await engine.sandboxes.offers()).machine
    assert not _exists(os.path.dirname(machine.pids_file.format(f"outlive-{process.process_id}")))


@pytest.mark.thorough
@pytest.mark.skipif("cpu" not in _GROUPS, reason="no control group can limit processors here")
async def test_a_share_of_a_processor_holds_for_the_whole_tree(engine: Engine) -> None:
    """Two that would be busy for ever get a twentieth of a processor together, whatever else the machine
    does.
    """
    line = "timeout 1.5 sh -c 'while :; do :; done' & timeout 1.5 sh -c 'while :; do :; done' & wait; times"
    process = await run(engine, line, limits=Limits(cpus=0.05))
    assert process.record.sandbox.features == ("cgroup_cpus",)
    used = (await output_of(process))[0].decode().splitlines()[1]  # of the children, "0m0.080s 0m0.010s"
    user, system = (float(word[2:].rstrip("s")) for word in used.split())
    # In 1.5 s and a little: 0.075. A slice of the scheduler may go beyond the quota, and is taken off the
    # next one.
    assert user + system < 0.5
    await settled(engine, process)
    machine = (await engine.sandboxes.offers()).machine
    assert not _exists(os.path.dirname(machine.cpu_file.format(f"outlive-{process.process_id}")))


async def test_a_share_of_a_processor_without_a_group_is_refused(engine: Engine) -> None:
    engine.sandboxes.assume(Capabilities(machine=Machine(), obstacles=dict.fromkeys(Profile, "")))
    with pytest.raises(StartFailed, match="needs a control group") as refused:
        await engine.starts.start(Command(line="true", limits=Limits(cpus=1)), owner=ME)
    assert refused.value.code == "sandbox_unavailable"
    assert "cpu" in refused.value.hint


async def test_a_limit_of_processes_that_would_not_hold_is_refused(engine: Engine) -> None:
    engine.sandboxes.assume(Capabilities(machine=Machine(is_root=True), obstacles=dict.fromkeys(Profile, "")))
    with pytest.raises(StartFailed, match="binds root") as refused:
        await engine.starts.start(Command(line="true", limits=Limits(processes=20)), owner=ME)
    assert refused.value.code == "sandbox_unavailable"


def test_without_control_groups_limits_are_the_kernels_of_each_process() -> None:
    limits = Limits(memory_bytes=_MB, processes=5)
    bounds = bounds_of(Profile.OPEN, Machine(), SandboxPlace(), limits=limits, name="x")
    assert bounds is not None
    assert set(bounds.features) == {"rlimit_memory", "rlimit_processes"}
    assert bounds.groups == ()
    grouped = Machine(cpu_file="/g/{}/cpu.max", memory_file="/g/{}/memory.max", pids_file="/g/{}/pids.max")
    limits = Limits(memory_bytes=_MB, processes=5, cpus=1.5)
    bounds = bounds_of(Profile.OPEN, grouped, SandboxPlace(), limits=limits, name="x")
    assert bounds is not None
    assert bounds.groups == ("/g/outlive-x",)
    assert bounds.steps == (
        "group /g/outlive-x",
        "set 150000 /g/outlive-x/cpu.max",
        f"set {_MB} /g/outlive-x/memory.max",
        "set 1 /g/outlive-x/memory.oom.group",
        "set 5 /g/outlive-x/pids.max",
        "cgroup /g/outlive-x",
    )
