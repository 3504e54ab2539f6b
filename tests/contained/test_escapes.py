"""tests/keeper/test_escapes.py, with a runner."""

from tests.keeper.test_escapes import *  # noqa: F403 - the test bodies
