"""tests/keeper/test_limits.py, with forks for shims."""

import pytest

from tests.keeper.test_limits import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
