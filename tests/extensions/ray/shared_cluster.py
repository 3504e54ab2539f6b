"""The cluster of a run, a fixture for all folders: it takes as long to start as a hundred tests with it."""

from collections.abc import Iterator

import pytest

from tests.extensions.ray.cluster import RayCluster, skip_or_fail_without_ray


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """A control server and the nodes n1 and n2 of two processors.

    A test that kills something of it starts that again.
    """
    skip_or_fail_without_ray()
    with RayCluster() as shared:
        for name in ("n1", "n2"):  # not at once: two that start on one machine take each other's sockets
            shared.join(name)
        yield shared
