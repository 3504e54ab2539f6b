"""tests/keeper/test_controls.py, with a runner."""

import pytest

from tests.keeper.test_controls import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
