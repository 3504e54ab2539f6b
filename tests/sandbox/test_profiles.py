"""What each profile promises, tried from inside by a real program: with the real keeper, and as an ordinary
user.
"""

import asyncio
import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import outlive
from outlive.config import Settings
from outlive.core.command import Command, Profile
from outlive.engine import Engine
from outlive.engine.commands.resolver import Resolved
from outlive.engine.commands.sandbox import Sandboxes
from outlive.keeper.common.spawn import SHIM_VARIABLE
from outlive.keeper.sandbox.capabilities import Capabilities, ask_offers
from outlive.keeper.sandbox.steps import Machine, SandboxPlace, bounds_of
from tests.engine.engines import ME, an_engine, output_of
from tests.keeper.house import House, shim_program
from tests.support.run_mark import open_folder_of_run

_INSIDE = Path(__file__).with_name("inside.py")
_REPOSITORY = Path(__file__).parents[2]
_PYTHON = os.path.realpath(sys.executable)
_IS_ROOT = os.geteuid() == 0
_SETPRIV, _SYSTEM_PYTHON = shutil.which("setpriv"), "/usr/bin/python3"
_NOBODY = 65534

# What cannot be done from inside; everything else that is tried can.
_WORKSPACE = {
    "write_outside",
    "truncate_outside",
    "remove_outside",
    "read_state",
    "read_home",
    "abstract",
    "signal",
    "environ",
    "ptrace",
    "setuid",
    "block_device",
    "mount",
}
_REFUSED: dict[Profile, set[str]] = {
    Profile.GUARDED: {"setuid"},
    Profile.WORKSPACE: _WORKSPACE,
    Profile.OFFLINE: _WORKSPACE | {"tcp"},
    Profile.SEALED: _WORKSPACE | {"tcp"},
}
_TRIED = (
    "write_here", "write_temporary", "write_outside", "truncate_outside", "remove_outside", "read_outside", "read_state",  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "read_home", "tcp", "udp", "abstract", "signal", "environ", "ptrace", "null", "stdout",
)  # fmt: skip
_PRIVILEGED = ("block_device", "mount")


@pytest.fixture(scope="module")
def offers() -> Capabilities:
    """What this machine offers."""
    return ask_offers("/", program=shim_program())


@dataclass
class Outside:
    """What a sandboxed command must not reach: files, sockets, a process; and what it told them."""

    folder: Path
    home: Path
    state_file: Path
    victim: subprocess.Popen[bytes]
    tcp: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    udp: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    abstract: socket.socket = field(default_factory=lambda: socket.socket(socket.AF_UNIX))
    setuid: str = ""

    def __post_init__(self) -> None:
        """Listen."""
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setblocking(False)
        self.name = f"outlive-test-{os.getpid()}-{self.udp.getsockname()[1]}"
        self.abstract.bind("\0" + self.name)
        self.abstract.listen()

    def told(self, attempts: tuple[str, ...]) -> str:
        """Return what `inside` is given."""
        return json.dumps(
            {
                "attempts": attempts,
                "outside": str(self.folder),
                "home_file": str(self.home / "private"),
                "state_file": str(self.state_file),
                "tcp": self.tcp.getsockname()[1],
                "udp": self.udp.getsockname()[1],
                "abstract": self.name,
                "victim": self.victim.pid,
                "setuid": self.setuid,
            }
        )

    def datagrams(self) -> list[bytes]:
        """Return what arrived over UDP."""
        found = []
        while True:
            try:
                found.append(self.udp.recv(100))
            except BlockingIOError:
                return found

    def close(self) -> None:
        """End the victim, close the sockets."""
        self.victim.kill()
        self.victim.wait()
        for each in (self.tcp, self.udp, self.abstract):
            each.close()


def _outside(folder: Path, *, user: int | None = None) -> Outside:
    for name in ("outside", "home", "workspace"):
        (folder / name).mkdir()
    (folder / "outside" / "kept").write_text("kept")
    (folder / "home" / "private").write_text("private")
    (folder / "state").mkdir()
    (folder / "state" / "file").write_text("state")
    victim = subprocess.Popen(["/bin/sleep", "300"], user=user)
    return Outside(folder / "outside", folder / "home", folder / "state" / "file", victim)


@pytest.fixture
def outside(tmp_path: Path, shared_house: House) -> Iterator[Outside]:
    """What is outside for the engine's commands."""
    found = _outside(tmp_path)
    found.state_file = shared_house.state_dir / "live"
    yield found
    found.close()


@pytest.fixture
async def sandboxed(shared_house: House, outside: Outside) -> AsyncIterator[Engine]:
    """An engine whose commands have a home of the test's, and may read the interpreter and this
    repository.
    """
    readable = (str(_REPOSITORY), sys.prefix, sys.base_prefix)
    async with an_engine(
        shared_house.state_dir,
        environment={**os.environ, "HOME": str(outside.home)},
        options=Settings(sandbox_read=readable),
    ) as engine:
        yield engine


