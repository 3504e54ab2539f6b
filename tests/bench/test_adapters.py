"""What the agents read from the answers of tool sets in the shape of other shells."""

import pytest

from bench.agents.adapters.adapter import View
from bench.agents.adapters.shells import ClaudeAdapter, CodexAdapter
from bench.agents.conversation import Reply, ToolUse

_BASH = ToolUse(tool="Bash", arguments={"command": "x"})
_LOOK = ToolUse(tool="BashOutput", arguments={"bash_id": "p3"})
_EXEC = ToolUse(tool="exec_command", arguments={"cmd": "x"})
_BASH_TOOLS = [{"name": name} for name in ("Bash", "BashOutput", "KillShell")]


def _claude(use: ToolUse, text: str) -> View:
    return ClaudeAdapter(_BASH_TOOLS).view(use, Reply(text=text), handle="p3")


@pytest.mark.parametrize(
    ("text", "state", "handle"),
    [
        ("Command running in background with ID: p7", "running", "p7"),
        (
            "x" * 9000 + "\nCommand is still running after 120 s and continues in background with ID: p4. "
            "BashOutput shows its output, KillShell kills it.",
            "running",
            "p4",
        ),
        (
            "Name?\nCommand waits for input and continues in background with ID: p5. BashOutput shows",
            "asks",
            "p5",
        ),
        ("3 workers running, session with ID 12", "ended", ""),
        ("Exit code 2\nthe daemon is running: p1", "ended", ""),
    ],
)
def test_a_bash_command_runs_only_where_its_answer_says_so(text: str, state: str, handle: str) -> None:
    view = _claude(_BASH, text)
    assert (view.state, view.handle) == (state, handle)


def test_the_state_of_a_background_shell_is_its_first_line() -> None:
    assert _claude(_LOOK, "<status>running</status>\n\n<stdout>\nx\n</stdout>").state == "running"
    asking = "<status>running</status>\n\n<waiting_for>input</waiting_for>"
    assert _claude(_LOOK, asking).state == "asks"
    done = "<status>completed</status>\n\n<stdout>\n<status>running</status>\n</stdout>"
    assert _claude(_LOOK, done).state == "ended"
    assert _claude(_LOOK, "No shell found with ID: p3").state == "ended"


def test_an_offered_search_is_made_with_the_reader_s_own_words() -> None:
    view = _claude(_BASH, '[... 90 bytes omitted: BashOutput(bash_id="p1", filter="REGEX") ...]')
    (search,) = ClaudeAdapter(_BASH_TOOLS).reads(view, "FATAL")
    assert search.arguments == {"bash_id": "p1", "filter": "FATAL"}


@pytest.mark.parametrize(
    ("text", "state", "handle"),
    [
        ("Wall time: 1.0 seconds\nProcess running with session ID 4\nOutput:\n", "running", "4"),
        (
            "Wall time: 1.0 seconds\nProcess running with session ID 4\nProcess waits for input\nOutput:\nName?",
            "asks",
            "4",
        ),
        (
            "Wall time: 1.0 seconds\nProcess exited with code 0\nOutput:\nProcess running with session ID 9",
            "ended",
            "",
        ),
    ],
)
def test_a_session_runs_only_where_the_lines_before_the_output_say_so(
    text: str, state: str, handle: str
) -> None:
    view = CodexAdapter([]).view(_EXEC, Reply(text=text))
    assert (view.state, view.handle) == (state, handle)
