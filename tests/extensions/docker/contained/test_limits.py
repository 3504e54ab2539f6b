"""tests/keeper/test_limits.py, with a runner."""

import pytest

from tests.keeper.test_limits import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
