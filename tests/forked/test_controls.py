"""tests/keeper/test_controls.py, with forks for shims."""

import pytest

from tests.keeper.test_controls import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
