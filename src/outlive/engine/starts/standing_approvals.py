"""What is approved for always, at a start about which a rule asks: `StandingApprovals`. The file is read anew each time."""

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from outlive.core.command import ApprovalState, Command, StandingApproval
from outlive.core.errors import ConfigInvalid, InvalidRequest
from outlive.engine.commands.resolver import Resolved
from outlive.engine.starts.standing_file import StandingFile
from outlive.keeper.common.project import project_root
from outlive.policy.command_reader import Reading
from outlive.policy.patterns import ProgramFile
from outlive.policy.standing_approvals import standing_approval

_logger = logging.getLogger(__name__)


class StandingApprovals:
    """The standing approvals of the user that runs the server. On the engine's loop only; the disk is asked in a thread."""

    def __init__(self, path: str | None) -> None:
        """Take the file's path; without one nothing is approved for always."""
        self._file = None if path is None else StandingFile(path)

    async def proposed(
        self,
        command: Command,
        resolved: Resolved,
        reading: Reading,
        files: Mapping[str, ProgramFile | None],
        *,
        gets_secrets: bool,
    ) -> StandingApproval | str:
        """Return what an approval for always would be about, or in a sentence why there is none (`standing_approval`)."""
        if self._file is None:
            return "This server has no file of settings beside which it could be kept."
        project, is_one = await asyncio.to_thread(_project_of, resolved.cwd)
        if not is_one:
            return f"The folder {project} is no project: others lie in it."
        return standing_approval(
            command,
            reading,
            files,
            project=project,
            profile=resolved.sandbox.profile.value,
            location=resolved.location.view(),
            gets_secrets=gets_secrets,
        )

    async def given(self, proposed: StandingApproval) -> StandingApproval | None:
        """Return the approval that was given for exactly this; None without one, and while the file cannot be used."""
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


def _project_of(folder: str) -> tuple[str, bool]:
    """Return the root of a folder's project, and whether it is one: everything lies below / and the home folder. Blocking."""
    root = project_root(folder)
    return root, root not in {"/", os.path.realpath(os.path.expanduser("~"))}
