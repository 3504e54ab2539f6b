"""tests/keeper/test_full_disk.py, with a runner."""

import pytest

from tests.keeper.test_full_disk import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
