"""What takes the disk, at every door: the same facts, of the caller's own processes only. And a state folder
that is gone.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from outlive.client import Client
from outlive.client.results import DiskPart, DiskReport, DiskRule, ProjectDisk
from outlive.core.layout import Layout
from outlive.kernel.locks import holder_of
from outlive.operations.answers import DiskShare, DiskUsageAnswer, ProjectShare, RetentionRule
from tests.docs.wire import Wire
from tests.doors.starts import REFUSED, command_tools, json_rpc, lean, python_client, rest_door, shell_tool
from tests.keeper.client import until
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.processes import Gate, is_alive
from tests.support.server import OutliveServer, run_outlive


@pytest.fixture
def served(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server of a test's own, which keeps three that have ended."""
    with OutliveServer(tmp_path / "state", args=["--retention-count", "3", "--retention", "1h"]) as server:
        yield server


def test_the_clients_types_have_the_members_of_the_answer() -> None:
    """Issue 38, 4."""
    for ours, theirs in (
        (DiskReport, DiskUsageAnswer),
        (ProjectDisk, ProjectShare),
        (DiskPart, DiskShare),
        (DiskRule, RetentionRule),
    ):
        assert [*ours.__annotations__] == [*theirs.__struct_fields__]


def _seen(served: OutliveServer) -> DiskUsageAnswer:
    """Return what all doors say: the same, as declared."""
    with Wire.dialled(served.url) as wire, Client(served.state_dir, start_server=False) as client:
        found = [
            wire.call("disk"),
            RestCaller(served.rest_url).send("GET", "/v1/disk").json,
            client.server.disk(),
        ]
    answers = [msgspec.convert(one, DiskUsageAnswer) for one in found]
    # What the folder's own files take, what is free and how old things are differs from moment to moment.
    steady = [
        (one.processes, one.running, one.bytes, one.reclaimable_bytes, one.states, one.projects)
        for one in answers
    ]
    assert steady == [steady[0]] * 3
    return answers[0]


def _count(served: OutliveServer) -> RetentionRule:
    (found,) = [one for one in _seen(served).retention if one.rule == "count"]
    return found


@pytest.mark.promise("A.disk")
def test_every_door_says_what_takes_the_disk_by_project_and_state(
    served: OutliveServer, tmp_path: Path, gate: Gate
) -> None:
    with Client(served.state_dir, start_server=False) as client:
        client.start("head -c 500000 /dev/zero; exit 3", project="/srv/a").wait(30, until="closed")
        client.start("true", project="/srv/b").wait(30, until="closed")
        runs = client.start(gate.wait, project="/srv/b")
        until(lambda: _count(served).used == 2, "the rows of what has ended")
        seen = _seen(served)
        assert (seen.processes, seen.running) == (3, 1)
        assert {state: share.processes for state, share in seen.states.items()} == {"exited": 2, "running": 1}
        large, small = seen.projects
        assert (large.project, large.processes, large.running) == ("/srv/a", 1, 0)
        assert (small.project, small.processes, small.running) == ("/srv/b", 2, 1)
        assert large.bytes == large.reclaimable_bytes >= 500_000
        assert small.bytes > small.reclaimable_bytes
        assert seen.bytes == large.bytes + small.bytes
        rules = {one.rule: one for one in seen.retention}
        assert (rules["age"].limit, rules["count"].limit, rules["count"].used) == (3600, 3, 2)
        assert rules["size"].used == 500_000
        assert rules["age"].next_at is not None
        shown = run_outlive("df", state_dir=served.state_dir).stdout.splitlines()
        assert shown[0].split() == ["PROJECT", "PROCESSES", "RUN", "SIZE", "RECLAIMABLE"]
        assert [line.split()[:3] for line in shown[1:4]] == [
            ["/srv/a", "1", "0"],
            ["/srv/b", "2", "1"],
            ["total", "3", "1"],
        ]
        # Two more that end are one too many: the oldest goes in the next round.
        for _ in range(2):
            client.start("true").wait(30, until="closed")

        until(lambda: _count(served).processes == 1, "the rows of what has ended last")
        assert _count(served).bytes == 500_000
        told = run_outlive("prune", "--dry-run", state_dir=served.state_dir).stdout
        (line,) = [line for line in told.splitlines() if line.startswith("by count")]
        assert line.split()[3:7] == ["3", "4", "1", "(488.3K)"]
        assert runs.info().state == "running"


@pytest.mark.promise("A.disk")
def test_another_principal_sees_nothing_of_it(served: OutliveServer) -> None:
    made = run_outlive(
        "token", "create", "--name", "other", "--scope", "run", "--json", state_dir=served.state_dir
    )
    token = msgspec.json.decode(made.stdout)["token"]
    with Client(served.state_dir, start_server=False) as client:
        for _ in range(4):
            client.start("true", project="/srv/mine").wait(30, until="closed")
    seen = RestCaller(served.rest_url).send("GET", "/v1/disk", headers={"Authorization": f"Bearer {token}"})
    assert seen.status == 200
    answer = msgspec.convert(seen.json, DiskUsageAnswer)
    assert (answer.processes, answer.bytes, answer.projects, answer.states) == (0, 0, [], {})
    assert [(one.processes, one.bytes, one.next_at) for one in answer.retention] == [(0, 0, None)] * 3


def _is_removed(folder: Path) -> bool:
    """Remove it; its server may write a file into it meanwhile."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


@pytest.mark.promise("F.degraded")
def test_a_folder_that_is_gone_is_said_at_once_and_the_next_one_is_left_alone(tmp_path: Path) -> None:
    """The next folder at its path has a keeper of its own, which is none of the old server's."""
    folder = tmp_path / "state"
    with OutliveServer(folder) as old, Wire.dialled(old.url) as wire, Client(url=old.url) as client:
        tools = RawCaller.begin(old.mcp_url)
        doors = {
            "jsonrpc": json_rpc(wire),
            "rest": rest_door(RestCaller(old.rest_url)),
            "client": python_client(client),
            "mcp run": lean(tools),
            "mcp command_execute": command_tools(tools),
            "mcp execute_linux_shell_command": shell_tool(tools),
        }

        def said() -> dict[str, str | None]:
            return {name: start({"command": "true"}) for name, start in doors.items()}

        assert set(said().values()) == {"accepted"}
        supervisor = holder_of(Layout(str(folder)).supervisor_lock)
        assert supervisor
        until(lambda: _is_removed(folder), "its removal")
        until(lambda: not is_alive(supervisor), "the end of its keeper")
        gone = {name: REFUSED if name.startswith("mcp") else "folder_gone" for name in doors}
        assert said() == gone
        with OutliveServer(folder) as new:
            assert said() == gone
            assert RestCaller(new.rest_url).call("GET", "/v1/processes").json["processes"] == []
            assert old.stop() == 0


@pytest.mark.promise("F.degraded")
def test_the_folder_of_what_waits_is_made_anew_if_it_was_removed(served: OutliveServer, gate: Gate) -> None:
    with Client(served.state_dir, start_server=False) as client:
        first = client.start(gate.wait, group="g", group_limit=1)
        shutil.rmtree(served.state_dir / "waiting")
        until(lambda: client.list() and (served.state_dir / "waiting").exists(), "the folder")
        second = client.start("exit 4", group="g")
        assert second.info().state == "queued"
        gate.open()
        assert first.wait(30).exit_code == 0
        assert second.wait(30).exit_code == 4
