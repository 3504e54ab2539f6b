"""tests/keeper/test_starts.py, with a runner."""

from tests.keeper.test_starts import *  # noqa: F403 - the test bodies