def _require(offers: Capabilities, profile: Profile) -> None:
    if offers.obstacles[profile]:
        pytest.skip(f"{profile.value} cannot be had here: {offers.obstacles[profile]}")


def _check(profile: Profile, found: dict[str, str], outside: Outside, machine: Machine) -> None:
    expected = _REFUSED[profile] & set(found)
    if profile in {Profile.WORKSPACE, Profile.OFFLINE} and machine.landlock < 6:
        expected -= {"signal"} | ({"abstract"} if profile is Profile.WORKSPACE else set())
    assert {name for name, result in found.items() if result != "ok"} == expected
    if profile.strength >= Profile.WORKSPACE.strength:
        assert (outside.folder / "kept").read_text() == "kept"
        assert os.listdir(outside.folder) == ["kept"]
    reached = outside.datagrams()
    assert reached == ([] if profile.strength >= Profile.OFFLINE.strength else [b"from inside"])


@pytest.mark.promise("S0.3.profile")
@pytest.mark.parametrize("profile", list(_REFUSED))
async def test_a_profile_keeps_its_promises(
    sandboxed: Engine, outside: Outside, offers: Capabilities, tmp_path: Path, profile: Profile
) -> None:
    _require(offers, profile)
    attempts: tuple[str, ...] = _TRIED if profile is Profile.GUARDED else (*_TRIED, *_PRIVILEGED)
    if profile is Profile.GUARDED and not _IS_ROOT:
        attempts = tuple(one for one in attempts if one != "ptrace")  # as the machine's administrator says
    words = (_PYTHON, "-I", "-S", str(_INSIDE), outside.told(attempts))
    command = Command(argv=words, profile=profile.value, cwd=str(tmp_path / "workspace"), stdio="merge")
    process = await sandboxed.starts.start(command, owner=ME)
    out, _ = await output_of(process)
    assert process.record.exit_code == 0, out
    assert process.record.sandbox.profile is profile
    assert process.record.sandbox.features
    found = json.loads(out.splitlines()[-1])
    assert (tmp_path / "workspace" / "made-inside").exists()
    _check(profile, found, outside, offers.machine)


@pytest.fixture
def file_in_tmp(tmp_path: Path) -> Iterator[Path]:
    """A file of others, directly in the folder that all share."""
    file = Path(f"/tmp/other-{os.getpid()}-{tmp_path.name}")
    file.touch()
    yield file
    file.unlink()


def _found(name: str) -> list[str]:
    return [folder for folder in ("/tmp", "/var/tmp", "/dev/shm") if os.path.exists(f"{folder}/{name}")]


async def test_a_sealed_command_has_temporary_folders_of_its_own(
    sandboxed: Engine, offers: Capabilities, tmp_path: Path, file_in_tmp: Path
) -> None:
    """Also where the state folder lies below one, as it does in tests."""
    _require(offers, Profile.SEALED)
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    line = f"touch /tmp/{mark} /var/tmp/{mark} /dev/shm/{mark} && ls -A /tmp /var/tmp"
    process = await sandboxed.starts.start(
        Command(line=line, profile="sealed", cwd=str(tmp_path / "workspace"), stdio="merge"), owner=ME
    )
    out, _ = await output_of(process)
    assert process.record.exit_code == 0, out
    assert "own_tmp" in process.record.sandbox.features
    assert out.decode().split().count(mark) == 2
    assert file_in_tmp.name not in out.decode().split()
    assert not _found(mark)


@pytest.mark.parametrize(
    ("hidden", "writable", "is_own"),
    [
        (("/tmp", "/var/tmp"), ("/w", "/tmp/w"), True),
        (("/tmp", "/var"), ("/w",), True),
        (("/var/tmp",), ("/w",), False),
        (("/tmp", "/var/tmp"), ("/w", "/tmp"), False),
        (("/tmp", "/var/tmp"), ("/w", "/dev/shm"), False),
        (("/tmp", "/var/tmp"), ("/w", "/var"), False),
    ],
)
def test_own_temporary_folders_are_claimed_where_all_of_them_are_own(
    hidden: tuple[str, ...], writable: tuple[str, ...], is_own: bool
) -> None:
    bounds = bounds_of(Profile.SEALED, Machine(), SandboxPlace(hidden=hidden, writable=writable))
    assert bounds is not None
    assert ("own_tmp" in bounds.features) is is_own


