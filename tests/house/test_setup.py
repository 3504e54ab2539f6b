"""A checkout is set up, and runs commands, on a machine without a C compiler, as the README promises."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.sources import ROOT

# What `scripts/setup.sh` and `make` call, and the shell of commands. No compiler is among it.
_TOOLS = (
    "bash",
    "sh",
    "env",
    "make",
    "mkdir",
    "touch",
    "rm",
    "dirname",
    "sleep",
    "cat",
    "grep",
    "awk",
    "id",
    "true",
)
_PARTS = (
    "src",
    "scripts",
    "requirements",
    "Makefile",
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "LICENSE",
)
_PASSED_ON = ("PIP_", "UV_", "SSL_", "HTTP", "http", "no_proxy", "NO_PROXY", "REQUESTS_")
_SETUP_S = 1500.0  # 180 MB are fetched, and zig compiles a C library first: half a minute of processor time
_RUN_S = 60.0


def _as_on_a_bare_machine(folder: Path) -> dict[str, str]:
    """Return an environment whose PATH holds the tools alone."""
    tools = folder / "tools"
    tools.mkdir()
    for name in _TOOLS:
        found = shutil.which(name)
        assert found is not None, name
        (tools / name).symlink_to(os.path.realpath(found))
    (tools / "python3").symlink_to(sys._base_executable)  # type: ignore[attr-defined]
    passed_on = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
    # What was fetched already need not be fetched again; what is compiled here is.
    cache = os.environ.get("UV_CACHE_DIR") or str(Path.home() / ".cache" / "uv")
    own = {"HOME": str(folder / "home"), "PATH": str(tools), "LANG": "C.UTF-8", "UV_CACHE_DIR": cache}
    return passed_on | own | {"OUTLIVE_STATE_DIR": str(folder / "s"), "OUTLIVE_CONFIG": os.devnull}


@pytest.mark.rare  # fetches a compiler of 100 MB and compiles with it: minutes
@pytest.mark.timeout(2000)
def test_neither_setup_nor_a_command_needs_a_compiler(tmp_path: Path) -> None:
    """All of `make setup`: which of its steps would want one is what nobody knows beforehand."""
    checkout, workspace = tmp_path / "outlive", tmp_path / "w"
    for path in (checkout, workspace, tmp_path / "home"):
        path.mkdir()
    for name in _PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__", "bin"))
        else:
            shutil.copy(ROOT / name, checkout)
    env = _as_on_a_bare_machine(tmp_path)
    done = subprocess.run(
        ["make", "setup"],
        cwd=checkout,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SETUP_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "setup: no C compiler is here: zig is fetched from PyPI (ziglang: 100 MB" in done.stderr
    program = str(checkout / ".venv" / "bin" / "outlive")
    try:
        for profile in ("open", "workspace", "sealed"):
            ran = subprocess.run(
                [program, "run", "--profile", profile, "--", "sh", "-c", "echo here; exit 3"],
                cwd=workspace,
                env=env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_RUN_S,
                check=False,
            )
            if "sandbox_unavailable" in ran.stderr or "cannot be had" in ran.stderr:
                continue  # this machine's kernel offers less
            assert (ran.returncode, ran.stdout) == (3, "here\n"), (profile, ran.stderr)
    finally:
        server = tmp_path / "s" / "server.json"
        if server.exists():
            os.kill(json.loads(server.read_text())["pid"], signal.SIGTERM)
        stop = [program, "keeper", "stop", "--kill"]
        subprocess.run(stop, env=env, capture_output=True, timeout=_RUN_S, check=False)


def test_builds_from_the_sdist_and_setup_fetch_the_same_zig() -> None:
    wanted = (ROOT / "requirements" / "zig.in").read_text().splitlines()[-1]
    assert f'_ZIG = "{wanted}"' in (ROOT / "hatch_build.py").read_text()
    for name in ("zig.txt", "release.txt"):
        assert f"{wanted} \\" in (ROOT / "requirements" / name).read_text()
