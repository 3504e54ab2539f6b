"""tests/keeper/test_full_disk.py, with forks for shims."""

import pytest

from tests.keeper.test_full_disk import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
