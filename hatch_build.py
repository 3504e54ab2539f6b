"""Puts the runner of containers, which is the program of shims as well, into the wheel, compiled for every machine that a compiler is here for.

Without a compiler the wheel holds the sources alone, the build says so, and the runner is compiled where it is first
needed (`outlive.backends.docker.runner_build`, whose flags and order of compilers are used here, too).
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCE = str(Path(__file__).parent / "src")


class RunnerBuildHook(BuildHookInterface[Any]):
    """Compiles into a folder that is gone after the build; nothing is written into the checkout."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the binaries to a wheel; an installation in place compiles when it needs one.

        The tag stays py3-none-any: Python loads none of these files, and the same ones serve every machine.
        """
        if version == "editable":
            return
        sys.path.insert(0, _SOURCE)
        try:
            from outlive.backends.docker.runner_build import MACHINES, compile_runner, shipped_name  # noqa: PLC0415
            from outlive.core.errors import StartFailed  # noqa: PLC0415 - the package that is being built
        finally:
            sys.path.remove(_SOURCE)
        self._folder = TemporaryDirectory(prefix="outlive-runner-")
        for machine in MACHINES:
            made = Path(self._folder.name) / machine
            try:
                compile_runner(machine, made)
            except StartFailed as error:
                self.app.display_warning(
                    f"The wheel holds no runner for {machine} containers. {error.message}"
                )
                continue
            made.chmod(0o755)
            build_data["force_include"][str(made)] = f"outlive/native/{shipped_name(machine)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was compiled: the wheel has it."""
        if version != "editable":
            self._folder.cleanup()
