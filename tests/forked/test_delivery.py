"""tests/keeper/test_delivery.py, with forks for shims."""

import pytest

from tests.keeper.test_delivery import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
