"""The trial that each program is given."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.comparison.trial import Trial


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    """A command with a gate, in an empty folder."""
    made = Trial(tmp_path)
    yield made
    made.close()