@pytest.fixture
def for_nobody() -> Iterator[Path]:
    """A folder that nobody may enter, with our source in it."""
    folder = open_folder_of_run()
    source = Path(outlive.__file__).parent
    for name in ("core", "keeper", "kernel", "protocols"):
        shutil.copytree(
            source / name, folder / "src" / "outlive" / name, ignore=shutil.ignore_patterns("*.pyc")
        )
    shutil.copy(source / "__init__.py", folder / "src" / "outlive")
    for name in ("inside.py", "starting.py"):
        shutil.copy(_INSIDE.with_name(name), folder)
    shutil.copy(shim_program(), folder / "program")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.root("only root can become another user")
@pytest.mark.parametrize("profile", list(_REFUSED))
def test_a_profile_keeps_its_promises_for_an_ordinary_user(for_nobody: Path, profile: Profile) -> None:
    outside = _outside(for_nobody, user=_NOBODY)
    try:
        for path in (outside.folder, outside.home, for_nobody / "workspace", for_nobody / "state"):
            for each in (path, *path.iterdir()):
                os.chown(each, _NOBODY, _NOBODY)
        outside.setuid = str(for_nobody / "id")
        shutil.copy(shutil.which("id") or "/usr/bin/id", outside.setuid)
        os.chmod(outside.setuid, stat.S_IRWXU | stat.S_IXOTH | stat.S_ISUID)
        found = _as_nobody(for_nobody, "offers")
        machine = Machine(**found["machine"])
        if obstacle := found["obstacles"][profile.value]:
            pytest.skip(f"{profile.value} cannot be had here by an ordinary user: {obstacle}")
        steps = asyncio.run(_steps(profile, machine, for_nobody, outside))
        attempts = tuple(one for one in (*_TRIED, *_PRIVILEGED, "setuid") if one != "environ")
        if profile is Profile.GUARDED:
            attempts = tuple(one for one in attempts if one not in {"ptrace", *_PRIVILEGED})
        told = [_SYSTEM_PYTHON, "-I", "-S", str(for_nobody / "inside.py"), outside.told(attempts)]
        _check(profile, _as_nobody(for_nobody, "run", json.dumps([steps, told])), outside, machine)
    finally:
        outside.close()


@pytest.mark.thorough
@pytest.mark.root("only root can become another user")
@pytest.mark.promise("S0.3.profile")
@pytest.mark.parametrize("profile", [Profile.WORKSPACE, Profile.OFFLINE, Profile.SEALED])
def test_folders_of_path_that_the_user_cannot_reach_do_no_harm(for_nobody: Path, profile: Profile) -> None:
    (for_nobody / "workspace").mkdir(mode=0o755)
    (for_nobody / "closed" / "bin").mkdir(parents=True)
    (for_nobody / "closed").chmod(0o700)  # root's, as its own `bin` is
    found = _as_nobody(for_nobody, "offers")
    if obstacle := found["obstacles"][profile.value]:
        pytest.skip(f"{profile.value} cannot be had here by an ordinary user: {obstacle}")
    sandboxes = Sandboxes(
        Settings(),
        state_dir=str(for_nobody / "state"),
        environment={"HOME": f"{for_nobody}/closed", "PATH": f"{for_nobody}/closed/bin:/usr/bin:/bin"},
    )
    sandboxes.assume(Capabilities(machine=Machine(**found["machine"]), obstacles=dict.fromkeys(Profile, "")))
    making = sandboxes.confine(
        Resolved(program="", argv=(), env={}, cwd=str(for_nobody / "workspace"), shell=None),
        Command(line="x"),
        profile,
        name="x",
        script=None,
    )
    steps = asyncio.run(making).steps or ()
    assert f"{for_nobody}/closed/bin" in " ".join(steps), "as its server's PATH has it"
    assert _as_nobody(for_nobody, "run", json.dumps([steps, ["/bin/echo", "1"]])) == 1


async def _steps(profile: Profile, machine: Machine, folder: Path, outside: Outside) -> list[str]:
    sandboxes = Sandboxes(
        Settings(sandbox_read=(str(folder / "inside.py"),)),
        state_dir=str(outside.state_file.parent),
        environment={"HOME": str(outside.home)},
    )
    sandboxes.assume(Capabilities(machine=machine, obstacles=dict.fromkeys(Profile, "")))
    confined = await sandboxes.confine(
        Resolved(program="", argv=(), env={}, cwd=str(folder / "workspace"), shell=None),
        Command(line="x"),
        profile,
        name="x",
        script=None,
    )
    return list(confined.steps or ())


def _as_nobody(folder: Path, *words: str) -> Any:  # noqa: ANN401 - JSON
    ran = subprocess.run(
        [
            *(_SETPRIV or "", "--reuid", str(_NOBODY), "--regid", str(_NOBODY), "--clear-groups"),
            *(_SYSTEM_PYTHON, "-S", "-s", "-P", str(folder / "starting.py"), *words),
        ],
        cwd=folder / "workspace",
        env={**os.environ, SHIM_VARIABLE: str(folder / "program")},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return json.loads(ran.stdout.splitlines()[-1])
