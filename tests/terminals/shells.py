"""What the tests type into terminals: `Desk`, terminals of one engine and one principal; `needs`, for
programs.
"""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from outlive.core.terminal import Executed, Form, TerminalInfo, TerminalText
from outlive.engine import Engine
from outlive.engine.terminals import EngineTerminals, NewTerminal
from tests.engine.engines import ME

_PATIENCE_S = 60.0


def an_environment(home: Path) -> dict[str, str]:
    """Return the environment of a user with an empty home and bash."""
    return {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", os.defpath),
        "SHELL": shutil.which("bash") or "/bin/sh",
        "LANG": "C.UTF-8",
    }


def needs(program: str) -> str:
    """Return where a program is; without it the test is skipped, but not where all have to be there."""
    path = shutil.which(program)
    if path is None:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), f"{program} is missing"
        pytest.skip(f"{program} is missing")
    return path


class Desk:
    """Terminals of one engine, asked by one principal."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.host = EngineTerminals(engine)

    async def open(self, shell: str | None = None, **wanted: object) -> str:
        """Open a terminal; return its id."""
        return (await self.opened(shell, **wanted)).terminal_id

    async def opened(self, shell: str | None = None, **wanted: object) -> TerminalInfo:
        """Open a terminal; it shows its prompt."""
        info = await self.host.create(NewTerminal(shell=shell, **wanted), ME)  # type: ignore[arg-type] # by name
        assert info.state == "ready"
        return info

    async def run(self, terminal_id: str, command: str, *, wait_s: float = _PATIENCE_S) -> Executed:
        """Run a command."""
        return await self.host.execute(terminal_id, command, ME, wait_s=wait_s)

    async def read(
        self, terminal_id: str, form: Form = "clean", *, cursor: str | None = None, budget: int = 8000
    ) -> TerminalText:
        """Read it."""
        return await self.host.read(terminal_id, ME, form=form, cursor=cursor, budget=budget)

    async def type(self, terminal_id: str, text: str) -> None:
        """Type."""
        await self.host.write(terminal_id, text.encode(), ME)

    async def until(
        self, terminal_id: str, claim: Callable[[TerminalText], bool], form: Form = "clean"
    ) -> TerminalText:
        """Read until a claim holds."""
        async with asyncio.timeout(_PATIENCE_S):
            while not claim(text := await self.read(terminal_id, form)):  # noqa: ASYNC110 -- a screen has no event
                await asyncio.sleep(0.02)
        return text

    async def close_all(self) -> None:
        """Close what is open."""
        for one in await self.host.terminals(ME):
            await self.host.close(one.terminal_id, ME)
