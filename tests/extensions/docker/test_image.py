"""The container image: built from the wheel without a network, run by an account without rights, small, and
of two containers a server may die.
"""

import contextlib
import json
import os
import platform
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import yaml

import outlive
from scripts.wheels import build, compile_programs
from tests.house.sources import ROOT
from tests.support.dockerd import Dockerd
from tests.support.processes import poll_until

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900)]

_IMAGE = f"outlive:{outlive.__version__}"
_MOST_BYTES = 120_000_000  # what a release promises of `docker save | gzip`
_COMPOSE = ROOT / "scripts" / "image" / "compose.yaml"
_Docker = Callable[..., str]


@pytest.fixture
def docker(own_dockerd: Dockerd) -> _Docker:
    """Calls the docker command at a daemon of the test's own."""

    def call(*words: str | Path) -> str:
        env = {**os.environ, "DOCKER_HOST": own_dockerd.host}
        done = subprocess.run(
            ["docker", *words], env=env, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, f"docker {words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    return call


@pytest.fixture
def archive_bytes(own_dockerd: Dockerd, tmp_path: Path) -> int:
    """The size of the file that a release has; the daemon has the image, too."""
    own_dockerd.make_python_image()
    programs, wheels = tmp_path / "programs", tmp_path / "wheels"
    for folder in (programs, wheels):
        folder.mkdir()
    compile_programs(programs, zig=None)
    build(wheels, programs=programs)
    (wheel,) = wheels.glob(f"*_{platform.machine()}.whl")
    env = {**os.environ, "DOCKER_HOST": own_dockerd.host, "OUTLIVE_IMAGE_NETWORK": "none"}
    words: list[str | Path] = [ROOT / "scripts" / "image.sh", wheel, tmp_path / "made", "outlive-test-python"]
    made = subprocess.run(words, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip()).stat().st_size


async def test_the_image_runs_commands_of_an_account_without_rights_and_a_server_may_be_killed(
    archive_bytes: int, docker: _Docker
) -> None:
    """As `compose.yaml` has it: a container for the keeper, and one for the server in its PID namespace."""
    assert archive_bytes <= _MOST_BYTES
    assert docker("inspect", "-f", "{{.Config.User}}", _IMAGE) == "10001"
    assert docker("inspect", "-f", "{{json .Config.Volumes}}", _IMAGE) == '{"/var/lib/outlive":{}}'
    async with _containers(docker):
        ran = docker("exec", "keeper", "outlive", "run", "--", "sh", "-c", "id -u; echo works")
        assert ran == "10001\nworks"
        counting = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.3; done"
        process_id = docker("exec", "keeper", "outlive", "run", "-d", "-c", counting)
        docker("kill", "server")
        docker("start", "server")
        assert docker("exec", "keeper", "outlive", "logs", "-f", process_id).split() == [*"12345678"]
        checks = json.loads(docker("exec", "server", "outlive", "doctor", "--json"))["checks"]
        assert next(check["ok"] for check in checks if check["name"] == "program")


@contextlib.asynccontextmanager
async def _containers(docker: _Docker) -> AsyncIterator[None]:
    """Keeper and server from the compose file's own words, healthy; removed at the end."""
    names = []
    try:
        for name, service in yaml.safe_load(_COMPOSE.read_text())["services"].items():
            names.append(name)
            docker(
                "run", "-d", "--network=none", f"--name={name}", *_flags(service), _IMAGE, *service["command"]
            )
        state = "{{.State.Health.Status}}"
        await poll_until(lambda: docker("inspect", "-f", state, "server") == "healthy", patience_s=60)
        yield
    finally:
        docker("rm", "-f", "-v", *reversed(names))


def _flags(service: dict[str, object]) -> Iterator[str]:
    """Yield what `docker run` calls what stands in the compose file.

    A key that is new there needs a line here.
    """
    for key, value in service.items():
        match key, value:
            case "init", True:
                yield "--init"
            case "pid", str():
                yield f"--pid={value.replace('service:', 'container:')}"
            case "environment", dict():
                yield from (f"--env={name}={text}" for name, text in value.items())
            case "cap_drop", list():
                yield from (f"--cap-drop={name}" for name in value)
            case "security_opt", list():
                yield from (f"--security-opt={text}" for text in value)
            case "volumes", list():
                yield from (f"--volume={text}" for text in value)
            case "stop_grace_period", str():
                yield f"--stop-timeout={value.removesuffix('s')}"
            case "restart", str():
                yield f"--restart={value}"
            case "healthcheck", dict():
                yield f"--health-cmd={' '.join(value['test'][1:])}"
                yield f"--health-interval={value['interval']}"
            case (("image" | "command" | "depends_on"), _):
                pass
            case _:
                raise AssertionError(f"the compose file has {key}, which this test does not know")
