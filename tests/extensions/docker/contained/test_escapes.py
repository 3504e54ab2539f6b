"""tests/keeper/test_escapes.py, with a runner."""

import pytest

from tests.keeper.test_escapes import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
