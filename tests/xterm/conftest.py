"""Fixtures: xterm.js terminals, a Chromium for pages, and servers to look at."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browsing import running_chromium
from tests.xterm.emulating import OpenEmulator, emulators


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[OpenEmulator]:
    """A function that opens xterm.js terminals on processes."""
    with emulators(tmp_path) as opened:
        yield opened
