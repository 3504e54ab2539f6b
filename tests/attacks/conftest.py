"""One server for all attacks that neither configure nor kill it."""

from collections.abc import Iterator

import pytest

from tests.support.server import OutliveServer


@pytest.fixture(scope="package")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """A server with default settings."""
    with OutliveServer(tmp_path_factory.mktemp("b") / "state") as shared:
        yield shared
