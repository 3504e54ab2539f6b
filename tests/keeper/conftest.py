"""Fixtures of the keeper's tests: one keeper shared by what kills nobody, and those with settings."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.keeper.house import House


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A keeper that all tests share which neither kill nor configure it."""
    with House(tmp_path_factory.mktemp("k") / "state") as shared:
        yield shared


@pytest.fixture
def build_house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """A function that starts a keeper with settings: `build_house(OUTLIVE_KEEPER_IDLE_S="1")`."""
    with ExitStack() as houses:
        count = 0

        def build(**env: str) -> House:
            nonlocal count
            count += 1
            return houses.enter_context(House(tmp_path / f"state{count}", env=env))

        yield build
