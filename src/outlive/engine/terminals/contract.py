"""What a host of terminals can do: `TerminalHost`. The engine is one, a connected VS Code is another."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from outlive.core.process import Owner
from outlive.core.terminal import Executed, Form, Target, TerminalInfo, TerminalText


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTerminal:
    """A terminal that somebody wants. None takes the host's default; a host that cannot do something says so.

    `shell` is a program ("bash", "/usr/bin/fish"); rows and cols are character cells. `backend` and
    `image` are as a command's.
    """

    name: str | None = None
    shell: str | None = None
    cwd: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    rows: int = 24
    cols: int = 80
    profile: str | None = None
    backend: str | None = None
    image: str | None = None
    tags: dict[str, str] = field(default_factory=dict)


class TerminalHost(Protocol):
    """Where terminals live. Every method acts for `by` and shows no terminal of another principal's.

    All raise `ProcessNotFound` (`terminal_not_found`) for a terminal that is unknown or somebody else's. Cancellation: safe; what was
    sent to a terminal stays sent.
    """

    @property
    def target(self) -> Target:
        """What this host is called."""
        ...

    async def terminals(self, by: Owner) -> Sequence[TerminalInfo]:
        """Return all that are open, oldest first."""
        ...

    async def create(self, wanted: NewTerminal, by: Owner) -> TerminalInfo:
        """Open a terminal and return when it can be used."""
        ...

    async def execute(self, terminal_id: str, command: str, by: Owner, *, wait_s: float) -> Executed:
        """Run a command as if typed at the prompt; return when it has ended, at the latest after `wait_s` seconds.

        Raises:
            CommandRefused: The policy does not allow it.
            InvalidState: `terminal_busy`: something runs there already, which `write` can talk to.
            InvalidRequest: `command_incomplete`: the shell wants more lines; what was typed was taken back.
        """
        ...

    async def read(
        self, terminal_id: str, by: Owner, *, form: Form = "clean", cursor: str | None = None, budget: int
    ) -> TerminalText:
        """Return what a terminal shows, at most `budget` characters.

        Args:
            terminal_id: Which.
            by: Who reads.
            form: In which form; "screen" knows no cursor.
            cursor: From where on; None: the newest that fits into the budget.
            budget: Characters.

        Raises:
            InvalidRequest: `terminal_not_ours`: its output does not come here (and so for the two verbs below).
        """
        ...

    async def write(self, terminal_id: str, data: bytes, by: Owner) -> None:
        """Type into it."""
        ...

    async def resize(self, terminal_id: str, rows: int, cols: int, by: Owner) -> None:
        """Set its size in character cells."""
        ...

    async def close(self, terminal_id: str, by: Owner) -> None:
        """Close it: its shell and what runs in it end."""
        ...


@runtime_checkable
class KnowsTerminals(Protocol):
    """What a host may be beside `TerminalHost`: one that finds a terminal by its id without listing all."""

    async def find(self, terminal_id: str, by: Owner) -> TerminalInfo | None:
        """Return a terminal, also a closed one that can still be read; None where there is none of `by`."""
        ...
