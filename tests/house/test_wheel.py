"""The wheels, built and one of them installed with its lock into an empty environment, are the whole
product.
"""

import fcntl
import json
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable
from email.parser import BytesParser
from pathlib import Path
from urllib.request import urlopen

import pytest
from uv import find_uv_bin
from websockets.sync.client import connect

import outlive
from outlive.core.errors import StartFailed
from outlive.discovery.runner_build import MACHINES, runner_sources, shipped_name
from outlive.extensions.hosts.table import HOSTS
from scripts.wheels import build, compile_programs, try_program
from tests.house.sources import ROOT

# What one worker makes the others wait for, longer than a test may take on a full machine.
pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

_NATIVE = "outlive/native"
_BUILD: tuple[str, ...] = (sys.executable, "-m", "build", "--no-isolation")

PATIENCE_S = 300.0


def _run(*words: str | Path, env: dict[str, str] | None = None, cwd: str | Path = "/") -> str:
    """Run a tool from outside the checkout, so that nothing is imported from it by accident."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def _once(factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], None]) -> Path:
    """Return a folder that one worker of a run fills, in place, for all of them."""
    base = factory.getbasetemp()
    base = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder, done = base / name, base / f"{name}.done"
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            fill(folder)
            done.touch()
    return folder


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program of every machine, made by the compilers that are here.

    A release has them from zig.
    """
    try:
        return _once(tmp_path_factory, "programs", lambda folder: compile_programs(folder, zig=None))
    except StartFailed as error:
        if os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"):
            raise
        pytest.skip(error.message)


