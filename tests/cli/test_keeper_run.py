"""The keeper in a unit of its own: what ends the server's unit ends neither the keeper nor its commands."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from outlive.core.errors import BackendUnavailable
from outlive.discovery.keeper import ensure_keeper
from outlive.keeper.common.spawn import EXTERNAL_VARIABLE
from tests.cli.launching import environment, run
from tests.cli.test_notify import listening
from tests.cli.unit_groups import Unit, can_make_groups, unit, wait_until
from tests.support.processes import is_alive, poll_until, wait_dead, wait_state_folder_empty
from tests.support.rpc import connect
from tests.support.server import outlive_command

pytestmark = pytest.mark.thorough

_groups = pytest.mark.parametrize(
    "with_group",
    [
        pytest.param(False, id="sessions"),
        pytest.param(
            True,
            id="control groups",
            marks=pytest.mark.skipif(not can_make_groups(), reason="no right to make control groups"),
        ),
    ],
)


class _Units:
    """A machine's two units for one state folder, started and ended as the unit files say."""

    def __init__(self, folder: Path, *, with_group: bool) -> None:
        self.state_dir = folder / "state"
        self._folder = folder
        self._with_group = with_group

    @contextmanager
    def keeper(self, name: str = "keeper") -> Iterator[Unit]:
        """Start `outlive keeper run`; yield once it has said READY."""
        with self._started(name, "keeper", "run") as started:
            yield started

    @contextmanager
    def server(self, name: str = "server") -> Iterator[Unit]:
        """Start `outlive serve` as its unit does; yield once it has said READY."""
        words = (
            "serve",
            "--jsonrpc-port",
            "0",
            "--mcp-port",
            "off",
            "--rest-port",
            "off",
            "--bridge-port",
            "off",
        )
        with self._started(name, *words, OUTLIVE_KEEPER_EXTERNAL="1") as started:
            yield started

    @contextmanager
    def _started(self, name: str, *words: str, **env: str) -> Iterator[Unit]:
        address = self._folder / f"{name}.notify"
        told = environment({"NOTIFY_SOCKET": str(address), "OUTLIVE_CONFIG": os.devnull, **env})
        command = [*outlive_command(), *words, "--state-dir", str(self.state_dir)]
        with (
            listening(str(address)) as systemd,
            unit(name, *command, env=told, with_group=self._with_group) as started,
        ):
            assert systemd.recv(1000).splitlines()[0] == b"READY=1"
            yield started
        address.unlink()

    @property
    def url(self) -> str:
        """Where the server listens."""
        port = json.loads((self.state_dir / "server.json").read_text())["ports"]["jsonrpc"]
        return f"ws://127.0.0.1:{port}/ws/mcp"

    def status(self) -> dict[str, Any]:
        """Return what `outlive keeper status` says."""
        answer = run("keeper", "status", "--json", "--state-dir", str(self.state_dir))
        document: dict[str, Any] = json.loads(answer.stdout)
        return document

    def keeper_pids(self) -> set[int]:
        """Return the pids of supervisor and guardian, once both are there (blocks)."""
        pids: set[int | None] = {None}

        def are_there() -> bool:
            status = self.status()
            pids.clear()
            pids.update(status[part]["pid"] for part in ("supervisor", "guardian"))
            return None not in pids

        wait_until(are_there)
        return {pid for pid in pids if pid is not None}

    def stop(self) -> None:
        """End keeper and commands; nothing is left."""
        run("keeper", "stop", "--kill", "--state-dir", str(self.state_dir))
        assert wait_state_folder_empty(self.state_dir) == {}


