"""Which path an entry names: one that an upgrade keeps, and a warning where there is none."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from outlive.cli.machine.program_path import program_words, short_lived
from tests.cli.launching import environment
from tests.extensions.hosts.samples import call
from tests.house.sources import ROOT


def _install_into(folder: Path) -> Path:
    """Make an environment that has outlive, and return its script; the packages are those of this one."""
    venv.create(folder, symlinks=True, clear=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    (packages / "outlive.pth").write_text(f"{ROOT / 'src'}\n{sysconfig.get_path('purelib')}\n")
    script = folder / "bin/outlive"
    script.write_text(f"#!{folder}/bin/python\nfrom outlive.cli.main import main\nmain()\n")
    script.chmod(0o755)
    return script


def _run(words: list[str], home: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words,
        env=environment({"HOME": str(home), "CODEX_HOME": "", "XDG_CONFIG_HOME": "", **env}),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def _entry(said: str) -> list[str]:
    server = json.loads(said)["server"]
    return [server["command"], *server["args"]]


def test_an_entry_still_runs_when_its_environment_was_made_anew(tmp_path: Path) -> None:
    script = _install_into(tmp_path / "venv")
    words = _entry(_run([str(script), "install", "codex", "--json"], tmp_path).stdout)
    assert words == [str(script), "mcp", "--mcp-tools", "lean"]
    _install_into(tmp_path / "venv")
    assert "Usage: outlive mcp" in _run([*words[:2], "--help"], tmp_path).stdout


def test_a_link_on_the_path_is_named_instead_of_what_it_leads_to(tmp_path: Path) -> None:
    """As pipx and uv make it: the tool's environment may move, and the link is set anew."""
    script = _install_into(tmp_path / "tools/outlive-1")
    (tmp_path / "bin").mkdir()
    link = tmp_path / "bin/outlive"
    link.symlink_to(script)
    path = f"{script.parent}:{link.parent}:{os.environ['PATH']}"
    for called in (str(script), str(link), "outlive"):
        said = _run([called, "install", "codex", "--json", "--dry-run"], tmp_path, PATH=path).stdout
        assert _entry(said)[0] == str(link)
    words = _entry(_run([str(script), "install", "codex", "--json"], tmp_path, PATH=path).stdout)
    link.unlink()
    link.symlink_to(_install_into(tmp_path / "tools/outlive-2"))
    assert "Usage: outlive mcp" in _run([*words[:2], "--help"], tmp_path).stdout


def test_another_installation_on_the_path_is_not_meant(tmp_path: Path) -> None:
    script = _install_into(tmp_path / "venv")
    other = tmp_path / "bin/outlive"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    said = _run([str(script), "install", "codex", "--json"], tmp_path, PATH=str(other.parent)).stdout
    assert _entry(said)[0] == str(script)


def test_without_a_script_python_is_named_without_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python3", f"python3.{sys.version_info.minor}"):
        (folder / name).symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(folder / f"python3.{sys.version_info.minor}"))
    monkeypatch.setattr(sys, "argv", ["-m"])
    monkeypatch.setenv("PATH", str(folder))
    assert program_words() == [str(folder / "python3"), "-P", "-m", "outlive"]


def test_a_path_in_a_cache_or_a_temporary_folder_is_told(tmp_path: Path) -> None:
    home = {"HOME": "/h"}
    uvx = "/h/.cache/uv/archive-v0/x1/bin/outlive"
    assert short_lived(uvx, home) == "/h/.cache"
    assert short_lived("/big/uv/archive-v0/x1/bin/outlive", {**home, "UV_CACHE_DIR": "/big/uv"}) == "/big/uv"
    assert short_lived("/tmp/x/bin/outlive", home) == "/tmp"
    assert short_lived("/h/.local/bin/outlive", home) is None
    assert short_lived("/h/.cacher/outlive", home) is None
    script = _install_into(tmp_path / "venv")
    done = _run([str(script), "install", "codex", "--json"], tmp_path, TMPDIR=str(tmp_path))
    assert json.loads(done.stdout)["warning"].startswith(f"{script} lies in ")
    told = _run([str(script), "install", "cursor"], tmp_path, TMPDIR=str(tmp_path))
    assert told.stderr.count("may be removed at any time") == 1


def test_an_entry_for_all_hosts_warns_once(tmp_path: Path) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".cursor").mkdir()
    done = call(tmp_path, "install", "--all", UV_CACHE_DIR=sys.prefix, PATH=str(tmp_path))
    assert done.returncode == 0
    assert done.stderr.count("may be removed at any time") == 1
