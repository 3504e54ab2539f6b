"""Tasks through the relay: it sends the header that names them, and asks again when the server was killed."""

from pathlib import Path
from typing import Any

import pytest

from tests.mcp_http.modern_caller import TASKS
from tests.mcp_stdio.hosting import hosting, modern
from tests.support.processes import Gate
from tests.support.server import OutliveServer


@pytest.mark.thorough
@pytest.mark.promise("M.tasks.headers", "M.tasks.durable")
def test_a_host_polls_a_task_through_the_relay_and_a_killed_server(tmp_path: Path, gate: Gate) -> None:
    capabilities: dict[str, object] = {"extensions": {TASKS: {}}}
    with (
        OutliveServer(tmp_path / "state", args=["--wait", "0.05"]) as server,
        hosting(server.state_dir) as host,
    ):
        arguments = {"command": f"{gate.wait}; echo done; exit 5"}
        host.send("tools/call", 1, **modern(capabilities=capabilities, name="run", arguments=arguments))
        task_id = host.answer(1)["result"]["taskId"]
        host.send("tasks/get", 2, **modern(capabilities=capabilities, taskId=task_id))
        assert host.answer(2)["result"]["status"] == "working"
        server.restart()
        gate.open()
        number = 2
        task: dict[str, Any] = {"status": "working"}
        while task["status"] == "working":
            number += 1
            host.send("tasks/get", number, **modern(capabilities=capabilities, taskId=task_id))
            task = host.answer(number)["result"]
        host.send("tasks/cancel", "end", **modern(capabilities=capabilities, taskId=task_id))
        assert host.answer("end")["result"]["resultType"] == "complete"
        assert host.leave() == 0
    (block,) = task["result"]["content"]
    assert block["text"] == "[exit 5]\ndone"
