"""The keeper's program: found or compiled where a keeper is started, missing with a sentence, looked at by
`outlive doctor`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import outlive
from outlive.cli.machine.probes import probe_program
from outlive.core.errors import BackendUnavailable
from outlive.core.layout import Layout
from outlive.discovery import keeper as discovered
from outlive.discovery import runner_build
from outlive.discovery.keeper import ensure_keeper, find_program, program_path
from outlive.discovery.runner_build import present_runner, shipped_name
from outlive.keeper.common.spawn import SHIM_VARIABLE
from tests.cli.launching import run
from tests.keeper.client import until
from tests.keeper.house import House, sh, shim_program
from tests.support.processes import of_state_folder
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough


def _finding(*, state_dir: Path, **env: str) -> dict[str, Any]:
    answer = run("doctor", "--json", "--state-dir", str(state_dir), env=env)
    checks = json.loads(answer.stdout)["checks"]
    return next(check for check in checks if check["name"] == "program")


_NOWHERE = Layout("/nonexistent")


@pytest.fixture
def without_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation in which nothing was compiled, and nothing can be."""
    monkeypatch.delenv(SHIM_VARIABLE, raising=False)
    monkeypatch.setattr(runner_build, "_BIN", tmp_path / "bin")
    monkeypatch.setattr(runner_build, "_compilers", lambda _machine: iter(()))
    _skip_where_shipped()


@pytest.fixture
def uncompiled(tmp_path: Path) -> dict[str, str]:
    """The environment of an installation in which nothing was compiled yet: a copy of the package."""
    _skip_where_shipped()
    source = Path(outlive.__file__).parent
    shutil.copytree(source, tmp_path / "src" / "outlive", ignore=shutil.ignore_patterns("bin", "__pycache__"))
    return {"PYTHONPATH": str(tmp_path / "src")}


def _skip_where_shipped() -> None:
    if os.path.exists(Path(outlive.__file__).parent / "native" / shipped_name(os.uname().machine)):
        pytest.skip("this installation has shipped the program")


def _compiled(tmp_path: Path) -> list[str]:
    found = (tmp_path / "src" / "outlive" / "native" / "bin").glob("outlive-runner-*")
    return [path.name for path in found if not path.suffix]


def test_what_was_compiled_from_these_sources_is_found() -> None:
    assert find_program(_NOWHERE) == program_path(_NOWHERE) == shim_program()
    assert present_runner("riscv64", Path("/nonexistent")) is None


def test_it_is_looked_for_only_where_a_keeper_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []

    def find(_layout: Layout) -> str:
        asked.append(None)
        return shim_program()

    monkeypatch.setattr(discovered, "find_program", find)
    monkeypatch.delenv(SHIM_VARIABLE, raising=False)
    house = House(tmp_path / "state")
    house.state_dir.mkdir(mode=0o700)
    ensure_keeper(str(house.state_dir))
    with house:
        assert house.run(*sh("exit 3"))[0] == 3
        ensure_keeper(str(house.state_dir))
    assert len(asked) == 1


def test_it_is_compiled_into_the_package_at_the_first_need(
    tmp_path: Path, uncompiled: dict[str, str]
) -> None:
    code = (
        "from outlive.core.layout import Layout; from outlive.discovery.keeper import find_program; "
        "print(find_program(Layout('/nonexistent')))"
    )
    # Without a server, for which a test waits 30 s: a full machine compiles for longer.
    words = [sys.executable, "-P", "-c", code]
    found = subprocess.run(words, env=os.environ | uncompiled, capture_output=True, text=True, check=True)
    assert [os.path.basename(found.stdout.strip())] == _compiled(tmp_path)


@pytest.mark.usefixtures("without_compiler")
def test_without_it_no_keeper_starts_and_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable) as refused:
        ensure_keeper(str(tmp_path))
    assert refused.value.code == "keeper_unavailable"
    assert "The keeper cannot be started: There is no C compiler" in refused.value.message
    assert "Install a C compiler" in refused.value.hint


def test_a_user_that_may_not_write_into_the_package_compiles_it_into_the_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _skip_where_shipped()
    monkeypatch.setattr(runner_build, "_BIN", tmp_path / "bin")
    # Root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and os.path.exists(path))
    layout = Layout(str(tmp_path / "state"))
    (tmp_path / "state").mkdir(mode=0o700)
    assert program_path(layout) is None
    assert (found := find_program(layout)) == program_path(layout)
    assert os.path.dirname(found) == layout.programs
    assert not (tmp_path / "bin").exists()


def test_a_server_without_it_does_not_start_and_says_so_at_once(
    tmp_path: Path, uncompiled: dict[str, str]
) -> None:
    (tmp_path / "tools").mkdir()
    env = {**uncompiled, "PATH": str(tmp_path / "tools")}
    answer = run("serve", "--state-dir", str(tmp_path / "state"), env=env)
    assert answer.returncode != 0
    said = answer.stderr.splitlines()
    assert said[0].startswith("outlive: The keeper cannot be started: There is no C compiler")
    assert "Install a C compiler" in said[1]
    answer = run("run", "--state-dir", str(tmp_path / "state"), "--", "true", env=env)
    assert answer.returncode != 0
    assert "There is no C compiler" in answer.stderr


def test_the_doctor_says_which_and_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _finding(state_dir=tmp_path / "none")
    assert (found["ok"], found["importance"], found["detail"]) == (True, "required", shim_program())
    found = _finding(state_dir=tmp_path / "none", **{SHIM_VARIABLE: "off"})
    assert not found["ok"]
    assert "no command" in found["consequence"]
    assert not (tmp_path / "none").exists()
    for setting, why in (
        (str(tmp_path / "missing"), "cannot be used: No such file"),
        ("/bin/false", "/bin/false is not its program"),
        ("off", "no absolute path"),
    ):
        monkeypatch.setenv(SHIM_VARIABLE, setting)
        is_there, detail, cure = probe_program("/nonexistent")
        assert not is_there
        assert why in detail
        assert f"unset {SHIM_VARIABLE}" in cure


@pytest.mark.usefixtures("without_compiler")
def test_that_none_is_there_is_said_and_none_is_made(tmp_path: Path) -> None:
    is_there, detail, cure = probe_program("/nonexistent")
    assert not is_there
    assert "none was compiled" in detail
    assert "C compiler" in cure
    assert not (tmp_path / "bin").exists()


def test_a_servers_shims_are_the_program(own_server: OutliveServer) -> None:
    def found() -> list[int]:
        return [
            pid
            for pid in of_state_folder(own_server.state_dir)
            if Path(f"/proc/{pid}/comm").read_text() == "outlive-shim\n"
        ]

    until(found, "a shim")
