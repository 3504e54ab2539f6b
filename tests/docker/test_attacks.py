"""What a command inside, as root there, tries against the host and against the commands after it.

Each attack is one command of a real server; what it must not have done is looked at from outside, and the next command runs.
"""

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import aiodocker
import pytest

from outlive.backends.docker import folders
from outlive.client import Client, OutliveError, Process
from outlive.core.layout import Layout
from outlive.keeper.common.sockets import connect_own
from tests.docker.streams import output_of, until
from tests.docker.tools import PYTHON, containers_left, remove_containers, serve_words
from tests.support.processes import is_alive
from tests.support.server import OutliveServer

pytestmark = pytest.mark.docker

_PATIENCE_S = 60.0
_HOST_BYTES = 4 << 20
# Tries every mount that is no file system in memory: prints those that can be written to.
_WRITERS = r"""
import os
for line in open("/proc/self/mountinfo"):
    fields = line.split()
    place, kind = fields[4], fields[fields.index("-") + 1]
    if kind in {"tmpfs", "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue"} or place == os.getcwd():
        continue
    try:
        with open(place + "/attack" if os.path.isdir(place) else place, "r+b" if os.path.isfile(place) else "wb"):
            print(place, kind)
    except OSError:
        pass
"""
# Whoever asks for the runner is to be led to a socket of the host.
_REDIRECT = "cd /run/outlive && for name in $(ls -A; echo runner.sock; echo hand.sock); do rm -rf $name; ln -s {victim} $name; done"


class _House:
    """A server whose commands run in containers, where they have this machine's tools."""

    def __init__(self, server: OutliveServer, client: Client, workspace: Path, host: str) -> None:
        self.state_dir = server.state_dir
        self.client = client
        self.workspace = workspace
        self.host = host

    def start(self, line: str, **options: object) -> Process:
        """Start a command line."""
        return self.client.start(line, cwd=str(self.workspace), **options)  # type: ignore[arg-type] # any of StartOptions

    def python(self, source: str) -> bytes:
        """Run a program inside, and return what it printed."""
        process = self.client.start([PYTHON, "-I", "-S", "-c", source], cwd=str(self.workspace))
        out, err = output_of(process)
        assert err == b"", err
        return out

    def containers(self) -> list[str]:
        """Return the names that the daemon knows."""
        return containers_left(self.host, self.state_dir)

    def check(self) -> None:
        """Run the next command."""
        assert output_of(self.start("echo fine; id -u")) == (b"fine\n0\n", b"")


@pytest.fixture(params=["sockets", pytest.param("stream", marks=pytest.mark.thorough)])
def house(tmp_path: Path, docker_host: str, request: pytest.FixtureRequest) -> Iterator[_House]:
    """A server of each transport; its containers go with the test."""
    work = tmp_path / "w"
    work.mkdir()
    words = (*serve_words(work), "--docker-transport", request.param, "--docker-user", "0:0")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            OutliveServer(tmp_path / "s", args=words, env={"DOCKER_HOST": docker_host})
        )
        stack.callback(_remove, docker_host, tmp_path / "s")
        client = stack.enter_context(Client(server.state_dir, start_server=False))
        yield _House(server, client, work, docker_host)


def _remove(host: str, state_dir: Path) -> None:
    """Remove all containers; what stands for them on this machine leaves, too."""
    standing = [int(path.read_text()) for path in state_dir.glob("containers/*/init")]
    remove_containers(host, state_dir)
    until(lambda: not any(is_alive(pid) for pid in standing))


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket of the host that nobody inside can reach."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as listener:
        folder = os.open(tmp_path, os.O_PATH)
        listener.bind(f"/proc/self/fd/{folder}/victim")
        os.close(folder)
        listener.listen(100)
        yield listener


