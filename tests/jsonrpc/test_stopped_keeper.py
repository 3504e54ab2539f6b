"""A command that stops supervisor and guardian (SIGSTOP): its server continues them."""

import os
import signal

import anyio
import pytest
from anyio import to_thread

from tests.support.rpc import connect
from tests.support.server import OutliveServer


@pytest.mark.anyio
async def test_a_command_that_stops_the_keeper_stops_nothing_for_others(own_server: OutliveServer) -> None:
    status = await to_thread.run_sync(own_server.keeper_status)
    both = [pid for pid in (status.guardian_pid, status.supervisor_pid) if pid is not None]
    assert len(both) == 2
    async with connect(own_server.url, patience_s=40) as client:
        for pid in both:
            os.kill(pid, signal.SIGSTOP)
        with anyio.fail_after(30):
            assert (await client.run("exit 5")).exit_code == 5
    os.kill(own_server.pid, signal.SIGSTOP)
    async with connect(own_server.url, patience_s=40) as client:
        assert (await client.run("exit 6")).exit_code == 6, "the guardian continues the server"
    after = await to_thread.run_sync(own_server.keeper_status)
    assert [after.guardian_pid, after.supervisor_pid] == both
