"""tests/keeper/test_takeover.py, with a runner."""

import pytest

from tests.keeper.test_takeover import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