@pytest.fixture
def units(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[_Units]:
    made = _Units(tmp_path, with_group=request.getfixturevalue("with_group"))
    yield made
    made.stop()


@_groups
async def test_killing_everything_in_the_servers_unit_spares_keeper_and_commands(
    units: _Units, with_group: bool, tmp_path: Path
) -> None:
    """The main claim: three times over the unit is killed whole, and the command writes on without a gap."""
    gate = tmp_path / "gate"
    with units.keeper() as keeper:
        with units.server() as server:
            async with connect(units.url) as client:
                line = f"echo one; until [ -e '{gate}' ]; do sleep 0.02; done; echo two; exit 7"
                started = await client.execute(line, detach=True)
            before = units.keeper_pids()
            assert server.process.pid in server.pids
            killed = await to_thread.run_sync(server.kill)
            assert not killed & {*before, started["pid"], keeper.process.pid}
        for _ in range(2):
            with units.server() as again:
                await to_thread.run_sync(again.kill)
        assert is_alive(started["pid"])
        assert units.keeper_pids() == before
        if with_group:
            assert {*before, started["pid"]} <= keeper.pids
        gate.touch()
        with units.server():
            async with connect(units.url) as client:
                attached = await client.request("attach", process_id=started["process_id"], cursor="0")
                ran = await client.finish({**attached, "process_id": started["process_id"]})
                assert (ran.exit_code, ran.stdout) == (7, "one\ntwo\n")


@_groups
async def test_the_unit_may_be_killed_and_stopped_and_the_keeper_lives_on(
    units: _Units, with_group: bool
) -> None:
    """KillMode=process: the reporting process alone dies. Its successor adopts the same keeper."""
    with units.keeper() as first, units.server():
        before = units.keeper_pids()
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
        assert units.keeper_pids() == before
    # `with` has killed the whole first unit now: that is more than systemd does. Guardian and supervisor of
    # sessions live.
    with units.keeper("again") as second, units.server():
        before = units.keeper_pids()
        async with connect(units.url) as client:
            started = await client.execute("sleep 1000", detach=True)
        assert await to_thread.run_sync(second.stop) == 0
        assert units.keeper_pids() == before
        assert is_alive(started["pid"])


@_groups
async def test_a_keeper_that_was_started_elsewhere_is_taken_in_and_commands_go_on(
    units: _Units, with_group: bool
) -> None:
    """Started by a server without a unit, it lay in that server's group; new commands do not."""
    words = [
        *outlive_command(),
        "serve",
        "--jsonrpc-port",
        "0",
        "--rest-port",
        "off",
        "--mcp-port",
        "off",
        "--bridge-port",
        "off",
        "--state-dir",
        str(units.state_dir),
    ]
    with unit(
        "plain", *words, env=environment({"OUTLIVE_CONFIG": os.devnull}), with_group=with_group
    ) as plain:
        await poll_until((units.state_dir / "server.json").exists)
        async with connect(units.url) as client:
            started = await client.execute("sleep 1000", detach=True)
            before = units.keeper_pids()
            assert not with_group or before <= plain.pids
            with units.keeper() as keeper:
                if with_group:
                    after = units.keeper_pids()
                    assert not after & before
                    assert after <= keeper.pids
                    assert not after & plain.pids
                    newer = await client.execute("sleep 1000", detach=True, concurrent=True)
                    assert newer["pid"] in keeper.pids
                else:
                    assert units.keeper_pids() == before
                assert is_alive(started["pid"])


@_groups
async def test_a_keeper_that_died_whole_comes_back_in_its_own_unit(units: _Units, with_group: bool) -> None:
    """Supervisor and guardian killed at once: not the server starts them again, but the one whose unit they
    are.
    """
    with units.keeper() as keeper, units.server() as server:
        async with connect(units.url) as client:
            started = await client.execute("sleep 1000", detach=True)
            before = units.keeper_pids()
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in before:
                    os.kill(pid, number)
            await wait_dead(*before)
            after = await to_thread.run_sync(units.keeper_pids)
            assert not after & before
            assert is_alive(started["pid"])
            if with_group:
                assert after <= keeper.pids
                assert not after & server.pids


@pytest.mark.parametrize("with_group", [False])
async def test_upgrade_is_left_to_the_unit_and_stop_ends_it(units: _Units, with_group: bool) -> None:
    with units.keeper() as keeper:
        before = units.keeper_pids()
        upgraded = run("keeper", "upgrade", "--json", "--state-dir", str(units.state_dir))
        assert upgraded.returncode == 0, upgraded.stderr
        new = json.loads(upgraded.stdout)["new"]
        assert not {*new.values()} & before
        assert units.keeper_pids() == {*new.values()}
        assert keeper.process.poll() is None
        stopped = run("keeper", "stop", "--state-dir", str(units.state_dir))
        assert stopped.returncode == 0, stopped.stderr
        assert await to_thread.run_sync(lambda: keeper.process.wait(15)) == 0
        assert units.status()["supervisor"]["pid"] is None


@pytest.mark.parametrize("with_group", [False])
def test_a_second_one_is_refused_with_the_pid_of_the_first(units: _Units, with_group: bool) -> None:
    with units.keeper() as keeper:
        second = run("keeper", "run", "--state-dir", str(units.state_dir))
        assert second.returncode == 1
        assert f"pid {keeper.process.pid}" in second.stderr


@pytest.mark.parametrize("with_group", [False])
def test_a_keeper_with_nothing_to_keep_stays_while_its_unit_does(
    units: _Units, with_group: bool, tmp_path: Path
) -> None:
    """Elsewhere it would end by itself: here half a second without work is already too long for it."""
    env = environment({"OUTLIVE_KEEPER_IDLE_S": "0.5", "NOTIFY_SOCKET": str(tmp_path / "idle.notify")})
    words = [*outlive_command(), "keeper", "run", "--state-dir", str(units.state_dir)]
    with (
        listening(str(tmp_path / "idle.notify")) as systemd,
        unit("idle", *words, env=env, with_group=False) as keeper,
    ):
        assert systemd.recv(1000).startswith(b"READY=1")
        before = units.keeper_pids()
        with pytest.raises(TimeoutError):
            _wait_end(before, patience_s=2.5)
        assert keeper.stop() == 0
        assert systemd.recv(1000) == b"STOPPING=1"
        _wait_end(before, patience_s=15)


def _wait_end(pids: set[int], *, patience_s: float) -> None:
    anyio.run(lambda: wait_dead(*pids, patience_s=patience_s))


def test_where_the_keeper_has_its_unit_nobody_else_launches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EXTERNAL_VARIABLE, "1")
    with pytest.raises(BackendUnavailable, match="did not start") as refused:
        ensure_keeper(str(tmp_path), deadline_s=0.5)
    assert "systemctl start outlive-keeper" in refused.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["identity"]
