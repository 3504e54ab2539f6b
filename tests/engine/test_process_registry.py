"""The registry by request id and pid: what it finds, what it refuses, how it ends."""

import os
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, InvalidState, ProcessNotFound
from outlive.core.process import Owner
from outlive.engine import Engine, Process, ProcessRegistry
from tests.engine.engines import an_engine, settled
from tests.keeper.house import House
from tests.support.processes import Marker, is_alive, wait_file, wait_for


def _registry(engine: Engine, principal: str, termination_timeout_s: float = 30.0) -> ProcessRegistry:
    return ProcessRegistry(engine, principal=principal, termination_timeout_s=termination_timeout_s)


@pytest.fixture
def principal() -> str:
    """A principal of the test's own: the keeper is shared."""
    return os.urandom(6).hex()


async def _started(engine: Engine, principal: str, line: str, request_id: str | None = None) -> Process:
    owner = Owner(principal=principal, request_id=request_id)
    return await engine.starts.start(Command(line=line, detached=True), owner=owner)


@pytest.mark.promise("S4.8")
async def test_a_process_is_found_by_the_request_that_started_it_and_by_pid(
    engine: Engine, principal: str
) -> None:
    registry = _registry(engine, principal)
    process = await _started(engine, principal, "sleep 100", request_id="550e8400")
    pid = process.record.pid
    assert pid is not None
    info = await registry.get_by_request_id("550e8400")
    assert info is not None
    assert (info.pid, info.request_id, info.command, info.status) == (pid, "550e8400", "sleep 100", "running")
    assert (info.exit_code, info.terminated_at, info.termination_signal) == (None, None, None)
    assert await registry.get_by_pid(pid) == info
    assert await registry.get_by_request_id(process.process_id) == info
    assert await registry.list_all() == [info]
    ended = await registry.terminate_gracefully(request_id="550e8400", reason="Enough.")
    assert ended == {
        "success": True,
        "pid": pid,
        "request_id": "550e8400",
        "signal": "SIGTERM",
        "message": "Process terminated with SIGTERM",
    }
    assert not is_alive(pid)
    info = await registry.get_by_pid(pid)
    assert info is not None
    assert (info.status, info.exit_code, info.termination_signal) == ("terminated", -15, "SIGTERM")
    assert info.terminated_at is not None
    assert (await engine.queries.find(process.process_id)).record.error == "Enough."
    with pytest.raises(InvalidState, match="has ended already"):
        await registry.terminate_gracefully(pid=pid)


@pytest.mark.promise("S4.8")
async def test_only_pids_that_the_engine_knows_are_registered(engine: Engine, principal: str) -> None:
    registry = _registry(engine, principal)
    with pytest.raises(ProcessNotFound):
        await registry.register("r1", os.getpid())
    process = await _started(engine, principal, "sleep 100")
    pid = process.record.pid or 0
    with pytest.raises(InvalidRequest):
        await registry.register("", pid)
    with pytest.raises(InvalidRequest):
        await registry.register("r1", pid, "something else")
    info = await registry.register("r1", pid, "sleep 100")
    assert (info.request_id, info.pid) == ("r1", pid)
    assert await registry.get_by_request_id("r1") == info
    stranger = _registry(engine, "somebody else")
    assert await stranger.get_by_request_id("r1") is None
    assert await stranger.get_by_request_id(process.process_id) is None
    assert await stranger.get_by_pid(pid) is None
    assert await stranger.list_all() == []
    with pytest.raises(ProcessNotFound):
        await stranger.terminate_gracefully(pid=pid)
    await engine.records.remove(process, force=True)
    with pytest.raises(ProcessNotFound):
        await registry.register("r1", pid)


@pytest.mark.promise("S4.8")
async def test_what_is_unregistered_runs_on_and_is_not_found(engine: Engine, principal: str) -> None:
    registry = _registry(engine, principal)
    process = await _started(engine, principal, "sleep 100", request_id="r1")
    pid = process.record.pid or 0
    known = await registry.unregister(request_id="r1")
    assert known.pid == pid
    for found in (await registry.get_by_request_id("r1"), await registry.get_by_pid(pid)):
        assert found is None
    assert await registry.list_all() == []
    with pytest.raises(ProcessNotFound):
        await registry.unregister(pid=pid)
    with pytest.raises(InvalidRequest):
        await registry.unregister()
    assert is_alive(pid)
    await engine.records.remove(process, force=True)


@pytest.mark.promise("S4.8")
async def test_a_tree_that_ignores_term_is_killed_after_the_timeout(
    engine: Engine, principal: str, marker: Marker, tmp_path: Path
) -> None:
    registry = _registry(engine, principal, termination_timeout_s=0.2)
    line = f"trap '' TERM; touch {tmp_path}/ready; while :; do {marker.sleep}; done"
    process = await _started(engine, principal, line)
    await wait_file(tmp_path / "ready")
    ended = await registry.terminate_gracefully(pid=process.record.pid)
    assert ended["signal"] == "SIGKILL"
    await wait_for(marker, 0)


@pytest.mark.promise("S4.8", "S4.12.restart")
async def test_names_survive_a_restart(own_house: House) -> None:
    async with an_engine(own_house.state_dir) as engine:
        registry = _registry(engine, "me")
        named = await _started(engine, "me", "sleep 100")
        hidden = await _started(engine, "me", "sleep 101")
        await registry.register("kept", named.record.pid or 0)
        await registry.unregister(pid=hidden.record.pid)
    async with an_engine(own_house.state_dir) as engine:
        registry = _registry(engine, "me")
        found = await registry.get_by_request_id("kept")
        assert found is not None
        assert [one.request_id for one in await registry.list_all()] == ["kept"]
        await registry.terminate_gracefully(request_id="kept")
        ended = await engine.queries.find(found.process_id)
        await settled(engine, ended)
        found = await registry.get_by_request_id("kept")
        assert found is not None
        assert found.status == "terminated"
        await engine.records.remove(await engine.queries.find(hidden.process_id), force=True)
