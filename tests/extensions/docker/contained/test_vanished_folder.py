"""tests/keeper/test_vanished_folder.py, with a runner."""

import pytest

from tests.keeper.test_vanished_folder import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
