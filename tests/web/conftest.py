"""Fixtures: one Chromium for the tests of a module, and a server of each test's own."""

from collections.abc import Iterator

import pytest

from tests.support.browsing import Browser, browser
from tests.support.fixtures import own_server


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser's window; what a test has left in it is another origin's, since each server has a port of its own."""
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened
