"""Workspaces: a folder and an environment that go on from one command to the next (`enter`, promise S4.13).

The state lies in the folder of the process that left it, written by its own shell at its end
(`workspace.bash`), and is found by the process's tag: it belongs to the principal, and no server needs to
live for it. What ended by itself with exit code 0 counts, the last to end wins; everything else leaves the
workspace as it was.
"""

import asyncio
import contextlib
import os
from pathlib import Path

from outlive.core.command import Command, Profile, parse_profile
from outlive.core.errors import InvalidRequest, ProcessNotFound, StartFailed
from outlive.core.lifecycle import Cause, State
from outlive.core.location import LOCAL
from outlive.core.process import ProcessRecord
from outlive.core.values import replace
from outlive.engine import Engine, Process, ProcessFilter
from outlive.frontends.mcp.tools.calls import Caller
from outlive.frontends.mcp.tools.runner import ToolCall
from outlive.protocols.mcp.results import WorkspaceState, carried_environment, parse_state

_TAG = "workspace"
_PRELUDE = str(Path(__file__).with_name("workspace.bash"))
_PAGE = 100
_MAX_BYTES = 4 * 1024 * 1024  # execve(2): no environment that a program can be given is larger


async def enter(call: ToolCall, name: str, command: Command) -> Command:
    """Return `command` as it runs in a workspace of the caller's principal; one that is new begins empty.

    A shell line leaves its folder and exported variables there. The command's own `cwd` (seen from the
    workspace's folder) and `env` come on top.

    Raises:
        InvalidRequest: The server's shell is not bash, or the profile hides the state folder.
        StartFailed: `cwd_missing`: the folder that was left there is gone.
    """
    engine = call.runner.engine
    profile = parse_profile(command.profile or engine.sandboxes.default)
    if profile.strength >= Profile.WORKSPACE.strength:
        text = (
            f"A named workspace is kept in outlive's state folder, which the profile {profile.value!r} hides."
        )
        raise InvalidRequest("invalid_params", text, hint="Leave out workspace, and pass cwd and env.")
    env: dict[str, str | None] = {}
    cwd = command.cwd
    state = await _find(engine, name, call.caller)
    if state is not None:
        env = dict(state.variables)
        cwd = os.path.join(state.cwd, cwd or "") if cwd else state.cwd
        is_here = (command.backend or engine.settings.options.backend) == LOCAL
        if is_here and not await asyncio.to_thread(_is_there, cwd, state.cwd):
            text = f"The workspace {name!r} is in {state.cwd}, which was removed."
            hint = "Pass an absolute cwd, from which it goes on, or make that folder again."
            raise StartFailed("cwd_missing", text, hint=hint, details={"cwd": state.cwd})
    env |= command.env
    if command.line is not None and os.path.basename(engine.starts.preparation.shell) != "bash":
        text = f"A workspace needs bash; the shell here is {engine.starts.preparation.shell}."
        raise InvalidRequest("invalid_params", text, hint="Install bash, or leave out workspace.")
    prelude = None if command.line is None else _PRELUDE
    if prelude is not None:
        env = carried_environment(env)
    return replace(command, cwd=cwd, env=env, prelude=prelude, tags={**command.tags, _TAG: name})


def _is_there(*folders: str) -> bool:
    """Tell whether one of the folders is there. Blocking."""
    return any(map(os.path.isdir, folders))


async def shown_workspace(process: Process) -> str | None:
    """Return the name of a process's workspace and the folder it has left there; None when it is in none."""
    record = process.record
    name = record.tags.get(_TAG)
    if name is None or not record.is_complete:
        return name
    state = await _state_of(process) if _counts(record) else None
    return f"{name} unchanged" if state is None else f"{name}:{state.cwd}"


async def _find(engine: Engine, name: str, caller: Caller) -> WorkspaceState | None:
    """Return what was left last, among the newest hundred commands that count at all; None in a new
    workspace.
    """
    before: str | None = None
    while True:
        wanted = ProcessFilter(
            principal=caller.principal,
            project=caller.project_root,
            tags={_TAG: name},
            active=False,
            detached=True,
            before=before,
        )
        page = await engine.queries.list(wanted, limit=_PAGE)
        # Pages come by start, but the last to end has left the state: of two side by side the slower one
        # counts.
        by_end = sorted(filter(_counts, page), key=lambda record: record.ended_at or record.created_at)
        for record in reversed(by_end):
            with contextlib.suppress(ProcessNotFound):  # retention was faster
                state = await _state_of(await engine.queries.find(record.process_id))
                if state is not None:
                    return state
        if len(page) < _PAGE:
            return None
        before = page[-1].process_id


def _counts(record: ProcessRecord) -> bool:
    return record.state is State.EXITED and record.exit_code == 0 and record.cause is Cause.NONE


async def _state_of(process: Process) -> WorkspaceState | None:
    return parse_state(await asyncio.to_thread(_read, f"{process.folder}/workspace"))


def _read(path: str) -> bytes:
    """Return what the shell wrote; nothing where it wrote nothing, or more than any shell can."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        data = file.read(_MAX_BYTES + 1)
        return data if len(data) <= _MAX_BYTES else b""
    return b""
