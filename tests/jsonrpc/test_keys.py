"""execute with a key: one process for a command in a project, over sessions and crashes.

And lists by project, key and short id.
"""

from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from outlive.engine.starts.preparation import MAX_TEXT
from tests.support.processes import Gate, wait_file
from tests.support.rpc import RpcClient, connect
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_KEPT = {"detach": True, "concurrent": True}


@pytest.mark.promise("S0.3.key")
async def test_a_known_key_is_answered_with_the_output_and_the_end_of_its_process(
    client: RpcClient, tmp_path: Path
) -> None:
    wanted = {"project": str(tmp_path), "key": "build", **_KEPT}
    first = await client.run(f"echo x >> '{tmp_path}/count'; echo made; exit 4", **wanted)
    assert "repeated" not in first.result
    again = await client.run(f"echo x >> '{tmp_path}/count'; echo made; exit 4", **wanted)
    assert again.result["repeated"] is True
    assert {**again.result, "repeated": None} == {**first.result, "repeated": None}
    assert (again.stdout, again.exit_code) == ("made\n", 4)
    assert (tmp_path / "count").read_text() == "x\n"


@pytest.mark.promise("S0.3.key")
async def test_a_key_with_another_command_is_refused_and_names_the_process(
    client: RpcClient, tmp_path: Path
) -> None:
    wanted = {"project": str(tmp_path), "key": "build", **_KEPT}
    first = await client.run("true", **wanted)
    refused = await client.failure("execute", command="false", **wanted)
    assert (refused.code, refused.reason) == (-32602, "key_taken")
    assert refused.error["data"]["process_id"] == first.process_id
    assert refused.hint == "Use another key, or read the result of p1."


@pytest.mark.promise("S0.3.key")
async def test_a_key_belongs_to_its_project(client: RpcClient, tmp_path: Path) -> None:
    runs = [
        await client.run("true", project=project, key=tmp_path.name, **_KEPT)
        for project in (f"{tmp_path}/a", f"{tmp_path}/b", None)
    ]
    assert len({run.process_id for run in runs}) == 3


@pytest.mark.promise("S0.3.key")
async def test_of_several_at_once_with_one_key_one_starts(server: OutliveServer, tmp_path: Path) -> None:
    answers: list[tuple[str, bool]] = []

    async def start() -> None:
        async with connect(server.url) as client:
            wanted = {"project": str(tmp_path), "key": "one", **_KEPT}
            result = await client.execute(f"echo x >> '{tmp_path}/count'", **wanted)
            answers.append((result["process_id"], "repeated" in result))

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(start)
    assert len({process_id for process_id, _ in answers}) == 1
    assert sorted(repeated for _, repeated in answers) == [False] + [True] * 7


@pytest.mark.promise("S0.3.key")
async def test_a_key_is_known_after_the_server_and_its_keeper_were_killed(
    own_server: OutliveServer, tmp_path: Path
) -> None:
    wanted = {"project": str(tmp_path), "key": "job", **_KEPT}
    command = f"echo x >> '{tmp_path}/count'; touch '{tmp_path}/begun'; sleep 1000"
    async with connect(own_server.url) as client:
        first = await client.execute(command, **wanted)
        await wait_file(tmp_path / "begun")
    await to_thread.run_sync(own_server.restart)
    async with connect(own_server.url) as client:
        again = await client.execute(command, **wanted)
        assert (again["process_id"], again["repeated"]) == (first["process_id"], True)
        await client.request("control", type="CANCEL", process_id=first["process_id"], grace=0)
    assert (tmp_path / "count").read_text() == "x\n"


@pytest.mark.promise("S0.3.key.private")
async def test_a_key_never_tells_of_another_sessions_private_process(
    server: OutliveServer, client: RpcClient, gate: Gate, tmp_path: Path
) -> None:
    wanted = {"project": str(tmp_path), "key": "mine", "concurrent": True}
    command = f"echo secret; {gate.wait}"
    private = await client.execute(command, **wanted)
    async with connect(server.url) as other:
        shared = await other.execute(command, **wanted, detach=True)
        assert shared["process_id"] != private["process_id"]
        assert "repeated" not in shared
        elsewhere = await other.failure("execute", command="true", **wanted, detach=True)
        assert elsewhere.error["data"]["process_id"] == shared["process_id"]
    gate.open()


@pytest.mark.promise("S0.3.key.private")
async def test_a_start_that_failed_holds_no_key(client: RpcClient, tmp_path: Path) -> None:
    program = tmp_path / "tool"
    wanted = {"argv": [str(program)], "project": str(tmp_path), "key": "tool", **_KEPT}
    assert (await client.failure("execute", **wanted)).reason == "not_found"
    program.write_text("#!/bin/sh\nexit 6\n")
    program.chmod(0o755)
    assert (await client.finish(await client.request("execute", **wanted))).exit_code == 6


@pytest.mark.promise("S0.3.key")
@pytest.mark.parametrize("command", ["true # " + "x" * MAX_TEXT, "true # \ufffd"])
async def test_the_same_command_is_the_same_however_its_record_shows_it(
    client: RpcClient, tmp_path: Path, command: str
) -> None:
    wanted = {"project": str(tmp_path), "key": "long", **_KEPT}
    first = await client.execute(command, **wanted)
    assert (await client.execute(command, **wanted))["process_id"] == first["process_id"]


@pytest.mark.promise("S0.19.list.project")
async def test_processes_are_found_by_project_key_and_short_id(client: RpcClient, tmp_path: Path) -> None:
    project = str(tmp_path)
    one = (await client.run("true", project=project, key="k", **_KEPT)).process_id
    two = (await client.run("true", project=project, **_KEPT)).process_id

    async def listed(**wanted: object) -> list[str]:
        return [view["process_id"] for view in (await client.request("list", **wanted))["processes"]]

    assert await listed(project=project) == [two, one]
    assert await listed(project=project, key="k") == [one]
    assert await listed(project=project, short_id="p2") == [two]
    assert await listed(project=f"{project}/other") == []
    view = await client.request("get", process_id=one)
    assert (view["short_id"], view["project"], view["key"]) == ("p1", project, "k")
    assert "key" not in await client.request("get", process_id=two)
    for wrong in ({"project": "here"}, {"short_id": "p0"}, {"short_id": "7"}, {"key": ""}):
        assert (await client.failure("list", **wrong)).reason == "invalid_params"
