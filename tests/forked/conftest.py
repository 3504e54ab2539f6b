"""Fixtures: the houses of the keeper's tests, without a program for shims."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlive.keeper.shim_program import SHIM_VARIABLE
from tests.keeper import house as houses_of_tests
from tests.keeper.house import House


@pytest.fixture(autouse=True)
def forks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No house that is built in a test has a program for shims."""
    monkeypatch.setattr(houses_of_tests, "shim_program", lambda: "off")


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A keeper that all tests share which neither kill nor configure it."""
    with House(tmp_path_factory.mktemp("f") / "state", env={SHIM_VARIABLE: "off"}) as shared:
        yield shared


@pytest.fixture
def build_house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """A function that starts a keeper with settings."""
    with ExitStack() as houses:
        count = 0

        def build(**env: str) -> House:
            nonlocal count
            count += 1
            return houses.enter_context(House(tmp_path / f"state{count}", env=env))

        yield build
