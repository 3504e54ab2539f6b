"""tests/keeper/test_exits.py, with forks for shims."""

import pytest

from tests.keeper.test_exits import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
