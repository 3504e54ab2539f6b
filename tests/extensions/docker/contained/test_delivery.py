"""tests/keeper/test_delivery.py, with a runner."""

import pytest

from tests.keeper.test_delivery import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
