"""What nobody can know is said to be unknown; what a setting cannot do is said beside the setting."""

import os
import signal
from pathlib import Path

import pytest
from anyio import to_thread

from tests.support.processes import of_state_folder, stat, wait_dead
from tests.support.rpc import connect, output_text
from tests.support.server import OutliveServer, run_outlive


@pytest.mark.anyio
@pytest.mark.promise("W.lost", "W.state.jsonrpc", "S0.8.error")
async def test_an_exit_code_that_nothing_knows_is_null(own_server: OutliveServer) -> None:
    """W.lost: everything dies at one instant, as when the machine loses its power: failed, null, one
    sentence.
    """
    async with connect(own_server.url) as client:
        result = await client.execute("echo written; sleep 1000; true", detach=True)
        await client.output(result["process_id"], "written")
        everybody = {*of_state_folder(own_server.state_dir), result["pid"]}
        for sent in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, so that nobody sees the other die
            for pid in everybody:
                os.kill(pid, sent)
        await wait_dead(*everybody)
    zombie = stat(result["pid"])  # where init does not reap, the kernel still knows how it ended
    await to_thread.run_sync(own_server.restart)
    async with connect(own_server.url) as again:
        await again.request("attach", process_id=result["process_id"], cursor="0")
        completed = await again.completed(result["process_id"])
        assert completed["status"] == "failed"
        assert completed["exit_code"] is None if zombie is None else completed["exit_code"] in (None, -9)
        if completed["exit_code"] is None:
            assert completed["error"]
        assert output_text(again.messages, result["process_id"]) == "written\n"


@pytest.mark.promise("S0.12.shells")
def test_the_documentation_says_that_a_shell_on_the_list_allows_everything(tmp_path: Path) -> None:
    """S0.12.shells: the help of the option says it; docs/ is made from the same sentence."""
    answer = run_outlive("serve", "--help", state_dir=tmp_path, env={"COLUMNS": "200"})
    text = " ".join(answer.stdout.replace("│", " ").split())
    assert "empty allows everything, and so does a shell on the list" in text
