"""What is left when an extension's folder is removed: outlive, without it."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.extensions.contract import OWN
from tests.extensions.environments import Environment
from tests.house.sources import ROOT

_NAMES = [one.name for one in OWN]
# Imports every module of outlive but for those that need a package which an installation may lack.
_IMPORT_ALL = """
import importlib, pkgutil, sys, outlive
for found in pkgutil.walk_packages(outlive.__path__, "outlive."):
    try:
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    except ModuleNotFoundError as error:
        if error.name.startswith("outlive"):
            raise
print(len([name for name in sys.modules if name.startswith("outlive.")]))
"""
# A part of the core's tests that takes a minute: each door, each room, and everything about places.
_CORE = (
    *("core", "operations", "policy", "placement", "protocols", "config", "kernel", "files"),
    *("engine/test_start.py", "jsonrpc/test_execute.py", "jsonrpc/test_methods.py", "rest/test_processes.py"),
    *("rest/test_openapi.py", "mcp_tools/test_commands.py", "cli/test_help.py", "cli/test_completion.py"),
)


def _without(names: list[str], folder: Path) -> Environment:
    """Return an environment with a copy of the sources, without the folders of these extensions."""
    below = {str(ROOT / "src" / "outlive" / "extensions" / name) for name in names}

    def left_out(place: str, inside: list[str]) -> set[str]:
        return {name for name in inside if f"{place}/{name}" in below or name == "__pycache__"}

    shutil.copytree(ROOT / "src", folder / "src", ignore=left_out)
    return Environment(folder / "venv", source=folder / "src")


@pytest.fixture(name="rest", params=[[name] for name in _NAMES] + [_NAMES], ids="+".join)
def _rest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Environment]:
    environment = _without(request.param, tmp_path)
    yield environment
    environment.outlive("keeper", "stop", "--kill")


@pytest.mark.thorough
def test_outlive_works_without_an_extension(rest: Environment) -> None:
    folder = Path(rest.run("-c", "import outlive; print(outlive.__file__)").strip()).parent
    assert folder != ROOT / "src" / "outlive"
    assert int(rest.run("-c", _IMPORT_ALL)) > 300
    assert "Usage:" in rest.outlive("--help")
    assert rest.outlive("run", "--", "echo", "hi") == "hi\n"
    (process,) = json.loads(rest.outlive("ps", "--all", "--json"))["processes"]
    assert process["state"] == "exited"


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_the_cores_tests_are_green_without_extensions(tmp_path: Path) -> None:
    environment = _without(_NAMES, tmp_path)
    for variable in ("HOME", "PATH"):
        environment.variables[variable] = os.environ[variable]
    paths = [f"tests/{path}" for path in _CORE]
    quick = "not slow and not rare and not thorough and not docker and not ray and not code_server"
    flags = ("-q", "-p", "no:cacheprovider", "-n", "2")
    said = environment.run("-m", "pytest", *flags, "-m", quick, *paths, cwd=ROOT, timeout_s=600)
    assert " failed" not in said
    assert " passed" in said
