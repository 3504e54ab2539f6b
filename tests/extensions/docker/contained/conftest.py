"""Fixtures: the houses of the keeper's tests, with a runner."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.extensions.docker.contained.house import ContainedHouse
from tests.runner.conftest import binary


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory, binary: Path) -> Iterator[ContainedHouse]:
    """A keeper that all tests share which neither kill nor configure it."""
    with ContainedHouse(tmp_path_factory.mktemp("c") / "state", runner=binary) as shared:
        yield shared


@pytest.fixture
def own_house(tmp_path: Path, binary: Path) -> Iterator[ContainedHouse]:
    """A keeper of the test's own."""
    with ContainedHouse(tmp_path / "state", runner=binary) as own:
        yield own


@pytest.fixture
def build_house(tmp_path: Path, binary: Path) -> Iterator[Callable[..., ContainedHouse]]:
    """A function that starts a keeper with settings."""
    with ExitStack() as houses:
        count = 0

        def build(**env: str) -> ContainedHouse:
            nonlocal count
            count += 1
            return houses.enter_context(ContainedHouse(tmp_path / f"state{count}", runner=binary, env=env))

        yield build
