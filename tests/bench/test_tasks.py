"""That the tasks ask for what their projects can tell, and that nothing passes without it."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bench.agents.adapters.lean import LeanAdapter
from bench.agents.conversation import Reply, ToolUse
from bench.agents.policy import ScriptedAgent, is_shown
from bench.agents.steps import Do, Task, facts_of
from bench.agents.tasks import TASKS
from bench.agents.trial import lay_out, scaled

_TOOLS: list[Mapping[str, object]] = [
    {"name": name, "inputSchema": {}} for name in ("run", "read", "wait", "send", "list", "control")
]
# What a plain shell shows without any of the policy: one command, no questions, nothing that stays.
_PLAIN = [
    task
    for task in TASKS.values()
    if len(task.steps) == 1 and isinstance(task.steps[0], Do) and task.steps[0].kind == "short"
    if not task.steps[0].replies
]


def _play(task: Task, answer: str) -> tuple[ScriptedAgent, list[str]]:
    """Let an agent do a task on a server that gives one and the same answer; return what it has called."""
    agent = ScriptedAgent(LeanAdapter(_TOOLS), minute_s=1)
    called: list[str] = []
    turns = agent.carry_out(task)
    replies: list[Reply] | None = None
    try:
        while True:
            turn = next(turns) if replies is None else turns.send(replies)
            uses: Sequence[ToolUse] = turn if isinstance(turn, tuple) else ()
            called += [use.tool for use in uses]
            replies = [Reply(text=answer) for _ in uses]
    except StopIteration:
        return agent, called


def test_there_are_21_tasks_of_the_goal_and_more() -> None:
    assert sum(not task.is_held_out for task in TASKS.values()) == 21
    assert sum(task.is_held_out for task in TASKS.values()) >= 10


@pytest.mark.parametrize("name", list(TASKS))
def test_no_fact_is_found_in_an_answer_without_it(name: str) -> None:
    agent, _ = _play(TASKS[name], "[id=p1 exit=0 0.1s 3B/1 lines cwd=/x cursor=3.0]\nhi")
    assert len(agent.found) == TASKS[name].fact_count > 0
    assert not any(is_found for _, is_found in agent.found)


@pytest.mark.parametrize("task", _PLAIN, ids=lambda task: task.name)
def test_the_facts_are_in_the_raw_output_or_behind_its_clue(task: Task, tmp_path: Path) -> None:
    project = lay_out(task, tmp_path / "project", minute_s=1)
    (step,) = task.steps
    assert isinstance(step, Do)
    # A filter at the end hides the fact on purpose: it is in what the filter reads.
    done = subprocess.run(
        ["bash", "-c", step.command.partition(" | ")[0]], cwd=project, capture_output=True, check=False
    )
    shown = (done.stdout + done.stderr).decode(errors="replace")
    assert [fact for fact in facts_of(step) if not is_shown(fact, shown)] == []


def test_an_agent_stops_when_it_has_what_it_wants() -> None:
    agent, called = _play(TASKS["short"], "[id=p1 exit=0]\nREADME\n4.17.2")
    assert called == ["run"]
    assert all(is_found for _, is_found in agent.found)


def test_an_agent_makes_the_call_that_an_answer_names() -> None:
    mark = '[... 90 bytes omitted: read(id="p1", cursor="1.0", end="91.0") ...]'
    _, called = _play(TASKS["build"], f"[id=p1 exit=2]\nhead\n{mark}\ntail")
    assert called[:2] == ["run", "read"]


def test_durations_are_scaled() -> None:
    assert scaled("sleep @5@; sleep @0.5@", minute_s=12) == "sleep 1; sleep 0.1"
