"""A process's command again, as its folder says that it was started: `start_again`, for every frontend that
offers it.
"""

import asyncio
import os

import outlive
from outlive.core.location import HERE
from outlive.core.process import Owner
from outlive.core.values import dataclass
from outlive.engine import Engine, Process
from outlive.operations.repetition import RepeatedProcess, Repetition, Rerun, repetition_of
from outlive.store.folder import read_start


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedAgain:
    """The new process; `lacks_environment`: that of the program which asked for the first one was stored
    nowhere.
    """

    process: Process
    lacks_environment: bool


async def start_again(engine: Engine, process: Process, asked: Rerun, *, owner: Owner) -> StartedAgain:
    """Start the command of a process again on behalf of a caller; policy judges it as any other start.

    Raises:
        InvalidRequest: It is the shell of a terminal, or values of its secrets are missing.
        InvalidState: `name_taken`: it lives and has a name.
        CommandRefused: `profile_too_weak`: the caller lives in a process of ours with a stronger profile.
        OutliveError: As `Starts.start`.
    """
    await engine.as_(owner).check(process)
    found = await asyncio.to_thread(_read, process)
    started = await engine.starts.start(found.to_command(asked), owner=owner)
    return StartedAgain(process=started, lacks_environment=found.lacks_environment)


def _read(process: Process) -> Repetition:
    record = process.record
    spec, script, path = read_start(process.folder)
    known = RepeatedProcess(
        process_id=record.process_id,
        command=record.command,
        shell=record.shell,
        redacted=record.redacted,
        timeout_s=record.timeout_s,
        grace_s=record.grace_s,
        profile=record.sandbox.profile.value,
        tags=record.tags,
        group=record.group,
        project=record.project,
        name=record.name,
        location=None if record.location == HERE else record.location.view(),
    )
    package = os.path.dirname(outlive.__file__)
    return repetition_of(spec, known, script=script, script_path=path, package=package)
