"""What the agents read from the answers of the model of a host's own shell."""

import pytest

from bench.agents.adapters.adapter import View
from bench.agents.adapters.own_bash import OwnBashAdapter
from bench.agents.conversation import Reply, ToolUse

_BASH = ToolUse(tool="Bash", arguments={"command": "x"})
_LOOK = ToolUse(tool="BashOutput", arguments={"bash_id": "p3"})
_BASH_TOOLS = [{"name": name} for name in ("Bash", "BashOutput", "KillShell")]


def _viewed(use: ToolUse, text: str) -> View:
    return OwnBashAdapter(_BASH_TOOLS).view(use, Reply(text=text), handle="p3")


@pytest.mark.parametrize(
    ("text", "state", "handle"),
    [
        ("Command running in background with ID: p7", "running", "p7"),
        ("3 workers running, session with ID 12", "ended", ""),
        ("Exit code 2\nthe daemon is running: p1", "ended", ""),
    ],
)
def test_a_bash_command_runs_only_where_its_answer_says_so(text: str, state: str, handle: str) -> None:
    view = _viewed(_BASH, text)
    assert (view.state, view.handle) == (state, handle)


def test_the_state_of_a_background_shell_is_its_first_line() -> None:
    assert _viewed(_LOOK, "<status>running</status>\n\n<stdout>\nx\n</stdout>").state == "running"
    done = "<status>completed</status>\n\n<stdout>\n<status>running</status>\n</stdout>"
    assert _viewed(_LOOK, done).state == "ended"
    assert _viewed(_LOOK, "No shell found with ID: p3").state == "ended"
