"""Puts the runner of containers, which is the program of shims as well, into the wheel.

Which wheel is made, the environment says (decision 190):

* Nothing: the programs are compiled for every machine that a compiler is here for, with
  `outlive.discovery.runner_build`'s flags and order of compilers; where none is, the build's
  environment gets zig from PyPI. Without any, the build says so, and the program is compiled where it is
  first needed. This is what installing from an sdist does.
* `OUTLIVE_WHEEL=MACHINE`: a wheel for that machine. It holds the programs of `OUTLIVE_WHEEL_PROGRAMS`, a
  folder in which they lie under their shipped names; `scripts/wheels.py` makes both.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_SOURCE = str(Path(__file__).parent / "src")
# The programs are static and start no interpreter: any Python and both C libraries will do. 2.17 and 1.1 are
# the oldest that Python 3.11 was built for, so the tags exclude no machine that could run outlive.
_TAG = "py3-none-manylinux_2_17_{machine}.musllinux_1_1_{machine}"
_ZIG = "ziglang==0.15.2"  # as in requirements/zig.in


class RunnerBuildHook(BuildHookInterface[Any]):
    """Compiles into a folder that is gone after the build; nothing is written into the checkout."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the binaries to a wheel; an installation in place compiles when it needs one.

        Raises:
            ValueError: A wheel for a machine was asked for that has no program, or whose programs are not in
            the folder.
        """
        self._folder = TemporaryDirectory(prefix="outlive-runner-")
        wanted = os.environ.get("OUTLIVE_WHEEL", "")
        if version == "editable":
            return
        sys.path.insert(0, _SOURCE)
        try:
            from outlive.discovery.runner_build import MACHINES, shipped_name  # noqa: PLC0415
        finally:
            sys.path.remove(_SOURCE)
        if wanted and wanted not in MACHINES:
            raise ValueError(f"OUTLIVE_WHEEL is one of {', '.join(MACHINES)}, not {wanted!r}.")
        names = {machine: shipped_name(machine) for machine in MACHINES}
        found = self._given(names) if wanted else self._compiled(MACHINES)
        for machine, path in found.items():
            build_data["force_include"][str(path)] = f"outlive/native/{names[machine]}"
        if wanted:
            build_data["pure_python"] = False
            build_data["tag"] = _TAG.format(machine=wanted)

    def dependencies(self) -> list[str]:
        """Return what the build needs besides hatchling: a compiler, where this machine has none."""
        if "OUTLIVE_WHEEL" in os.environ:
            return []
        sys.path.insert(0, _SOURCE)
        try:
            from outlive.discovery.runner_build import has_compiler  # noqa: PLC0415
        finally:
            sys.path.remove(_SOURCE)
        return [] if has_compiler() else [_ZIG]

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was compiled: the wheel has it."""
        self._folder.cleanup()

    def _given(self, names: Mapping[str, str]) -> dict[str, Path]:
        """Return the programs that were compiled before: all of them, since a container's machine may be
        another one.
        """
        folder = Path(os.environ.get("OUTLIVE_WHEEL_PROGRAMS", ""))
        found = {machine: folder / Path(name).name for machine, name in names.items()}
        missing = [str(path) for path in found.values() if not path.is_file()]
        if missing:
            raise ValueError(
                f"A wheel for one machine needs {' and '.join(missing)}: scripts/wheels.py makes them."
            )
        return found

    def _compiled(self, machines: tuple[str, ...]) -> dict[str, Path]:
        """Return the programs that the compilers of this machine can make."""
        sys.path.insert(0, _SOURCE)
        try:
            from outlive.core.errors import StartFailed  # noqa: PLC0415 - the package that is being built
            from outlive.discovery.runner_build import compile_runner  # noqa: PLC0415
        finally:
            sys.path.remove(_SOURCE)
        found = {}
        for machine in machines:
            made = Path(self._folder.name) / machine
            try:
                compile_runner(machine, made)
            except StartFailed as error:
                self.app.display_warning(f"The wheel holds no program for {machine}. {error.message}")
                continue
            made.chmod(0o755)
            found[machine] = made
        return found
