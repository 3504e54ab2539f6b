"""Containers that no socket of this machine reaches are refused with a sentence that names the way out: a
node.
"""

from pathlib import Path

import pytest

from outlive.client import Client
from outlive.core.errors import OutliveError, StartFailed
from outlive.extensions.docker import folders
from outlive.extensions.docker.api import DockerApi, DockerSettings
from tests.extensions.docker.runners import compile_runner
from tests.extensions.docker.site import Site
from tests.support.server import OutliveServer, run_outlive

_HOSTS = ("tcp://127.0.0.1:1", "https://127.0.0.1:1", "ssh://user@build.example", "docker.sock")
_FAR = {"DOCKER_HOST": _HOSTS[0]}


def _assert_names_a_node(error: OutliveError, sentence: str) -> None:
    assert error.code == "docker_unavailable"
    assert sentence in error.message
    for words in ("outlive node add NAME URL", "outlive node invite NAME", "outlive node join"):
        assert words in error.hint


@pytest.mark.parametrize("host", _HOSTS)
async def test_only_a_unix_socket_is_dialled(host: str) -> None:
    with pytest.raises(StartFailed) as caught:
        async with DockerApi(DockerSettings(host=host)):
            pass
    _assert_names_a_node(caught.value, f"DOCKER_HOST={host!r} cannot be used")


def test_a_server_whose_commands_would_run_there_does_not_start(tmp_path: Path) -> None:
    words = ("serve", "--backend", "docker", "--image", "debian:12")
    done = run_outlive(*words, state_dir=tmp_path / "state", env=_FAR)
    assert done.returncode == 1
    assert "cannot be used: commands in containers are reached by Unix sockets of this machine" in done.stderr
    assert "outlive node add NAME URL" in done.stderr


def test_a_server_with_another_backend_refuses_the_command_alone(tmp_path: Path) -> None:
    words = ("--image", "debian:12")
    with (
        OutliveServer(tmp_path / "state", args=words, env=_FAR) as server,
        Client(server.state_dir, start_server=False) as client,
    ):
        with pytest.raises(OutliveError) as caught:
            client.start("true", cwd=str(tmp_path), backend="docker")
        _assert_names_a_node(caught.value, "commands in containers are reached by Unix sockets")
        assert client.start("exit 3", cwd=str(tmp_path)).wait(20).exit_code == 3


@pytest.mark.docker
async def test_a_daemon_that_does_not_see_our_files_is_elsewhere(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forwarded socket, a virtual machine: the first mount is not there."""
    monkeypatch.setattr(folders, "prepare_hand", lambda *_: None)
    with pytest.raises(OutliveError) as caught:
        await site.ready()
    _assert_names_a_node(caught.value, "on another machine, or in a virtual one (Docker Desktop)")
    assert await site.all() == []


@pytest.mark.docker
async def test_a_daemon_whose_processes_are_not_ours_is_elsewhere(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(*_: object, **__: object) -> None:
        raise ProcessLookupError

    monkeypatch.setattr("outlive.extensions.docker.runner.RunnerHandle", hidden)
    with pytest.raises(OutliveError) as caught:
        await site.ready()
    _assert_names_a_node(caught.value, "on another machine, or in a virtual one (Docker Desktop)")
    assert await site.all() == []


@pytest.mark.docker
@pytest.mark.parametrize(
    ("runtime", "hint"),
    [("", "Run an outlive server beside that daemon"), ("runc", "Take another --docker-runtime")],
)
async def test_a_runtime_that_keeps_sockets_out_is_said(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: str, hint: str
) -> None:
    """As gVisor does: the container runs, and its runner reaches no socket of ours."""
    monkeypatch.setattr("outlive.extensions.docker.runner._LISTENS_S", 0.3)
    silent = compile_runner(tmp_path / "silent", "#include <unistd.h>\nint main(void) { for (;;) pause(); }")
    made = site.containers(runner=silent)
    name = await made.remember(site.plan(runtime=runtime))
    with pytest.raises(OutliveError) as caught:
        await made.ready(name)
    _assert_names_a_node(
        caught.value, "runs, but no socket of this machine reaches it, as is usual in gVisor"
    )
    assert caught.value.hint.startswith(hint)
    assert await site.all() == []
