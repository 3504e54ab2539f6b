"""What a task asks of an agent: steps, in the words of any shell, and the facts that the answers must have
shown. Pure.

A step names no server's tools. What an agent knows beforehand is written here, the same for every server:
that a command is a service, that it takes long, that it asks questions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["short", "long", "service", "dialog", "suspect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Do:
    """Run a command.

    Attributes:
        command: A shell line, or a script of several.
        kind: What the agent expects: "short" it ends soon; "long" about a minute; "service" it stays, and is
            ready when `until` shows; "dialog" it will ask; "suspect" it may hang, and must not run for ever.
        facts: Patterns (multi-line) that the answers of this step must show.
        clue: What a reader searches the output for when the facts are not in what was shown.
        until: What a service says when it is ready.
        replies: What the program asks (a pattern), and what is typed then; in their order.
        name: What later steps call the process by.
        lasts: Whether the step leaves it running.
        goes_on: The line belongs to one shell session: `cd` and `export` of earlier such lines hold.
        once: A name under which the project needs it once only, where the tools know such names.
        is_script: The text is a script of several lines.
    """

    command: str
    kind: Kind = "short"
    facts: tuple[str, ...] = ()
    clue: str = "error|fail"
    until: str = ""
    replies: tuple[tuple[str, str], ...] = ()
    name: str = ""
    lasts: bool = False
    goes_on: bool = False
    once: str = ""
    is_script: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Follow:
    """Look at a process that an earlier step has left running, until the facts are there.

    `is_news`: they are there already, as new output; else they come when it ends.
    """

    name: str
    facts: tuple[str, ...]
    clue: str = ""
    is_news: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """Stop a process that an earlier step has left running."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Commands at once, in one turn."""

    parts: tuple[Do, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The host is killed and started again.

    `is_new` begins a new conversation, which knows nothing of the old one.
    """

    is_new: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The next steps are another agent's, in another host that runs beside the first.

    It is started when first named.

    Attributes:
        folder: Where that host runs, below the task's folder; its `bin` is first on the PATH, as a virtual
            environment's is.
        env: What is in its environment beside that, when it is started.
    """

    folder: str
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Say what ran before, by the server's own record."""

    facts: tuple[str, ...]


Step = Do | Follow | Halt | Together | Restart | Switch | Recall


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task.

    Attributes:
        name: What the command line calls it.
        goal: What a person would have asked for.
        files: The project's files; texts that begin with "#!" are executable, and `@60@` is 60 seconds,
            scaled.
        prepare: A shell script that is run in the project's folder beforehand.
        steps: What the agent does.
        is_held_out: Whether it is not one of the 21 that the goal is measured on.
    """

    name: str
    goal: str
    files: Mapping[str, str] = field(default_factory=dict)
    prepare: str = ""
    steps: tuple[Step, ...] = ()
    is_held_out: bool = False

    @property
    def fact_count(self) -> int:
        """How many facts the task asks for."""
        return sum(len(facts_of(step)) for step in self.steps)


def facts_of(step: Step) -> tuple[str, ...]:
    """Return the facts that a step asks for."""
    match step:
        case Do() | Follow() | Recall():
            return step.facts
        case Together():
            return tuple(fact for part in step.parts for fact in part.facts)
        case _:
            return ()
