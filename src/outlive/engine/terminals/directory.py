"""`Terminals`, what frontends ask: finds the host that a terminal belongs to.

What a host of terminals can do: `TerminalHost`. The engine is one, a connected VS Code is another.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from outlive.core.errors import InvalidRequest, ProcessNotFound
from outlive.core.process import Owner
from outlive.core.terminal import ENGINE, VSCODE, Executed, Form, Target, TerminalInfo, TerminalText
from outlive.core.values import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTerminal:
    """A terminal that a caller wants. None takes the host's default; a host that cannot do something says so.

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

    All raise `ProcessNotFound` (`terminal_not_found`) for a terminal that is unknown or another principal's.
    Cancellation: safe; what was sent to a terminal stays sent.
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
        """Run a command as if typed at the prompt.

        Return when it has ended, at the latest after `wait_s` seconds.

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
            by: The principal that reads.
            form: In which form; "screen" knows no cursor.
            cursor: From where on; None: the newest that fits into the budget.
            budget: Characters.

        Raises:
            InvalidRequest: `terminal_not_ours`: its output does not come here (and so for the two verbs
            below).
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


_REMEMBERED = (
    1000  # principals whose last terminal is known; beyond it the one is forgotten that was idle longest
)
_HINTS = {
    VSCODE: "Install the extension outlive in VS Code and connect it to this server's bridge port.",
    ENGINE: "This server was started without terminals of its own.",
}


class Terminals:
    """The hosts of terminals by target. A host may come and go: a VS Code that connects is one."""

    def __init__(self) -> None:
        self._hosts: dict[Target, TerminalHost] = {}
        self._used: OrderedDict[str, str] = OrderedDict()  # principal: the terminal it used last

    def add(self, host: TerminalHost) -> None:
        """Offer the terminals of a host; one of the same target is replaced."""
        self._hosts[host.target] = host

    def remove(self, host: TerminalHost) -> None:
        """Offer them no more."""
        if self._hosts.get(host.target) is host:
            del self._hosts[host.target]

    def host(self, target: Target) -> TerminalHost:
        """Return the host of a target.

        Raises:
            InvalidRequest: `no_terminal_host`: there is none now (promise S3.7.missing).
        """
        if (host := self._hosts.get(target)) is not None:
            return host
        raise no_host(target)

    async def terminals(self, by: Owner) -> Sequence[TerminalInfo]:
        """Return every terminal of a principal's, host by host."""
        return [one for host in list(self._hosts.values()) for one in await host.terminals(by)]

    def note_use(self, terminal_id: str, by: Owner) -> None:
        """Remember that a principal has opened a terminal, or typed into it: it is the active one now."""
        self._used[by.principal] = terminal_id
        self._used.move_to_end(by.principal)
        if len(self._used) > _REMEMBERED:
            self._used.popitem(last=False)

    async def active(self, by: Owner) -> tuple[TerminalHost, TerminalInfo] | None:
        """Return the open terminal that a principal used last, else its newest, and where it lives; None
        without any.

        What was used last is known since the server's start. The engine's terminals come before VS Code's.
        """
        used = self._used.get(by.principal)
        newest = None
        for host in sorted(self._hosts.values(), key=lambda one: one.target != ENGINE):
            known = [(host, one) for one in await host.terminals(by)]
            for found in known:
                if found[1].terminal_id == used:
                    return found
            if newest is None and known:
                newest = known[-1]
        return newest

    async def find(self, terminal_id: str, by: Owner) -> tuple[TerminalHost, TerminalInfo]:
        """Return a terminal by its id, or an open one by a name that only one has, and where it lives.

        Raises:
            ProcessNotFound: `terminal_not_found`.
            InvalidRequest: `process_ambiguous`: several have that name.
        """
        hosts = list(self._hosts.values())
        for host in hosts:
            if isinstance(host, KnowsTerminals) and (info := await host.find(terminal_id, by)) is not None:
                return host, info
        known = [(host, one) for host in hosts for one in await host.terminals(by)]
        for host, one in known:
            if one.terminal_id == terminal_id:
                return host, one
        named = [found for found in known if found[1].terminal_name == terminal_id]
        if len(named) > 1:
            text = f"{len(named)} terminals are called {terminal_id[:60]!r}."
            raise InvalidRequest("process_ambiguous", text, hint="Pass a terminal's id.")
        if named:
            return named[0]
        text = f"There is no terminal {terminal_id[:60]!r}."
        raise ProcessNotFound("terminal_not_found", text)


def no_host(target: Target) -> InvalidRequest:
    """Return the error for terminals that no host has now.

    A host raises it, too, while it has nowhere to go.
    """
    text = f"No terminal of the target {target!r} can be had: nothing of that kind is connected."
    return InvalidRequest("no_terminal_host", text, hint=_HINTS[target])
