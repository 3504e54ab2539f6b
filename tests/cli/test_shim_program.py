"""Which program the keeper's shims are: found where a keeper is started, switched off, told by `outlive doctor`."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from outlive.backends.docker.runner_build import cache_folder, compiled_runner, present_runner
from outlive.cli.machine.probes import probe_shims
from outlive.discovery import keeper as presence_keeper
from outlive.discovery.keeper import ensure_keeper, find_shim
from outlive.keeper.common.spawn import SHIM_VARIABLE
from tests.cli.launching import run
from tests.keeper.client import until
from tests.keeper.house import House, sh, shim_program
from tests.support.processes import of_state_folder
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def program() -> str:
    """The program, where it can be compiled."""
    if shim_program() == "off":
        pytest.skip("no shim can be compiled here")
    return shim_program()


def _finding(*, state_dir: Path, **env: str) -> dict[str, Any]:
    answer = run("doctor", "--json", "--state-dir", str(state_dir), env=env)
    checks = json.loads(answer.stdout)["checks"]
    return next(check for check in checks if check["name"] == "shims")


def _kinds(house: House) -> set[str]:
    house.wait_redundant()
    return {Path(f"/proc/{pid}/comm").read_text().strip() for pid in house.shims()}


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_what_was_compiled_from_these_sources_is_found_and_nothing_is_made(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_shim() == program
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert cache_folder(os.environ) == tmp_path / "cache" / "outlive"
    # A wheel's own would be found all the same.
    if find_shim() is not None:
        assert "/bin/outlive-runner-" in str(find_shim())
    assert present_runner("riscv64", cache_folder(os.environ)) is None
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", _no_home)
    assert find_shim() is None or "/bin/outlive-runner-" in str(find_shim())
    assert not (tmp_path / "cache").exists()


def test_a_keeper_gets_what_is_found_unless_somebody_has_said_so_himself(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[None] = []

    def find() -> str:
        asked.append(None)
        return program

    monkeypatch.setattr(presence_keeper, "find_shim", find)
    monkeypatch.delenv(SHIM_VARIABLE, raising=False)
    for setting, kind in ((None, "outlive-shim"), ("off", "python")):
        house = House(tmp_path / str(kind))
        house.state_dir.mkdir(mode=0o700)
        if setting is not None:
            monkeypatch.setenv(SHIM_VARIABLE, setting)
        ensure_keeper(str(house.state_dir))
        with house:
            assert house.run(*sh("exit 3"))[0] == 3
            ensure_keeper(str(house.state_dir))
            assert {kind[:6] for kind in _kinds(house)} == {kind[:6]}
            assert house.status()["shims"] == ("fork" if setting else "program")
    assert len(asked) == 1, "only who starts a keeper looks for it"


def test_a_program_that_is_compiled_late_serves_a_keeper_that_runs(
    tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SHIM_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if find_shim() is not None:
        pytest.skip("this installation has shipped the program")
    house = House(tmp_path / "s")
    house.state_dir.mkdir(mode=0o700)
    ensure_keeper(str(house.state_dir))
    with house:
        assert house.run(*sh("exit 3"))[0] == 3
        assert house.status()["shims"] == "fork"
        late = compiled_runner(os.uname().machine, cache_folder(os.environ))
        late.parent.mkdir(parents=True)
        shutil.copy(program, late.with_suffix(".new"))
        late.with_suffix(".new").rename(late)
        until(lambda: house.status()["shims"] == "program", "the keeper takes the program")
        for _ in range(20):  # forks that wait are used up first
            assert house.run(*sh("exit 4"))[0] == 4
        assert "outlive-shim" in _kinds(house)


def test_the_doctor_says_which_and_why(tmp_path: Path, program: str) -> None:
    found = _finding(state_dir=tmp_path / "none")
    assert (found["ok"], found["importance"], found["detail"]) == (True, "optional", program)
    found = _finding(state_dir=tmp_path / "none", **{SHIM_VARIABLE: "off"})
    assert not found["ok"]
    assert "switched off" in found["detail"]
    assert "400 KB" in found["consequence"]
    assert not (tmp_path / "none").exists()


def test_a_program_that_is_none_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for setting, why, what in (
        (str(tmp_path / "missing"), "cannot be executed: No such file", "noexec"),
        ("/bin/false", "is no program for shims", "install outlive anew"),
        ("off", "switched off", f"unset {SHIM_VARIABLE}"),
    ):
        monkeypatch.setenv(SHIM_VARIABLE, setting)
        is_program, detail, cure = probe_shims(str(tmp_path / "none"))
        assert not is_program
        assert why in detail
        assert what in cure


def test_that_none_is_there_is_said_and_none_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SHIM_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    is_program, detail, cure = probe_shims(str(tmp_path / "none"))
    assert is_program == ("/bin/outlive-runner-" in detail), "only a wheel has one then"
    assert is_program or ("none was compiled" in detail and "C compiler" in cure)
    assert not (tmp_path / "cache").exists()


def test_a_keeper_that_forks_although_there_is_a_program_is_found_out(
    program: str, build: Callable[[str], House], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHIM_VARIABLE, program)
    for setting, is_good in (("off", False), (program, True)):
        house = build(setting)
        house.wait_redundant()
        is_program, detail, cure = probe_shims(str(house.state_dir))
        assert is_program == is_good
        assert is_good or ("the keeper that runs" in detail and "outlive keeper upgrade" in cure)


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Callable[[str], House]]:
    """A function that starts a keeper with a setting for its shims; it ends with the test."""
    with ExitStack() as houses:
        yield lambda setting: houses.enter_context(
            House(tmp_path / setting.replace("/", "-"), env={SHIM_VARIABLE: setting})
        )


def test_a_server_starts_its_keeper_with_it(own_server: OutliveServer) -> None:
    def found() -> list[int]:
        return [
            pid
            for pid in of_state_folder(own_server.state_dir)
            if Path(f"/proc/{pid}/comm").read_text() == "outlive-shim\n"
        ]

    until(found, "a shim that is a program")
