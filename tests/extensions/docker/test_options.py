"""Settings of Docker mode: where commands run, what containers are made of, and what a project may change."""

import pytest

from outlive.config import ConfigFile, Settings, resolve
from outlive.core.errors import ConfigInvalid
from outlive.extensions.docker.options import DockerOptions

_HOME = {"HOME": "/nonexistent"}


def _settings(flags: dict[str, str] | None = None, **environ: str) -> Settings:
    return resolve(flags or {}, _HOME | environ, working_folder="/").settings


def test_commands_run_here_and_containers_are_bounded_unless_it_is_said() -> None:
    settings = _settings()
    assert settings.backend == "local"
    docker = settings.of(DockerOptions)
    assert (docker.docker_network, docker.docker_isolation, docker.docker_pull) == (
        "none",
        "session",
        False,
    )
    assert (docker.docker_memory_bytes, docker.docker_processes, docker.docker_cpus) == (
        2 << 30,
        512,
        None,
    )
    assert docker.docker_idle_s == 1800


@pytest.mark.promise("S4.9.docker")
@pytest.mark.parametrize(
    ("environ", "backend"),
    [
        ({"USE_DOCKER": "True"}, "docker"),
        ({"USE_DOCKER": "1"}, "docker"),
        ({"USE_DOCKER": "false"}, "local"),
        ({"USE_DOCKER": ""}, "local"),
        ({"OUTLIVE_BACKEND": "Docker"}, "docker"),
        ({"OUTLIVE_BACKEND": "local", "USE_DOCKER": "True"}, "local"),
        ({"OUTLIVE_BACKEND": "build-7"}, "build-7"),
    ],
)
def test_use_docker_is_read_from_the_environment(environ: dict[str, str], backend: str) -> None:
    assert _settings(None, **environ).backend == backend


def test_everything_can_be_said() -> None:
    docker = _settings(
        {
            "docker_mounts": "/a:/b, /c:/d:ro",
            "docker_user": "1000:100",
            "docker_memory_bytes": "off",
            "docker_network": "lan",
            "docker_isolation": "Strict",
        },
        OUTLIVE_DOCKER_IMAGE="debian:12",
    ).of(DockerOptions)
    assert docker.docker_mounts == ("/a:/b", "/c:/d:ro")
    assert (docker.docker_user, docker.docker_network) == ("1000:100", "lan")
    assert (docker.docker_memory_bytes, docker.docker_isolation) == (None, "strict")
    assert docker.docker_image == "debian:12"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("backend", "a/b"),
        ("docker_mounts", "/a"),
        ("docker_mounts", "a:/b"),
        ("docker_mounts", "/a:/b:rx"),
        ("docker_network", "host"),
        ("docker_network", "container:x"),
        ("docker_user", "root"),
        ("docker_isolation", "some"),
        ("docker_idle_s", "0"),
    ],
)
def test_what_cannot_be_used_is_said(name: str, text: str) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be used"):
        _settings({name: text})


def _with_project(text: str) -> Settings:
    files = [
        ConfigFile("user", "/etc/u.toml", 'backend = "docker"\nimage = "debian"\ndocker_pull = true\n'),
        ConfigFile("project", "/p/.outlive.toml", text + "\n"),
    ]
    return resolve({}, _HOME, working_folder="/", files=files).settings


def test_a_project_takes_less_and_shares_less() -> None:
    docker = _with_project(
        'docker_memory = "1G"\ndocker_cpus = 1\ndocker_isolation = "strict"\ndocker_pull = false\n'
        'docker_idle = "1m"'
    ).of(DockerOptions)
    assert (docker.docker_memory_bytes, docker.docker_cpus, docker.docker_idle_s) == (
        1 << 30,
        1.0,
        60.0,
    )
    assert (docker.docker_isolation, docker.docker_pull) == ("strict", False)


@pytest.mark.parametrize(
    "text",
    [
        'docker_memory = "4G"',
        'docker_memory = "off"',
        "docker_processes = 1000",
        'image = "other"',
        'backend = "local"',
        'docker_mounts = ["/:/host"]',
        'docker_network = "lan"',
        'docker_user = "0"',
        'docker_runtime = "runc"',
    ],
)
def test_a_project_that_wants_more_is_refused(text: str) -> None:
    with pytest.raises(ConfigInvalid):
        _with_project(text)
