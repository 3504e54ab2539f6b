"""docs/operate.md, typed as a reader would: its consoles, and the drill of an upgrade there and back with two
real wheels.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

import outlive
from outlive.core.layout import Layout
from outlive.kernel.locks import holder_of
from tests.docs.consoles import Console, commands
from tests.docs.pages import blocks, page
from tests.house.sources import ROOT
from tests.support.processes import Gate, end, poll_until
from tests.support.server import run_outlive

_TEXT = page("docs/operate.md")
_OLD = "0.0.9"
_SOURCES = ("pyproject.toml", "README.md", "LICENSE", "hatch_build.py", "src")
_PATIENCE_S = 400

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


def _shape(text: str) -> list[str]:
    """Return lines without what differs from run to run: numbers, ids, and how wide a column is."""
    lines = [re.sub(r"^[0-9a-z]{6}(?=  )", "#", line) for line in text.splitlines()]
    return [" ".join(re.sub(r"\S*\d\S*", "#", line).split()) for line in lines if line.strip()]


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state folder whose server and keeper are ended at the end."""
    folder = tmp_path / "state"
    yield folder
    if pid := holder_of(Layout(str(folder)).server_lock):
        end(pid)
    if folder.exists():
        run_outlive("keeper", "stop", "--kill", state_dir=folder)


async def test_the_consoles_say_what_the_page_shows(tmp_path: Path, state: Path, gate: Gate) -> None:
    """Two processes have ended, one runs: as the page has it."""
    console = Console(tmp_path)
    env = {"OUTLIVE_STATE_DIR": str(state), "OUTLIVE_CONFIG": os.devnull}
    for line in ("outlive run -- echo hello", "outlive run -- false", f"outlive run -d -c '{gate.wait}'"):
        console.run(line, **env)
    # The row of what has ended last is written behind its end.
    await poll_until(lambda: '"used": 2' in console.run("outlive df --json", **env).stdout)
    shown = commands(_TEXT)
    assert [command.split()[1] for command, _ in shown] == ["backup", "restore", "prune"]
    for command, answer in shown:
        done = console.run(command, **env)
        assert done.returncode == 0, done.stderr
        told = (done.stdout + done.stderr).replace(str(tmp_path), "/srv/outlive")
        said = [line for line in _shape(told) if not line.startswith("outlive:")]
        assert said == _shape(answer), command


def _wheel(into: Path, version: str, folder: Path) -> None:
    """Build the wheel under a version number."""
    for name in _SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    owner = folder / "src" / "outlive" / "__init__.py"
    owner.write_text(owner.read_text().replace(f'"{outlive.__version__}"', f'"{version}"'))
    words = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(into), "."]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _libraries(into: Path) -> Path:
    """Link what outlive stands on into a folder, and not outlive: pip would take it for the version that is
    asked for.
    """
    into.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("outlive", "_outlive")) and entry.suffix != ".pth":
            (into / entry.name).symlink_to(entry)
    return into


@pytest.mark.rare  # two wheels, two environments and an upgrade: once for a release
@pytest.mark.promise("A.upgrade")
def test_the_drill_goes_there_and_back_without_a_byte_missing(tmp_path: Path) -> None:
    (script,) = blocks(_TEXT, "sh")
    wheels = tmp_path / "wheels"
    for version in (_OLD, outlive.__version__):
        folder = tmp_path / version
        folder.mkdir()
        _wheel(wheels, version, folder)
    place = tmp_path / "p"
    place.mkdir()
    env = {
        **Console(place).environment,
        "OLD": _OLD,
        "NEW": outlive.__version__,
        # What a machine with an index has anyway: both wheels, and what they stand on.
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PYTHONPATH": str(_libraries(tmp_path / "libraries")),
        "OUTLIVE_CONFIG": os.devnull,
    }
    try:
        done = subprocess.run(
            ["sh", "-c", script],
            cwd=place,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said = done.stdout
        assert re.findall(r"^outlive (\S+)$", said, re.MULTILINE) == [outlive.__version__, _OLD]
        assert said.count("1 processes went on.") == 2
        assert "finished" in said
        assert not (place / "drill").exists()
    finally:
        if (place / "drill").exists():
            state = place / "drill" / "state"
            if pid := holder_of(Layout(str(state)).server_lock):
                end(pid)
            run_outlive("keeper", "stop", "--kill", state_dir=state)
