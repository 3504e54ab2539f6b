"""Agents on real servers: ours with each of its tool sets, and the model of a host's own shell."""

import pytest

from bench.agents.servers import CONTESTANTS
from bench.agents.tasks import TASKS
from bench.agents.trial import try_task
from bench.scenarios.agents import host_profile

# Tasks last as long as with a minute of 3 s: long enough for a service to get ready on a full machine.
_MINUTE_S = 3.0

# What takes more than one call: something stays, something asks, something hangs.
_TRIALS = (
    ("lean", "service"),
    ("lean", "question"),
    ("lean", "hang"),
    ("documents", "service"),
)


def _try(task: str, server: str) -> list[str]:
    """Do a task; return what was not as it should be."""
    trial = try_task(
        TASKS[task],
        CONTESTANTS[server],
        host=host_profile("claude-code", minute_s=30),
        minute_s=_MINUTE_S,
        count=len,
        watch=lambda _: None,
    )
    missing = [fact for fact, is_found in trial.facts if not is_found]
    return [*missing, *trial.left, *([trial.trouble] if trial.trouble else [])]


@pytest.mark.thorough
@pytest.mark.parametrize(("server", "task"), _TRIALS)
def test_an_agent_does_with_each_tool_set_what_takes_several_calls(server: str, task: str) -> None:
    assert _try(task, server) == []


@pytest.mark.thorough
@pytest.mark.parametrize("server", ["lean", "documents"])
def test_two_hosts_that_share_a_server_work_in_their_own_projects(server: str) -> None:
    assert _try("projects", server) == []


def test_a_task_that_tools_cannot_do_is_not_done() -> None:
    assert _try("history", "own-bash") == [r"migrate\.sh --to 42"]
