"""tests/keeper/test_delivery.py, with a runner."""

from tests.keeper.test_delivery import *  # noqa: F403 - the test bodies
