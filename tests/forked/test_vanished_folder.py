"""tests/keeper/test_vanished_folder.py, with forks for shims."""

import pytest

from tests.keeper.test_vanished_folder import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
