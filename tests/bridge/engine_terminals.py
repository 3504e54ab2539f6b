"""A host of terminals in the engine for these tests: real shells on real pseudo-terminals, with the verbs that are asked for here."""

from collections.abc import Sequence

from outlive.core.command import Command
from outlive.core.cursor import BEGINNING
from outlive.core.errors import ProcessNotFound
from outlive.core.process import Owner
from outlive.core.terminal import ENGINE, Executed, Form, Target, TerminalInfo, TerminalText
from outlive.engine import Engine, Process
from outlive.engine.terminals import NewTerminal

__all__ = ["EngineTerminals"]


class EngineTerminals:
    """Shells, named by their titles."""

    def __init__(self, engine: Engine) -> None:
        """Start them here."""
        self._engine = engine

    @property
    def target(self) -> Target:
        """What it is called."""
        return ENGINE

    async def terminals(self, by: Owner) -> Sequence[TerminalInfo]:
        """Return a principal's."""
        return [
            _info(one)
            for one in self._engine.live()
            if one.record.owner.principal == by.principal and one.record.stdio == "pty" and not one.is_ended
        ]

    async def create(self, wanted: NewTerminal, by: Owner) -> TerminalInfo:
        """Start a shell."""
        command = Command(
            argv=("bash", "--norc", "-i"),
            title=wanted.name or "MCP Terminal 1",
            cwd=wanted.cwd,
            stdio="pty",
            stdin="pipe",
            detached=True,
        )
        return _info(await self._engine.start(command, owner=by))

    async def execute(self, terminal_id: str, command: str, by: Owner, *, wait_s: float) -> Executed:  # noqa: ARG002
        """Type a line."""
        await self.write(terminal_id, command.encode() + b"\n", by)
        return Executed(terminal_id=terminal_id, output="typed")

    async def read(
        self,
        terminal_id: str,
        by: Owner,
        *,
        form: Form = "clean",
        cursor: str | None = None,  # noqa: ARG002 -- as in the contract
        budget: int,
    ) -> TerminalText:
        """Return what it has shown."""
        process = await self._find(terminal_id, by)
        chunks = await self._engine.read(process, BEGINNING, budget)
        text = b"".join(chunk.data for chunk in chunks).decode(errors="replace")
        return TerminalText(terminal_id=terminal_id, text=text, form=form, cursor="0", state="unknown")

    async def write(self, terminal_id: str, data: bytes, by: Owner) -> None:
        """Type."""
        await self._engine.write(await self._find(terminal_id, by), data)

    async def resize(self, terminal_id: str, rows: int, cols: int, by: Owner) -> None:
        """Set its size."""
        await self._engine.resize(await self._find(terminal_id, by), rows, cols)

    async def close(self, terminal_id: str, by: Owner) -> None:
        """End it."""
        await self._engine.cancel(await self._find(terminal_id, by), grace_s=0.0)

    async def _find(self, terminal_id: str, by: Owner) -> Process:
        process = await self._engine.find(terminal_id)
        if process.record.owner.principal != by.principal:
            raise ProcessNotFound("terminal_not_found", "not yours")
        return process


def _info(process: Process) -> TerminalInfo:
    return TerminalInfo(
        terminal_id=process.process_id,
        terminal_name=process.record.command,
        target=ENGINE,
        state="unknown",
        process_id=process.process_id,
    )
