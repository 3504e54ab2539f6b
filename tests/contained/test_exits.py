"""tests/keeper/test_exits.py, with a runner."""

from tests.keeper.test_exits import *  # noqa: F403 - the test bodies
