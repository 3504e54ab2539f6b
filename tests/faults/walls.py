"""The bounds that some of a storm's commands run in, as the server would choose them."""

import asyncio
import os
import sys
from pathlib import Path

from outlive.config import Settings
from outlive.core.command import Command, Profile
from outlive.engine.commands.resolver import Resolved
from outlive.engine.commands.sandbox import Sandboxes
from outlive.keeper.sandbox.capabilities import ask_offers
from tests.faults import writer
from tests.keeper.house import shim_program

# By its own name: the links that lead there may lie in a home, which is hidden.
PYTHON = os.path.realpath(sys.executable)
# What the writer needs, wherever these lie.
READABLE = (sys.base_prefix, str(Path(writer.__file__).parent))
_WANTED = (Profile.GUARDED, Profile.WORKSPACE, Profile.SEALED)


class Walls:
    """Makes the steps of a profile for the writer, once for each profile."""

    def __init__(self, state_dir: Path) -> None:
        offers = ask_offers(str(state_dir), program=shim_program())
        self.profiles = tuple(profile for profile in _WANTED if not offers.obstacles[profile])
        self.folder = state_dir.with_name(state_dir.name + ".work")
        self.folder.mkdir(exist_ok=True)
        self._sandboxes = Sandboxes(
            Settings(sandbox_read=READABLE),
            state_dir=str(state_dir),
            environment=dict(os.environ),
        )
        self._sandboxes.assume(offers)
        self._steps: dict[Profile, tuple[str, ...] | None] = {Profile.OPEN: None}

    def steps(self, profile: Profile) -> tuple[str, ...] | None:
        """Return what `Spec.confinement` takes; None for an open command."""
        if profile not in self._steps:
            command = Command(argv=("writer",), profile=profile.value)
            bounds = self._sandboxes.confine(
                Resolved(program="", argv=(), env={}, cwd=str(self.folder), shell=None),
                command,
                profile,
                name="",
                script=None,
            )
            self._steps[profile] = asyncio.run(bounds).steps
        return self._steps[profile]
