"""What the tests of the benchmark share: the counter of tokens, which is not installed everywhere."""

import os
from collections.abc import Iterator

import pytest

from bench.agents.tokens import TokenCounter
from bench.measure import Unavailable


@pytest.fixture
def counter() -> Iterator[TokenCounter]:
    """Give a counter; without `scripts/agent-peers.sh counter` the test is skipped."""
    try:
        started = TokenCounter()
    except Unavailable as reason:
        if os.environ.get("OUTLIVE_REQUIRE_TOKEN_COUNTER"):
            raise
        pytest.skip(str(reason))
    with started:
        yield started
