"""Fixtures of the tests with Ray: one cluster of two nodes for all tests of a run, and servers of a test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ray.cluster import RayCluster, RaySite, skip_or_fail_without_ray


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """A control server and the nodes n1 and n2 of two processors; a test that kills something of it starts that again."""
    skip_or_fail_without_ray()
    with RayCluster() as shared:
        for name in ("n1", "n2"):  # not at once: two that start on one machine take each other's sockets
            shared.join(name)
        yield shared


@pytest.fixture
def site(cluster: RayCluster, tmp_path: Path) -> Iterator[RaySite]:
    """Servers on both nodes, and one that places commands on them."""
    with RaySite(cluster, tmp_path) as own:
        yield own
