"""tests/keeper/test_starts.py, with a runner."""

import pytest

from tests.keeper.test_starts import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
