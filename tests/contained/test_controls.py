"""tests/keeper/test_controls.py, with a runner."""

from tests.keeper.test_controls import *  # noqa: F403 - the test bodies
