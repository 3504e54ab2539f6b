"""Fixtures of the faults: the containers' runner, and a Docker daemon of a test's own."""

from tests.extensions.docker.conftest import own_dockerd
from tests.runner.conftest import binary
