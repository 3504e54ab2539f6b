"""Where a start came from is told at every door, and still after a kill of the server and the loss of its
registry.
"""

import os
import sys
import time

import pytest

from outlive.client import Client, ProcessInfo
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.processes import PATIENCE_S
from tests.support.server import OutliveServer


def _found(client: Client, command: str) -> ProcessInfo:
    (one,) = [info for info in client.list() if info.command == command]
    return one


@pytest.mark.promise("S0.19.started_by")
def test_a_process_says_which_door_host_call_and_process_it_was_started_by(own_server: OutliveServer) -> None:
    environment = {name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "PATH"))}
    with Client(own_server.state_dir, start_server=False) as client:
        words = [sys.executable, "-m", "outlive", "run", "-d", "--", "echo", "inner"]
        parent = client.start(words, grant="run", env=environment)
        assert parent.wait(30).exit_code == 0
        RawCaller.begin(own_server.mcp_url).call("run", command="echo tool")
        RestCaller(own_server.rest_url).send("POST", "/v1/processes", {"command": "echo rest"})
    expected = {
        "echo inner": {"door": "jsonrpc", "parent": parent.process_id},
        "echo tool": {"door": "mcp", "host": "t"},
        "echo rest": {"door": "rest"},
    }

    def check() -> None:
        with Client(own_server.state_dir, start_server=False) as client:
            for command, members in expected.items():
                told = dict(_found(client, command).started_by or {})
                if told["door"] != "rest":
                    assert told.pop("call")
                assert told == members
            process_id = _found(client, "echo rest").process_id
        shown = RestCaller(own_server.rest_url).send("GET", f"/v1/processes/{process_id}").json
        assert shown["started_by"] == {"door": "rest"}

    check()
    own_server.kill()
    for name in ("registry.db", "registry.db-wal", "registry.db-shm"):
        (own_server.state_dir / name).unlink(missing_ok=True)
    own_server.start()
    # The registry is made anew from the folders, behind what is asked of it.
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with Client(own_server.state_dir, start_server=False) as client:
            known = {info.command for info in client.list()}
        if expected.keys() <= known:
            break
        assert time.monotonic() < deadline, known
        time.sleep(0.05)
    check()
