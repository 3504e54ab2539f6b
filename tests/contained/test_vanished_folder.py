"""tests/keeper/test_vanished_folder.py, with a runner."""

from tests.keeper.test_vanished_folder import *  # noqa: F403 - the test bodies
