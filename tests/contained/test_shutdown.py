"""tests/keeper/test_shutdown.py, with a runner."""

from tests.keeper.test_shutdown import *  # noqa: F403 - the test bodies
