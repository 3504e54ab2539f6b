"""The trap list, really tried: with `ls, echo, cat` on the list nothing else is ever started by us.

Every program on PATH writes its name down before it does anything, and so do the canaries; what is refused
has reached neither keeper nor shell.
"""

import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from outlive.core.command import Command
from outlive.core.errors import OutliveError
from outlive.engine import Engine
from outlive.frontends.mcp import tools as mcp_tools
from outlive.policy.judgement import CommandPolicy
from outlive.policy.patterns import AllowedCommands
from outlive.policy.rules import Rule
from tests.engine.engines import ME, an_engine
from tests.keeper.house import House
from tests.policy.traps import TRAPS, Trap

_LISTED = ("ls", "echo", "cat")


class _Ground:
    """A PATH of programs that note who was started, and a working folder full of canaries."""

    def __init__(self, folder: Path) -> None:
        self.bin, self.here = folder / "bin", folder / "here"
        self._notes = folder / "notes"
        for made in (self.bin, self.here):
            made.mkdir()
        for name in _LISTED:
            self._write(self.bin / name, f'exec /bin/{name} "$@"')
        for path in (self.bin / "evil", self.here / "evil", self.here / "ls", self.here / "-la"):
            self._write(path, "exit 0")
        (self.here / "cat").symlink_to(self.bin / "evil")
        (self.here / ".bashrc").write_text(f"{self.bin}/evil\n")

    def _write(self, path: Path, then: str) -> None:
        path.write_text(f"#!/bin/sh\necho {path} >> {self._notes}\n{then}\n")
        path.chmod(stat.S_IRWXU)

    def filled(self, text: str) -> str:
        return text.format(bin=self.bin, here=self.here, evil=self.bin / "evil")

    def started(self) -> set[str]:
        return set(self._notes.read_text().split()) if self._notes.exists() else set()

    def command(self, trap: Trap) -> Command:
        return Command(
            line=None if trap.line is None else self._filled_line(trap.line),
            argv=None if trap.argv is None else tuple(map(self.filled, trap.argv)),
            script=trap.script,
            env={name: None if value is None else self.filled(value) for name, value in trap.env.items()},
            env_secrets={name: self.filled(value) for name, value in trap.secrets.items()},
        )

    def _filled_line(self, line: str) -> str:
        """Fill in; lines are full of braces that stand for themselves."""
        if "{{" in line:
            return self.filled(line)
        for name in ("bin", "here", "evil"):
            line = line.replace(f"{{{name}}}", self.filled(f"{{{name}}}"))
        return line


def _an_engine(kind: str, house: House, ground: _Ground) -> Engine:
    environment = {"PATH": str(ground.bin), "HOME": str(ground.here)}
    if kind == "names":
        names = AllowedCommands(frozenset(_LISTED))
        return an_engine(
            house.state_dir, environment=environment, cwd=str(ground.here), allowed_commands=names
        )
    policy = CommandPolicy(allow=tuple(map(Rule.parse, _LISTED)))
    return an_engine(house.state_dir, environment=environment, cwd=str(ground.here), policy=policy)


async def _try(engine: Engine, command: Command) -> str:
    """Return how a start ended: the slug of its refusal, or its state."""
    try:
        process = await engine.starts.start(command, owner=ME)
    except OutliveError as error:
        return error.code
    async with asyncio.timeout(20):
        await engine.queries.wait(process, until="closed")
    return process.status.state.value


@pytest.mark.promise("S0.12", "P.only")
@pytest.mark.parametrize("kind", ["names", "rules"])
async def test_nothing_off_the_list_is_ever_started(shared_house: House, tmp_path: Path, kind: str) -> None:
    ground = await asyncio.to_thread(_Ground, tmp_path)
    ours = {str(ground.bin / name) for name in _LISTED}
    wrong: list[str] = []
    started: set[str] = set()
    async with _an_engine(kind, shared_house, ground) as engine:
        for trap in TRAPS:
            if kind == "names" and trap.script is not None:
                continue  # the list is about an interpreter there, and bash is not on it
            outcome = await _try(engine, ground.command(trap))
            started = await asyncio.to_thread(ground.started)
            if not started <= ours:
                wrong.append(f"{trap.name}: {started - ours} was started ({outcome})")
            is_started = outcome in {"exited", "signaled"}
            if is_started is not (kind in trap.passes):
                wrong.append(f"{trap.name}: {outcome}")
    assert not wrong, "\n".join(wrong)
    assert ours - {str(ground.bin / "echo")} <= started  # echo is a builtin: the notes do work


async def test_with_bash_on_the_list_the_canary_sings(shared_house: House, tmp_path: Path) -> None:
    """The check itself: what the documentation says of a shell on the list is so, and the ground notes it."""
    ground = await asyncio.to_thread(_Ground, tmp_path)
    policy = CommandPolicy(allow=tuple(map(Rule.parse, (*_LISTED, "/bin/bash"))))
    environment = {"PATH": str(ground.bin)}
    async with an_engine(
        shared_house.state_dir, environment=environment, cwd=str(ground.here), policy=policy
    ) as engine:
        assert await _try(engine, Command(line="/bin/bash -c evil")) == "exited"
        script = Command(argv=("/bin/bash",), script="ls\n")
        assert await _try(engine, script) == "exited"
        assert await _try(engine, replace(script, script="ls\nevil\n")) == "command_not_allowed"
    assert str(ground.bin / "evil") in await asyncio.to_thread(ground.started)


async def test_a_workspaces_prelude_is_no_variable_of_the_callers(
    shared_house: House, tmp_path: Path
) -> None:
    ground = await asyncio.to_thread(_Ground, tmp_path)
    prelude = os.path.join(os.path.dirname(mcp_tools.__file__), "workspace.bash")
    for kind in ("names", "rules"):
        async with _an_engine(kind, shared_house, ground) as engine:
            command = Command(line="ls", prelude=prelude)
            assert await _try(engine, command) == "exited"
            assert (
                await _try(engine, replace(command, env={"OUTLIVE_BASH_ENV": f"{ground.bin}/evil"}))
                == "exited"
            )
            users = {"BASH_ENV": f"{ground.bin}/evil"}
            assert (await _try(engine, replace(command, env=users))).startswith("command_")
    assert str(ground.bin / "evil") not in await asyncio.to_thread(ground.started)


def test_there_are_traps_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(TRAPS) >= 60
    assert len({trap.name for trap in TRAPS}) == len(TRAPS)
    assert all(trap.why for trap in TRAPS)
    assert os.path.exists("/bin/bash")
