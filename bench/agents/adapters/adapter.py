"""What every adapter offers to the policy, and what it reads from an answer. Pure."""

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from bench.agents.conversation import Reply, ToolUse
from bench.agents.steps import Kind

State = Literal["ended", "running", "asks"]

# A call that an answer names: `read(id="…", cursor="11.0")`. Values are literals, as models copy them.
_NAMED_CALL = re.compile(r"\b([a-z_A-Z]+)\(((?:\w+=(?:\"[^\"]*\"|'[^']*'|\[[^\]]*\]|[\w.+-]+)(?:, ?)?)+)\)")
_NAMED_VALUE = re.compile(r"(\w+)=(\"[^\"]*\"|'[^']*'|\[[^\]]*\]|[\w.+-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A command to start, and what the agent expects of it.

    Attributes:
        command: A shell line, or a script.
        kind: See `steps.Do`.
        expected_s: How long the agent thinks that it takes; 0 where it does not know.
        limit_s: After so many seconds it must not go on; None without a limit.
        until: The text after which a service is ready.
        in_session: Whether it belongs to the agent's one shell session.
        once: A name under which the project needs it once only.
        is_script: Whether the text has several lines.
    """

    command: str
    kind: Kind = "short"
    expected_s: float = 0.0
    limit_s: float | None = None
    until: str = ""
    in_session: bool = False
    once: str = ""
    is_script: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What an answer says: its text, whether the command goes on, and which calls it names.

    `handle` is what later calls name the process by, "" where there is nothing to name; `offers` are the
    calls that the answer itself names, in its order. `has_output` is false where it says nothing but the
    state.
    """

    text: str
    state: State
    handle: str = ""
    offers: tuple[ToolUse, ...] = ()
    has_output: bool = True


class Adapter(ABC):
    """One tool set. A method that returns None says: these tools cannot do that."""

    needs: ClassVar[frozenset[str]]
    # Whether a line of a session can be run as such (`Work.in_session`).
    holds_session: ClassVar[bool] = False
    # Whether a command can be left running by a tool of the set.
    has_background: ClassVar[bool] = True

    def __init__(self, tools: Sequence[Mapping[str, object]]) -> None:
        self.tools = {str(tool["name"]): tool for tool in tools}

    @abstractmethod
    def run(self, work: Work) -> ToolUse:
        """Return the call that starts a command."""

    @abstractmethod
    def view(self, use: ToolUse, reply: Reply, *, handle: str = "") -> View:
        """Return what an answer says, about the process `handle` where the call was about several."""

    def wait(
        self, handles: Sequence[str], seconds: float, *, until: str = "", is_dialog: bool = False
    ) -> ToolUse | None:
        """Return the call that waits for processes to end, or for a text, and costs the fewest turns.

        In a dialog the next output is waited for rather than an end: the call should not last longer than
        `seconds`.
        """
        return None

    def peek(self, handle: str) -> ToolUse | None:
        """Return the call that shows new output without waiting."""
        return None

    def reads(self, view: View, clue: str) -> list[ToolUse]:
        """Return the calls that may show what an answer did not, the most promising one first."""
        return list(view.offers)

    def send(self, handle: str, text: str) -> ToolUse | None:
        """Return the call that types a line."""
        return None

    def end_input(self, handle: str) -> ToolUse | None:
        """Return the call that ends a process's input."""
        return None

    def stop(self, handle: str) -> ToolUse | None:
        """Return the call that stops a process."""
        return None

    def look_up(self) -> ToolUse | None:
        """Return the call whose answer `stop_listed` finds the process in that `stop` cannot name."""
        return None

    def stop_listed(self, listed: str) -> ToolUse | None:
        """Return the call that stops the process which was started last, as a list names it."""
        return None

    def recall(self) -> ToolUse | None:
        """Return the call that lists what has run."""
        return None

    def has_argument(self, tool: str, name: str) -> bool:
        """Return whether a tool takes an argument."""
        schema = self.tools.get(tool, {}).get("inputSchema")
        properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
        return name in properties


def named_calls(text: str, tools: Mapping[str, object]) -> tuple[ToolUse, ...]:
    """Return the calls of known tools that a text names, as `tool(name=value, …)`."""
    found = []
    for tool, inner in _NAMED_CALL.findall(text):
        if tool in tools:
            values = {name: _literal(value) for name, value in _NAMED_VALUE.findall(inner)}
            found.append(ToolUse(tool=tool, arguments=values))
    return tuple(found)


def _literal(value: str) -> object:
    match value:
        case "true" | "false":
            return value == "true"
        case _:
            try:
                return ast.literal_eval(value)
            except (ValueError, SyntaxError):
                return value
