"""tests/keeper/test_starts.py, with forks for shims."""

import pytest

from tests.keeper.test_starts import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
