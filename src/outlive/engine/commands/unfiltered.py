"""What a final filter hides: `keeping_unfiltered` has it kept beside a command, `unfiltered_of` finds it at
the end.

`hidden_by_filter` says what of it an answer has to name.
The line is run as it was written. Before it bash reads `unfiltered.bash`, which lets the runner become the
filter (`native/filter`): the bytes that enter the filter are copied into the folder `unfiltered` of the
process's own, in the format of an output log. An EXIT trap writes the exit codes of the last pipeline
(decision 180).
"""

import asyncio
import os
from pathlib import Path

from outlive.core.command import Command, Profile
from outlive.core.lifecycle import Cause
from outlive.core.values import dataclass, replace
from outlive.engine.processes.process import Process
from outlive.policy.last_filter import filter_hint, last_filter
from outlive.store.folder import UNFILTERED
from outlive.store.output_log import OutputLog
from outlive.store.unfiltered import Unfiltered, look_unfiltered

_PRELUDE = str(Path(__file__).with_name("unfiltered.bash"))
_VARIABLE = "OUTLIVE_FILTER"  # what the prelude reads, and removes
# Half for the first bytes, half for the last ones: more than a build or a test run writes as a rule, and a
# thousand such commands fit into the 16 GiB that retention keeps.
MOST_BYTES = 16 * 1024 * 1024
_SIGPIPE_CODE = 128 + 13  # of a program whose reader has left, as `head` does


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenByFilter:
    """What the final filter of a process hides.

    `exit_code` is that of what stands before the filter, None where it is not known; `failure` is the same
    where it is one that the filter's own hides. `size` are the kept bytes that entered the filter, 0 where
    none are kept, or where the output shows as many. `hint` says what is hidden where nothing could be kept,
    else it is empty.
    """

    exit_code: int | None = None
    size: int = 0
    hint: str = ""

    @property
    def failure(self) -> int | None:
        """The exit code before the filter where it says that something failed."""
        return None if self.exit_code in {0, _SIGPIPE_CODE} else self.exit_code


def keeping_unfiltered(
    command: Command,
    profile: Profile,
    *,
    shell: str,
    runner: str | None,
    limit: int | None,
    may_fork: bool = True,
) -> Command:
    """Return `command` as it runs when what enters its final filter is to be kept.

    Unchanged where that cannot be.

    Args:
        command: What the caller wants; only `keeps_unfiltered` asks for it.
        profile: Its profile: from workspace on the state folder is hidden, and nothing can be kept there.
        shell: The program that runs command lines; only bash reads a prelude.
        runner: The native program's path; None, or none there when the command begins: only exit codes are
            kept.
        limit: The most output that is kept of it, in bytes; None without a limit.
        may_fork: Whether a process more is no matter; where their number is limited only exit codes are kept.
    """
    is_possible = command.keeps_unfiltered and command.line is not None and command.prelude is None
    if not is_possible or command.stdio == "pty" or profile.strength >= Profile.WORKSPACE.strength:
        return command
    # What the grammar is not certain about is not touched: the line must behave as it does in any other
    # shell.
    found = last_filter(command.line or "")
    if found is None or os.path.basename(shell) != "bash":
        return command
    most = MOST_BYTES if limit is None else min(limit, MOST_BYTES)
    copier = runner if may_fork and found.may_copy and most > 0 and runner is not None else ""
    # Blanks separate the three parts; the path comes last, since it alone may hold one.
    env = {**command.env, _VARIABLE: f"{found.name} {most},{found.stages},{found.is_only:d} {copier}"}
    return replace(command, prelude=_PRELUDE, env=env)


async def unfiltered_of(process: Process) -> Unfiltered | None:
    """Return what was kept beside a process; None when nothing was, or while it runs.

    Cancellation: safe.
    """
    record = process.record
    if not record.is_complete or record.exit_code is None:
        return None  # a signal has ended the shell: whatever it wrote, it was in the middle of something
    return await asyncio.to_thread(look_unfiltered, process.folder)


async def hidden_by_filter(process: Process) -> HiddenByFilter:
    """Return what a final filter hides of a process.

    Nothing of one that runs, was ended, or has no such filter.

    Cancellation: safe.
    """
    record = process.record
    kept = await unfiltered_of(process)
    if kept is not None:
        size = kept.size if kept.size is not None and kept.size > record.stdout_bytes else 0
        return HiddenByFilter(exit_code=kept.exit_code_before, size=size)
    if not record.is_complete or record.exit_code is None or record.cause is not Cause.NONE:
        return HiddenByFilter()
    return HiddenByFilter(hint=filter_hint(record.command) or "")


def unfiltered_log(process: Process, *, raw: bool = False) -> OutputLog:
    """Return a reader of the bytes that entered the filter, all in stream 0; the caller closes it.

    Secrets are hidden as in the process's output; `raw` shows them, and is for callers with the scope admin.
    """
    return process.open_log(UNFILTERED, raw=raw)
