"""Fixtures of Docker mode: a daemon with images, a runner, and a state folder whose containers go with the
test.
"""

import os
import platform
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from outlive.discovery.runner_build import runner_binary
from tests.extensions.docker.site import Site
from tests.support.dockerd import Dockerd, skip_or_fail_without_docker


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    """Where a daemon with our images listens: OUTLIVE_TEST_DOCKER_HOST, or one that is started for this
    run.
    """
    if host := os.environ.get("OUTLIVE_TEST_DOCKER_HOST"):
        yield host
        return
    skip_or_fail_without_docker()
    with tempfile.TemporaryDirectory(prefix="od-") as folder:
        dockerd = Dockerd(Path(folder) / "d")
        dockerd.start()
        try:
            dockerd.make_images()
            yield dockerd.host
        finally:
            dockerd.stop()


@pytest.fixture
def own_dockerd() -> Iterator[Dockerd]:
    """A daemon of the test's own, with our images, to be killed."""
    skip_or_fail_without_docker()
    with tempfile.TemporaryDirectory(prefix="od-") as folder:
        dockerd = Dockerd(Path(folder) / "d")
        dockerd.start()
        try:
            dockerd.make_images()
            yield dockerd
        finally:
            dockerd.stop()


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The runner's file for this machine."""
    return str(runner_binary(platform.machine(), tmp_path_factory.mktemp("runner")))


@pytest.fixture
async def site(tmp_path: Path, docker_host: str, runner: str) -> AsyncIterator[Site]:
    """A state folder and a workspace at the daemon that all tests share."""
    async with Site(tmp_path, host=docker_host, runner=runner) as made:
        yield made