@pytest.fixture(scope="module")
def built(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and all wheels, and nothing else."""
    return _once(tmp_path_factory, "built", lambda folder: _build(folder, programs))


def _build(folder: Path, programs: Path) -> None:
    build(folder, programs=programs)


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel that pip takes on this machine."""
    (found,) = built.glob(f"*_{platform.machine()}.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `outlive` program of a clean environment that holds the runtime lock and the wheel."""

    def install(environment: Path) -> None:
        venv.create(environment, with_pip=False, symlinks=True)
        uv = [find_uv_bin(), "pip", "install", "--quiet", "--python", str(environment / "bin" / "python")]
        _run(*uv, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt")
        _run(*uv, "--no-deps", "--no-index", wheel)

    return _once(tmp_path_factory, "clean", install) / "bin" / "outlive"


@pytest.fixture
def clean_env(tmp_path: Path) -> dict[str, str]:
    """An environment in which neither this checkout nor the tester's settings can be found."""
    ours = ("OUTLIVE_", "PYTHON", "COVERAGE", "COV_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"HOME": str(tmp_path)}


def test_every_wheel_holds_the_package_its_types_and_its_licence(built: Path) -> None:
    starts = "outlive/engine/terminals/start_files"
    files = [f"{starts}/{name}" for name in ("start.bash", "start.fish", "zsh/.zshenv", "zsh/.zshrc")]
    web = ROOT / "src/outlive/frontends/web"
    page = {
        path.relative_to(ROOT / "src").as_posix()
        for folder in ("assets", "pages")
        for path in (web / folder).rglob("*")
        if path.is_file()
    }
    assert len(page) > 20
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.[ch]")}
    assert len(sources) > len(runner_sources()) > 0
    wheels = list(built.glob("*.whl"))
    assert len(wheels) == len(MACHINES)
    for wheel in wheels:
        names = zipfile.ZipFile(wheel).namelist()
        assert {"outlive/py.typed", "outlive/frontends/mcp/tools/workspace.bash", *files, *page} <= set(names)
        assert sources <= set(names)
        assert any(name.endswith("/licenses/LICENSE") for name in names)
        own = ("outlive/", f"outlive-{outlive.__version__}.")
        assert [name for name in names if not name.startswith(own) or name.endswith(".pyc")] == []


def test_a_wheel_holds_every_machines_program(built: Path, programs: Path) -> None:
    """A container's machine may be another one than Python's (decision 120)."""
    for wheel in built.glob("*.whl"):
        archive = zipfile.ZipFile(wheel)
        found = {name for name in archive.namelist() if name.startswith(f"{_NATIVE}/bin/")}
        assert found == {f"{_NATIVE}/{shipped_name(machine)}" for machine in MACHINES}
        for name in found:
            assert archive.read(name) == (programs / Path(name).name).read_bytes()
            assert stat.S_IMODE(archive.getinfo(name).external_attr >> 16) == 0o755


def test_a_program_is_tried_before_it_goes_into_a_wheel(programs: Path, tmp_path: Path) -> None:
    for machine in MACHINES:
        is_tried = try_program(machine, programs / Path(shipped_name(machine)).name)
        assert is_tried or not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS")
    liar = tmp_path / "program"
    liar.write_text("#!/bin/sh\necho another\n")
    liar.chmod(0o755)
    with pytest.raises(RuntimeError, match="another"):
        try_program(platform.machine(), liar)


@pytest.mark.parametrize("version", ["3.11", "3.14"])
@pytest.mark.parametrize(
    ("system", "wanted"),
    [
        ("x86_64-manylinux_2_17", "manylinux_2_17_x86_64.musllinux_1_1_x86_64"),
        ("aarch64-manylinux_2_17", "manylinux_2_17_aarch64.musllinux_1_1_aarch64"),
        ("x86_64-unknown-linux-musl", "manylinux_2_17_x86_64.musllinux_1_1_x86_64"),
        ("aarch64-unknown-linux-musl", "manylinux_2_17_aarch64.musllinux_1_1_aarch64"),
    ],
)
def test_an_installer_takes_the_wheel_of_its_machine(
    built: Path, tmp_path: Path, system: str, wanted: str, version: str
) -> None:
    """By uv's own rules for tags, for machines and versions of Python that are not here."""
    into = tmp_path / "into"
    where: list[str | Path] = [
        "--no-index",
        "--find-links",
        built,
        "--only-binary",
        ":all:",
        "--target",
        into,
    ]
    kind = ["--python-platform", system, "--python-version", version]
    uv = [find_uv_bin(), "pip", "install", "--quiet", "--no-cache", "--no-deps", "--python", sys.executable]
    _run(*uv, *where, *kind, "outlive")
    (info,) = into.glob("outlive-*.dist-info")
    read = BytesParser().parsebytes((info / "WHEEL").read_bytes())
    assert sorted(read.get_all("Tag", [])) == [f"py3-none-{tag}" for tag in wanted.split(".")]
    assert read["Root-Is-Purelib"] == "false"
    assert (into / _NATIVE / "bin").exists()


@pytest.mark.rare  # builds everything twice: once for a release
def test_the_same_sources_make_the_same_bytes_elsewhere_and_later(built: Path, tmp_path: Path) -> None:
    """A copy at another path, with other times and modes, by another run."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        if hasattr(tarfile, "data_filter"):  # newer than Python 3.11.0
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(tmp_path / "copy")  # noqa: S202 -- the filter is set
    (copy,) = (tmp_path / "copy").iterdir()
    for path in copy.rglob("*"):
        os.utime(path, (1_500_000_000, 1_500_000_000))
        path.chmod(path.stat().st_mode & 0o700)
    dated = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    made = []
    for name, source in (("here", ROOT), ("there", copy)):
        _run(*_BUILD, "--wheel", "--outdir", tmp_path / name, source, env=dated)
        (wheel,) = (tmp_path / name).iterdir()
        made.append(wheel.read_bytes())
    assert made[0] == made[1]


def test_a_wheel_without_a_compiler_says_what_it_lacks(tmp_path: Path) -> None:
    """What installing from an sdist does where zig cannot be fetched either."""
    bare = {**os.environ, "PATH": str(tmp_path)}
    words = [*_BUILD, "--skip-dependency-check", "--wheel", "--outdir", str(tmp_path), str(ROOT)]
    said = subprocess.run(
        words, env=bare, capture_output=True, text=True, timeout=PATIENCE_S, check=True
    ).stderr
    for machine in MACHINES:
        assert f"The wheel holds no program for {machine}. There is no C compiler" in said
    (wheel,) = tmp_path.glob("*-py3-none-any.whl")
    assert f"{_NATIVE}/{shipped_name('x86_64')}" not in zipfile.ZipFile(wheel).namelist()


def test_an_installed_keeper_has_the_wheels_own_program_for_shims(
    installed: Path, clean_env: dict[str, str]
) -> None:
    checks = json.loads(_run(installed, "doctor", "--json", env=clean_env))["checks"]
    (found,) = (check for check in checks if check["name"] == "program")
    assert found["ok"]
    shipped = f"{_NATIVE}/{shipped_name(platform.machine())}"
    assert found["detail"].endswith("/site-packages/" + shipped)


def test_the_installed_program_runs_a_command(installed: Path, clean_env: dict[str, str]) -> None:
    state_dir = Path(clean_env["HOME"], ".local", "state", "outlive")
    try:
        assert _run(installed, "run", "--", "echo", "hi", env=clean_env) == "hi\n"
    finally:
        os.kill(json.loads((state_dir / "server.json").read_text())["pid"], signal.SIGTERM)
        _run(installed, "keeper", "stop", "--kill", env=clean_env)


def test_the_installed_program_says_its_version(installed: Path, clean_env: dict[str, str]) -> None:
    assert outlive.__version__ in _run(installed, "--version", env=clean_env)


def test_the_installed_server_serves_and_stops_on_ctrl_c(
    installed: Path, clean_env: dict[str, str], tmp_path: Path
) -> None:
    state_dir = tmp_path / "state"
    words = [
        "serve",
        "--print-json",
        "--jsonrpc-port",
        "0",
        "--mcp-port",
        "0",
        "--rest-port",
        "0",
        "--bridge-port",
        "0",
        "--state-dir",
        str(state_dir),
    ]
    with subprocess.Popen(
        [installed, *words], cwd="/", env=clean_env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as server:
        try:
            assert server.stdout is not None
            ready = json.loads(server.stdout.readline())
            assert ready["pid"] == server.pid
            assert ready["ports"]["jsonrpc"] > 0
            server.send_signal(signal.SIGINT)
            assert server.wait(PATIENCE_S) == 0
            assert server.stdout.read() == b"", "exactly one line is for programs"
        finally:
            server.kill()
            _run(installed, "keeper", "stop", "--kill", "--state-dir", state_dir, env=clean_env)


@pytest.mark.slow
def test_the_installed_extensions_work(installed: Path, clean_env: dict[str, str], tmp_path: Path) -> None:
    """Every feature that the first page names comes with the wheel; containers need an extra, and say so."""
    clean_env |= {"OUTLIVE_STATE_DIR": str(tmp_path / "state")}
    project = tmp_path / "shop"
    project.mkdir()
    (project / "Procfile").write_text("web: sleep 60\n")
    for host in HOSTS:
        _run(installed, "install", host, env=clean_env, cwd=project)
    ports = [f"--{door}-port=0" for door in ("jsonrpc", "mcp", "rest", "bridge")]
    words = [str(installed), "serve", "--print-json", *ports]
    environ = clean_env | {"USE_DOCKER": "True", "OUTLIVE_DOCKER_IMAGE": "debian:12"}
    with subprocess.Popen(
        words, cwd="/", env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as server:
        try:
            assert server.stdout is not None
            at = json.loads(server.stdout.readline())["ports"]
            with urlopen(f"http://127.0.0.1:{at['rest']}/metrics", timeout=PATIENCE_S) as answer:
                assert b"outlive_processes" in answer.read()
            with connect(f"ws://127.0.0.1:{at['bridge']}/", open_timeout=PATIENCE_S) as extension:
                assert extension.ping().wait(PATIENCE_S)
            refused = subprocess.run(
                [installed, "run", "--", "true"],
                env=clean_env,
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
            )
            assert refused.returncode == 125
            assert "pip install 'outlive[docker]'" in refused.stderr
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(PATIENCE_S)
        _run(installed, "keeper", "stop", "--kill", env=clean_env)
    # Not the same folder: servers that a client starts there obey the settings above.
    clean_env |= {"OUTLIVE_STATE_DIR": str(tmp_path / "another")}
    try:
        assert "web" in _run(installed, "up", "-d", env=clean_env, cwd=project)
        assert "web" in _run(installed, "ps", env=clean_env)
        _run(installed, "down", env=clean_env, cwd=project)
    finally:
        _run(installed, "keeper", "stop", "--kill", env=clean_env)
