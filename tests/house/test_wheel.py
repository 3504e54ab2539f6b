"""The wheel, built and installed with its lock into an empty environment, is the whole product."""

import json
import os
import platform
import signal
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

import outlive
from outlive.backends.docker.runner_build import MACHINES, compile_runner, runner_sources, shipped_name
from outlive.core.errors import StartFailed
from tests.house.sources import ROOT

pytestmark = pytest.mark.thorough

PATIENCE_S = 110.0


def _run(*words: str | Path, env: dict[str, str] | None = None) -> str:
    """Run a tool from outside the checkout, so that nothing is imported from it by accident."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd="/",
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `outlive` program of a clean environment that holds the runtime lock and the wheel."""
    environment = tmp_path_factory.mktemp("clean")
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    install = [find_uv_bin(), "pip", "install", "--quiet", "--python", str(python)]
    _run(*install, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt")
    _run(*install, "--no-deps", "--no-index", wheel)
    return environment / "bin" / "outlive"


@pytest.fixture
def clean_env(tmp_path: Path) -> dict[str, str]:
    """An environment in which neither this checkout nor the tester's settings can be found."""
    ours = ("OUTLIVE_", "PYTHON", "COVERAGE", "COV_", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"HOME": str(tmp_path)}


def test_the_wheel_holds_the_package_its_types_and_its_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    starts = "outlive/engine/terminals/start_files"
    files = [f"{starts}/{name}" for name in ("start.bash", "start.fish", "zsh/.zshenv", "zsh/.zshrc")]
    assert {"outlive/py.typed", "outlive/frontends/mcp/tools/workspace.bash", *files} <= set(names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    strangers = [
        name for name in names if not name.startswith(("outlive/", f"outlive-{outlive.__version__}."))
    ]
    assert strangers == []


def test_the_wheel_holds_the_containers_runner_for_every_machine(wheel: Path, installed: Path) -> None:
    """Compiled where a compiler is, and the sources for where none was; one wheel for all machines (decision 120)."""
    assert wheel.name.endswith("-py3-none-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    folder = "outlive/native"
    native = ROOT / "src" / folder
    sources = {f"{folder}/{path.relative_to(native).as_posix()}" for path in native.rglob("*.[ch]")}
    assert len(sources) > len(runner_sources()) > 0
    assert sources <= names
    compiled = {machine for machine in MACHINES if f"{folder}/{shipped_name(machine)}" in names}
    assert compiled == {machine for machine in MACHINES if _is_compilable(machine, wheel.parent / machine)}
    if platform.machine() in compiled:
        (package,) = installed.parent.parent.glob("lib/python*/site-packages")
        said = _run(package / folder / shipped_name(platform.machine()), "--version")
        assert said.startswith("outlive-runner ")


def test_an_installed_keeper_has_the_wheels_own_program_for_shims(
    wheel: Path, installed: Path, clean_env: dict[str, str]
) -> None:
    shipped = f"outlive/native/{shipped_name(platform.machine())}"
    checks = json.loads(_run(installed, "doctor", "--json", env=clean_env))["checks"]
    (found,) = (check for check in checks if check["name"] == "shims")
    assert found["ok"] == (shipped in zipfile.ZipFile(wheel).namelist())
    assert not found["ok"] or found["detail"].endswith("/site-packages/" + shipped)


def _is_compilable(machine: str, target: Path) -> bool:
    try:
        compile_runner(machine, target)
    except StartFailed:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), f"no compiler for {machine}"
        return False
    return True


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
