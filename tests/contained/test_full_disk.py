"""tests/keeper/test_full_disk.py, with a runner."""

from tests.keeper.test_full_disk import *  # noqa: F403 - the test bodies
