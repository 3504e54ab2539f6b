"""Fixtures of the policy's tests: one keeper for all that really start something."""

from collections.abc import Iterator

import pytest

from tests.keeper.house import House


@pytest.fixture(scope="package")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A keeper that nobody kills."""
    with House(tmp_path_factory.mktemp("p") / "state") as house:
        yield house
