"""tests/keeper/test_escapes.py, with forks for shims."""

import pytest

from tests.keeper.test_escapes import *  # noqa: F403 - the test bodies

pytestmark = pytest.mark.thorough
