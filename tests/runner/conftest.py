"""The runner's binary, compiled once per session, and runners that end with their test."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from outlive.core.errors import StartFailed
from outlive.discovery.runner_build import RUNNER_FLAGS, runner_binary, runner_sources
from tests.runner.playing import Command, Runner
from tests.runner.shims import KINDS, Shim

_SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The static binary for this machine."""
    # All workers of one run share it: compiling takes seconds.
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if os.environ.get("PYTEST_XDIST_WORKER") else folder
    try:
        return runner_binary(os.uname().machine, folder / "runner-binary")
    except StartFailed as error:
        if os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"):
            raise
        pytest.skip(error.message)


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sources, with the compiler's checks; not static, which sanitizers do not support."""
    target = tmp_path_factory.mktemp("sanitized") / "outlive-runner"
    compiler = shutil.which("gcc") or shutil.which("clang")
    words = [str(compiler), *RUNNER_FLAGS, *_SANITIZED, "-o", str(target), *map(str, runner_sources())]
    done = subprocess.run(words, capture_output=True, text=True, check=False) if compiler else None
    if done is None or done.returncode:
        reason = "no compiler with sanitizers is here" + (f": {done.stderr[-200:]}" if done else "")
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), reason
        pytest.skip(reason)
    return target


@pytest.fixture
def runner(binary: Path, tmp_path: Path) -> Iterator[Runner]:
    """A runner outside of any container."""
    running = Runner(binary, tmp_path, asks=True)
    yield running
    running.discard()


@pytest.fixture
def commands(runner: Runner, tmp_path: Path) -> Callable[[], Command]:
    """Makes commands that are not started yet."""
    numbers = count()
    return lambda: Command(runner, tmp_path / f"process-{next(numbers)}")


@pytest.fixture
def command(commands: Callable[[], Command]) -> Command:
    """A command that is not started yet."""
    return commands()


@pytest.fixture
def shims(binary: Path, tmp_path: Path) -> Iterator[Callable[..., Shim]]:
    """Starts shims, and ends them with the test."""
    made: list[Shim] = []
    numbers = count()

    def make(kind: str, **how: object) -> Shim:
        made.append(Shim(kind, binary, tmp_path / f"process-{next(numbers)}", **how))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.discard()


@pytest.fixture(params=KINDS)
def shim(request: pytest.FixtureRequest, shims: Callable[..., Shim]) -> Shim:
    """A shim that serves nothing yet."""
    return shims(request.param)
