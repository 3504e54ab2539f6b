"""What is approved for always, and what a start's files must hold that has an approval: `StandingApprovals`.

The file of approvals is read anew each time, and the files that a command names are, too.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from outlive.core.command import ApprovalState, Command, StandingApproval
from outlive.core.errors import ConfigInvalid, InvalidRequest, InvalidState, StartFailed
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass, replace
from outlive.engine.commands.named_files import NamedFiles, changed_file, look_at_files
from outlive.engine.commands.resolver import Resolved
from outlive.engine.starts.standing_file import StandingFile
from outlive.kernel.project import project_identity, project_root
from outlive.policy.command_reader import Reading
from outlive.policy.patterns import ProgramFile
from outlive.policy.standing_approvals import also_runs, standing_approval
from outlive.protocols.keeper import decode_spec

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")
# A look at a dead network file system never ends, and keeps its thread: of those the server has six or more.
_MOST_LOOKS = 2
_LOOK_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedApproval:
    """What an approval would be about.

    `standing`: for always, or in a sentence why there is none. `files`: the states of the named files.
    `remark`: what neither is about.
    """

    standing: StandingApproval | str
    files: Mapping[str, str]
    remark: str


class StandingApprovals:
    """The standing approvals of the user that runs the server.

    On the engine's loop only; the disk is asked in a thread.
    """

    def __init__(self, path: str | None, *, umask: int) -> None:
        """`umask` is that of commands that name none."""
        self._file = None if path is None else StandingFile(path)
        self._umask = umask
        self._looks = asyncio.Semaphore(_MOST_LOOKS)

    async def proposed(
        self,
        command: Command,
        resolved: Resolved,
        reading: Reading,
        files: Mapping[str, ProgramFile | None],
    ) -> ProposedApproval:
        """Return what an approval of a command would be about.

        Raises:
            StartFailed: `start_failed`: its files cannot be looked at in time.
        """
        if resolved.location.kind != "local":
            why = "It runs elsewhere, and its files lie there: this server cannot look at them."
            return ProposedApproval(standing=why, files={}, remark=also_runs(command, reading, {}))

        def look() -> tuple[NamedFiles, str, str | None]:
            found = look_at_files(
                reading, files, program=resolved.program, cwd=resolved.cwd, path=resolved.path
            )
            root = project_root(resolved.cwd)
            # Everything lies below these two.
            is_one = root not in {"/", os.path.realpath(os.path.expanduser("~"))}
            return found, root, project_identity(root) if is_one else None

        found, project, identity = await self._look(look)
        standing: StandingApproval | str
        if self._file is None:
            standing = "This server has no file of settings beside which it could be kept."
        elif identity is None:
            standing = f"The folder {project} is no project: others lie in it."
        else:
            standing = standing_approval(
                command,
                reading,
                files,
                project=project,
                surroundings={
                    "identity": identity,
                    "files": found.states,
                    "profile": resolved.sandbox.profile.value,
                    "umask": self._umask if command.umask is None else command.umask,
                },
                uncertain=found.uncertain,
            )
        remark = also_runs(command, reading, found.interpreters)
        return ProposedApproval(standing=standing, files=found.states, remark=remark)

    async def check_unchanged(self, record: ProcessRecord, spec: bytes) -> None:
        """Return if the files that a start with an approval names still hold what they held.

        Raises:
            InvalidState: `approval_changed`: one does not.
            StartFailed: `start_failed`: they cannot be looked at in time.
        """
        approval = record.approval
        if approval is None or not approval.files:
            return
        # The record shows its folder as text; the spec has it as it is.
        cwd = decode_spec(spec).cwd
        name = await self._look(lambda: changed_file(approval.files, cwd=cwd))
        if name is not None:
            text = f"{name[-80:]!r} is not what it was when this was asked about."
            raise InvalidState("approval_changed", text, hint="Have it asked about again, and look at it.")

    async def _look(self, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, from a thread."""
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._looks.acquire()
                looking = asyncio.get_running_loop().run_in_executor(None, work)
                looking.add_done_callback(lambda _: self._looks.release())
                return await asyncio.shield(looking)
        except TimeoutError:
            text = f"The files that it names could not be looked at in {_LOOK_S:.0f} s."
            raise StartFailed("start_failed", text) from None

    async def given(self, proposed: StandingApproval) -> StandingApproval | None:
        """Return the approval that was given for exactly this; None without one, and while the file cannot be
        used.
        """
        if self._file is None:
            return None
        try:
            return await asyncio.to_thread(self._file.find, proposed)
        except ConfigInvalid as error:
            _logger.warning("nothing is approved for always", extra={"reason": error.message})
            return None

    async def give(self, approval: ApprovalState | None, *, by: str) -> None:
        """Put down that what waits for an approval is approved for always. On disk when this returns.

        Raises:
            ConfigInvalid: `config_invalid`: the file cannot be used, and stays as it is.
            InvalidRequest: `invalid_params`: it can be approved only once.
            LimitExceeded: `disk_full`, or `approval_limit`: a thousand are approved so.
        """
        if self._file is None or approval is None or approval.standing is None:
            why = "" if approval is None else approval.only_once
            raise InvalidRequest("invalid_params", f"This can be approved only once. {why}".rstrip())
        at = datetime.now(UTC).isoformat(timespec="seconds")
        await asyncio.to_thread(self._file.add, replace(approval.standing, by=by, at=at))