@pytest.mark.promise("A.keeper")
def test_a_process_outside_is_served_by_no_socket_of_a_container(house: _House) -> None:
    """It has our uid, and no lock: it is asked for proof, and told nothing."""
    process = house.start("read line; echo got $line", stdin="pipe")
    until(lambda: list(house.state_dir.glob("processes/*/pid")))
    paths = [*house.state_dir.glob("processes/*/sock"), *house.state_dir.glob("containers/*/runner.sock")]
    paths += [path for path in house.state_dir.glob("containers/*/run/runner.sock") if not path.is_symlink()]
    assert len(paths) == 2
    for path in paths:
        with connect_own(str(path)) as link:
            link.settimeout(_PATIENCE_S)
            assert link.recv(100).startswith(b"prove ")
            link.send(b"proved")
            assert link.recv(100) == b""
    process.write(b"served\n")
    assert output_of(process) == (b"got served\n", b"")
    house.check()


def _bytes_below(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


def test_nothing_but_the_workspace_and_memory_takes_a_file(house: _House) -> None:
    """A folder of the host that takes one takes gigabytes, past every limit."""
    before = _bytes_below(house.state_dir / "containers") if (house.state_dir / "containers").exists() else 0
    assert house.python(_WRITERS) == b""
    line = "dd if=/dev/zero of=/run/outlive/big bs=1M count=64; for n in $(seq 500); do mkdir /run/outlive/$n; done"
    out, _ = output_of(house.start(line + "; ls -A /run/outlive | wc -l; exit 0"))
    assert out.strip() == b"0"
    assert _bytes_below(house.state_dir / "containers") < before + _HOST_BYTES
    house.check()


def test_no_link_leads_the_server_to_a_socket_of_the_host(house: _House, victim: socket.socket) -> None:
    """Nor a keeper: the next commands run, and nobody has asked at the other socket."""
    house.check()
    house.start(_REDIRECT.format(victim=victim.getsockname())).wait(_PATIENCE_S)
    with Client(house.state_dir, start_server=False) as client:
        for _ in range(3):
            assert client.start("exit 3", cwd=str(house.workspace)).wait(_PATIENCE_S).exit_code == 3
    with pytest.raises(BlockingIOError):
        victim.accept()
    house.check()


@pytest.mark.parametrize(
    "attack",
    [
        "rm -rf /run/outlive/* /run/outlive /run/outlive-runner /run/outlive-bin/*; mv /run/outlive /run/x; true",
        "kill -KILL 1; kill -STOP 1; kill -TERM 1; kill -INT 1; kill -HUP 1; true",
        "mount -t tmpfs none /run/outlive; umount /run/outlive; mount --bind /tmp /run/outlive; true",
    ],
    ids=["removed", "killed", "mounted over"],
)
def test_commands_that_live_there_and_those_after_it_go_on(house: _House, attack: str) -> None:
    """Whatever one command does to the runner."""
    living = house.start("cat", stdin="pipe")
    house.start(attack).wait(_PATIENCE_S)
    house.check()
    assert house.start(attack).wait(_PATIENCE_S).is_complete
    house.check()
    living.write(b"still here")
    living.close_stdin()
    assert output_of(living)[0] == b"still here"
    assert len(house.containers()) == 1


@pytest.mark.parametrize("house", ["sockets"], indirect=True)
@pytest.mark.parametrize("is_in_use", [False, True])
def test_a_runner_that_was_made_unable_to_serve_is_replaced(house: _House, *, is_in_use: bool) -> None:
    """Without descriptors it accepts nobody; what lives beside it is not killed for that, and the way out is bounded."""
    living = house.start("cat", stdin="pipe") if is_in_use else None
    assert house.start("prlimit --pid 1 --nofile=0:0").wait(_PATIENCE_S).exit_code == 0
    until(lambda: _runs(house), patience_s=_PATIENCE_S)
    assert len(house.containers()) == 1 + is_in_use
    if living is not None:
        living.write(b"still here")
        living.close_stdin()
        assert output_of(living)[0] == b"still here"
        assert living.wait(_PATIENCE_S).exit_code == 0


def _runs(house: _House) -> bool:
    try:
        return house.start("exit 5").wait(_PATIENCE_S).exit_code == 5
    except OutliveError:
        return False


@pytest.mark.parametrize("house", ["sockets"], indirect=True)
def test_nobody_inside_is_handed_the_runners_socket(house: _House) -> None:
    """Not even while the server hands over: here somebody else listens in its place, as it would."""
    name = os.listdir(house.state_dir / "containers") if (house.state_dir / "containers").exists() else []
    assert name == []
    house.check()
    [name_] = os.listdir(house.state_dir / "containers")
    assert house.python("import os; print(os.listdir('/run/outlive'))") == b"[]\n"
    assert sorted(os.listdir(house.state_dir / "containers" / name_ / "hand")) == []


def test_a_strict_start_that_is_refused_leaves_nothing(house: _House) -> None:
    """A working folder or a program that is not there is found out inside: the container goes at once."""
    house.start("true").wait(_PATIENCE_S)
    before = set(house.containers())
    for line, cwd in (("true", "/nonexistent"), ("true", "/etc/passwd")):
        with pytest.raises(OutliveError):
            house.client.start(line, cwd=cwd, isolation="strict")
    with pytest.raises(OutliveError):
        house.client.start(["no-such-program"], cwd=str(house.workspace), isolation="strict")
    # Well before a container of its own that nobody uses goes by itself.
    until(lambda: set(house.containers()) == before, patience_s=20)
    until(lambda: len(os.listdir(house.state_dir / "containers")) == 1, patience_s=20)


@pytest.mark.parametrize("house", ["sockets"], indirect=True)
def test_a_container_of_an_older_release_gets_no_more_commands(house: _House) -> None:
    """One whose runner listens in a folder of the host (before decision 137), made here as it was then."""
    house.check()
    label = folders.label_of(Layout(str(house.state_dir)))
    old = asyncio.run(_make_old(house, label))
    house.check()
    assert house.start("echo attack > /run/outlive/file").wait(_PATIENCE_S).exit_code != 0
    assert asyncio.run(_ids(house, label)) - {old} != set()
    assert old not in asyncio.run(_ids(house, label)), "nothing lived there"


async def _ids(house: _House, label: str) -> set[str]:
    async with aiodocker.Docker(url=house.host) as docker:
        return {one.id for one in await docker.containers.list(filters={"label": [f"outlive.state={label}"]})}


async def _make_old(house: _House, label: str) -> str:
    """Put a container as it was made before in the place of the one there is; return its id."""
    async with aiodocker.Docker(url=house.host) as docker:
        [found] = await docker.containers.list(all=True, filters={"label": [f"outlive.state={label}"]})
        made = await found.show()
        await found.delete(force=True)
        folder = await asyncio.to_thread(_prepare_old, house)
        config = made["Config"]
        body = {key: config[key] for key in ("Image", "Hostname", "User", "Entrypoint", "Env", "Labels")}
        body |= {"Cmd": ["serve", "/run/outlive/runner.sock"], "HostConfig": made["HostConfig"]}
        for mount in body["HostConfig"]["Mounts"]:
            if mount["Target"] == "/run/outlive":
                mount |= {"Source": str(folder / "run"), "ReadOnly": False}
        old = await docker.containers.create(body, name=made["Name"].lstrip("/"))
        await old.start()
        pid = (await old.show())["State"]["Pid"]
        await asyncio.to_thread(_await_old, folder, pid)
        return str(old.id)


def _prepare_old(house: _House) -> Path:
    [name] = os.listdir(house.state_dir / "containers")
    folder = house.state_dir / "containers" / name
    shutil.rmtree(folder / "run")
    (folder / "run").mkdir()
    return folder


def _await_old(folder: Path, pid: int) -> None:
    until((folder / "run" / "runner.sock").exists)
    (folder / "init").write_text(f"{pid}\n")
