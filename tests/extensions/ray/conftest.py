"""Fixture of the tests with Ray: servers of a test's own on the nodes of the cluster that a run shares
(`shared_cluster`).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extensions.ray.cluster import RayCluster, RaySite


@pytest.fixture
def site(cluster: RayCluster, tmp_path: Path) -> Iterator[RaySite]:
    """Servers on both nodes, and one that places commands on them."""
    with RaySite(cluster, tmp_path) as own:
        yield own
