"""tests/keeper/test_exits.py, with a runner."""

import pytest

from tests.keeper.test_exits import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
