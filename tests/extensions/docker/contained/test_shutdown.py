"""tests/keeper/test_shutdown.py, with a runner."""

import pytest

from tests.keeper.test_shutdown import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
