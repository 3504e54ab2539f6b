"""Fixtures: the houses of the keeper's tests, without a program for shims."""

from collections.abc import Iterator

import pytest

from outlive.keeper.common.spawn import SHIM_VARIABLE
from tests.keeper import house as houses_of_tests
from tests.keeper.conftest import build_house
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
