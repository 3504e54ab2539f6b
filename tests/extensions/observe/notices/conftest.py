"""Fixtures of the notices' tests."""

from collections.abc import AsyncIterator

import pytest

from tests.extensions.observe.notices.endpoints import Channel, Endpoint
from tests.support.fixtures import *  # noqa: F403 -- pytest finds fixtures by their names


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """An endpoint that takes every notice."""
    async with Endpoint() as opened:
        yield opened


@pytest.fixture(params=["webhook", "command"])
def channel(request: pytest.FixtureRequest) -> Channel:
    """Each way by which a notice can reach the endpoint."""
    channel: Channel = request.param
    return channel
