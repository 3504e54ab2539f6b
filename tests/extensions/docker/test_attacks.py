"""What a command inside, as root there, tries against the host and against the commands after it.

Each attack is one command of a real server; what it must not have done is looked at from outside, and the
next command runs.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import outlive
from outlive.client import Client, OutliveError, Process
from outlive.kernel.sockets import connect_own
from tests.extensions.docker.server_house import output_of, until
from tests.extensions.docker.tools import PYTHON, containers_left, remove_containers, serve_words
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
"""  # noqa: E501 -- lines of a table, or of another language
# Whoever asks for the runner is to be led to a socket of the host.
_REDIRECT = (
    "cd /run/outlive && for name in $(ls -A; echo runner.sock; echo hand.sock); do rm -rf $name; ln "
    "-s {victim} $name; done"
)


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


@pytest.fixture
def house(tmp_path: Path, docker_host: str) -> Iterator[_House]:
    """A server in Docker mode; its containers go with the test."""
    work = tmp_path / "w"
    work.mkdir()
    words = (*serve_words(work), "--docker-user", "0:0")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            OutliveServer(tmp_path / "s", args=words, env={"DOCKER_HOST": docker_host})
        )
        stack.callback(remove_containers, docker_host, tmp_path / "s")
        client = stack.enter_context(Client(server.state_dir, start_server=False))
        yield _House(server, client, work, docker_host)


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
    line = (
        "dd if=/dev/zero of=/run/outlive/big bs=1M count=64; for n in $(seq 500); do mkdir "
        "/run/outlive/$n; done"
    )
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
        "rm -rf /run/outlive/* /run/outlive /run/outlive-runner; mv /run/outlive /run/x; true",
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


@pytest.mark.parametrize("is_in_use", [False, True])
def test_a_runner_that_was_made_unable_to_serve_is_replaced(house: _House, *, is_in_use: bool) -> None:
    """Without descriptors it accepts nobody.

    What lives beside it is not killed for that, and the way out is bounded.
    """
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


# What a command tries in the folder that its container shows it; PACKAGE and VENV lie there.
_OVERWRITE = """
try() { if (eval "$1") 2>/dev/null; then echo "open: $1"; fi; }
try 'echo >> $PACKAGE/outlive/__init__.py'
try 'echo > $PACKAGE/sitecustomize.py'
try 'rm $PACKAGE/outlive/app.py'
try 'ln $PACKAGE/outlive/app.py hard'
try 'mv $PACKAGE moved'
try 'mv $(dirname $PACKAGE) moved'
try 'mv $VENV moved'
try 'mv $(dirname $VENV) moved'
try 'echo > $PACKAGE/evil.pth'
try 'echo >> $VENV/bin/outlive'
try 'ln -sfn /bin/sh $VENV/bin/python'
try 'echo >> $VENV/pyvenv.cfg'
try 'umount $VENV'
try 'mv .config moved'
try 'echo > .config/outlive/config.toml'
try 'cat $OTHER/identity'
try 'echo > $OTHER/made'
try 'mv $OTHER moved'
try 'mv $(dirname $OTHER) moved'
if [ -e another-name.py ]; then echo '# written by a command' >> another-name.py; fi
echo made > new-file && mv new-file newer-file && mkdir new-folder && rm -r newer-file new-folder || exit
echo "can write"
"""


@pytest.mark.promise("S0.3.profile")
def test_outlives_own_files_and_other_state_folders_in_the_workspace_are_kept(
    tmp_path: Path, docker_host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment that the server runs from, its settings, and another server's state folder."""
    project = tmp_path / "project"
    venv, other = project / "tools" / "env", project / "below" / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(outlive.__file__).parent, site / "outlive", ignore=ignored)
    (site / "others.pth").write_text("\n".join(path for path in sys.path if "site-packages" in path) + "\n")
    os.link(site / "outlive" / "app.py", project / "another-name.py")  # as uv does
    script = venv / "bin" / "outlive"
    script.write_text(f"#!{venv}/bin/python\nfrom outlive.cli.main import main\nmain()\n")
    script.chmod(0o755)
    other.parent.mkdir()
    env = {
        "DOCKER_HOST": docker_host,
        "XDG_CONFIG_HOME": f"{project}/.config",
        "HOME": str(project),
        "OUTLIVE_CONFIG": f"{project}/.config/outlive/config.toml",
    }
    (project / ".config" / "outlive").mkdir(parents=True)
    (project / ".config" / "outlive" / "config.toml").touch()
    with OutliveServer(other), contextlib.ExitStack() as stack:
        monkeypatch.setenv("OUTLIVE_TEST_COMMAND", str(script))
        server = stack.enter_context(
            OutliveServer(tmp_path / "s", args=(*serve_words(project), "--docker-user", "0:0"), env=env)
        )
        stack.callback(remove_containers, docker_host, tmp_path / "s")
        client = stack.enter_context(Client(server.state_dir, start_server=False))
        places = {"PACKAGE": site, "VENV": venv, "OTHER": other}
        said = output_of(
            client.start(_OVERWRITE, cwd=str(project), env={name: str(path) for name, path in places.items()})
        )
    assert said == (b"can write\n", b"")
    assert (site / "outlive" / "app.py").read_bytes() == Path(outlive.__file__).with_name(
        "app.py"
    ).read_bytes()
    assert (project / "another-name.py").read_text().endswith("# written by a command\n")
