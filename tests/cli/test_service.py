"""`outlive service`: files and calls, with a `systemctl` of the test's own that writes down what it is asked.

Whether systemd takes the units is tested in test_units.py, what they are for in test_keeper_run.py.
"""

import json
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from outlive.cli.machine.service import KEEPER_UNIT, MARK, SERVER_UNIT, Systemd
from outlive.core.errors import StartFailed
from tests.cli.launching import run

_BOOTED = Path("/run/systemd/system").is_dir()


def _service(home: Path, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    clean = {"HOME": str(home), "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "", "XDG_RUNTIME_DIR": "", **env}
    return run("service", *words, env=clean, cwd=home)


def _folder(home: Path) -> Path:
    return home / ".config/systemd/user"


def test_both_units_are_written_and_where_systemd_is_not_asked_the_rest_is_said(tmp_path: Path) -> None:
    """Without XDG_RUNTIME_DIR there is no systemd of this user, wherever this runs."""
    done = _service(tmp_path, "install", "--state-dir", "st")
    assert done.returncode == 1
    assert "systemctl --user enable --now outlive.service" in done.stderr
    assert "outlive keeper run" in done.stderr
    for name in (KEEPER_UNIT, SERVER_UNIT):
        text = (_folder(tmp_path) / name).read_text()
        assert text.startswith(MARK)
        assert f"--state-dir {tmp_path / 'st'}\n" in text
        assert f"+++ {_folder(tmp_path) / name}" in done.stdout
    again = json.loads(_service(tmp_path, "install", "--state-dir", "st", "--json").stdout)
    assert [file["changed"] for file in again["files"]] == [False, False]
    assert again["ok"] is False
    moved = json.loads(_service(tmp_path, "install", "--json").stdout)
    assert [Path(file["backup"]).name for file in moved["files"]] == [
        f"{KEEPER_UNIT}.bak",
        f"{SERVER_UNIT}.bak",
    ]


def test_a_dry_run_shows_files_and_calls_and_changes_nothing(tmp_path: Path) -> None:
    done = _service(tmp_path, "install", "--dry-run")
    assert done.returncode == 0
    assert "+KillMode=process" in done.stdout
    assert "systemctl --user daemon-reload" in done.stdout
    machine = json.loads(
        _service(tmp_path, "install", "--system", "--account", "someone", "--dry-run", "--json").stdout
    )
    assert [file["path"] for file in machine["files"]] == [
        f"/etc/systemd/system/{KEEPER_UNIT}",
        f"/etc/systemd/system/{SERVER_UNIT}",
    ]
    for file in machine["files"]:
        assert "+User=someone\n+StateDirectory=outlive\n" in file["diff"]
        assert "--state-dir /var/lib/outlive\n" in file["diff"]
    assert machine["calls"] == ["systemctl daemon-reload", "systemctl enable --now outlive.service"]
    assert list(tmp_path.iterdir()) == []


def test_uninstalling_removes_our_units_only_and_keeps_a_backup(tmp_path: Path) -> None:
    assert "no unit is installed" in _service(tmp_path, "uninstall").stdout
    _service(tmp_path, "install")
    done = _service(tmp_path, "uninstall", "--json")
    assert json.loads(done.stdout)["calls"][0] == "systemctl --user disable --now outlive.service"
    left = sorted(path.name for path in _folder(tmp_path).iterdir())
    assert left == [f"{KEEPER_UNIT}.bak", f"{SERVER_UNIT}.bak"]


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_unit_that_somebody_else_wrote_is_left_alone(verb: str, tmp_path: Path) -> None:
    path = _folder(tmp_path) / SERVER_UNIT
    path.parent.mkdir(parents=True)
    path.write_text("[Service]\nExecStart=/bin/true\n")
    done = _service(tmp_path, verb)
    assert done.returncode == 1
    assert "not written by outlive" in done.stderr
    assert [one.name for one in path.parent.iterdir()] == [SERVER_UNIT]


def test_the_status_tells_files_and_keeper_also_where_systemd_is_not_asked(tmp_path: Path) -> None:
    done = _service(tmp_path, "status")
    assert done.returncode == 1
    assert done.stdout.count("not installed here") == 2
    _service(tmp_path, "install")
    answer = json.loads(_service(tmp_path, "status", "--json").stdout)
    assert answer["ok"] is False
    assert answer["absent"]
    assert answer["units"][SERVER_UNIT]["path"] == str(_folder(tmp_path) / SERVER_UNIT)
    assert answer["keeper"]["processes"] == 0
    assert "installed" in _service(tmp_path, "status").stdout


@pytest.mark.root("only root gets as far as the account")
def test_for_the_machine_the_account_must_exist_and_own_the_state_folder(tmp_path: Path) -> None:
    missing = _service(tmp_path, "install", "--system", "--account", "no-such-account")
    assert missing.returncode == 1
    assert "useradd --system" in missing.stderr
    other = next(one.pw_name for one in pwd.getpwall() if one.pw_uid != os.geteuid())
    foreign = _service(tmp_path, "install", "--system", "--account", other, "--state-dir", str(tmp_path))
    assert foreign.returncode == 1
    assert f"install -d -m 700 -o {other} {tmp_path}" in foreign.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may")
def test_only_root_changes_the_units_of_the_machine(tmp_path: Path) -> None:
    done = _service(tmp_path, "install", "--system")
    assert done.returncode == 1
    assert "sudo" in done.stderr


def _systemctl(folder: Path, script: str) -> None:
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$*" >> {folder}/asked\n{script}\n')
    program.chmod(0o755)


def test_systemctl_is_asked_in_its_scope_and_its_refusal_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _systemctl(tmp_path, "echo ActiveState=active; echo MainPID=7")
    found = Systemd("user").unit(SERVER_UNIT)
    assert (found["ActiveState"], found["MainPID"], found["LoadState"]) == ("active", "7", "")
    _systemctl(tmp_path, "echo 'Unit is masked.' >&2; exit 1")
    with pytest.raises(StartFailed, match="`systemctl enable --now x` failed: Unit is masked") as refused:
        Systemd("system").call(["enable", "--now", "x"])
    assert "systemctl status outlive" in refused.value.hint
    assert (tmp_path / "asked").read_text().splitlines() == [
        f"--user show {SERVER_UNIT} --property=LoadState,ActiveState,SubState,UnitFileState,MainPID",
        "enable --now x",
    ]


def test_the_reason_why_systemd_cannot_be_asked_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Systemd("system").absence() == "There is no systemctl on this machine"
    _systemctl(tmp_path, "")
    if _BOOTED:
        assert Systemd("system").absence() is None
    else:
        assert Systemd("system").absence() == "This machine was not started by systemd"
