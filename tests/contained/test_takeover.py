"""tests/keeper/test_takeover.py, with a runner."""

from tests.keeper.test_takeover import *  # noqa: F403 - the test bodies
