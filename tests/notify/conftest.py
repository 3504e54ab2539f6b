"""Fixtures of the notices' tests."""

from collections.abc import AsyncIterator

import pytest

from tests.notify.endpoints import Endpoint
from tests.support.fixtures import *  # noqa: F403 -- pytest finds fixtures by their names


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """An endpoint that takes every notice."""
    async with Endpoint() as opened:
        yield opened
