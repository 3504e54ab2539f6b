"""tests/keeper/test_limits.py, with a runner."""

from tests.keeper.test_limits import *  # noqa: F403 - the test bodies
