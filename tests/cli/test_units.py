"""The texts of the units: what systemd itself thinks of them, and what each must never say."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from outlive.cli.machine.service import KEEPER_UNIT, SERVER_UNIT, UnitPlan, unit_texts
from outlive.core.errors import ConfigInvalid

_ANALYZE = shutil.which("systemd-analyze")
# What bounds a unit bounds every command that is started in it.
_SANDBOX = (
    "Protect",
    "Private",
    "Restrict",
    "NoNewPriv",
    "SystemCall",
    "Capability",
    "Lock",
    "ReadOnly",
    "ReadWrite",
)


def _plan(scope: str = "user", **changed: object) -> UnitPlan:
    wanted = {
        "scope": scope,
        "program": ["/usr/bin/true"],  # verify wants programs that exist
        "state_dir": "/var/lib/outlive",
        "unit_file": "/etc/systemd/system/outlive.service",
        "account": "daemon" if scope == "system" else "",
        "owns_state_dir": scope == "system",
    }
    return UnitPlan(**(wanted | changed))  # type: ignore[arg-type] # a plan by parts, for tests only


def _settings(text: str) -> dict[str, str]:
    lines = [line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#")]
    assert len({name for name, _, _ in lines}) == len(lines), "nothing is said twice"
    return {name: value for name, _, value in lines}


@pytest.mark.skipif(_ANALYZE is None, reason="no systemd-analyze on this machine")
@pytest.mark.parametrize("scope", ["user", "system"])
@pytest.mark.parametrize("state_dir", ["/var/lib/outlive", "/a b/c\"d'e\\f;g/100%h$HOME/é"])
def test_systemd_accepts_the_units(scope: str, state_dir: str, tmp_path: Path) -> None:
    assert _ANALYZE is not None
    texts = unit_texts(_plan(scope, state_dir=state_dir))
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [_ANALYZE, "verify", f"--{scope}", "--man=no", *(str(tmp_path / name) for name in texts)],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:", "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stderr.splitlines() if "outlive" in line], done.stderr


@pytest.mark.parametrize("scope", ["user", "system"])
def test_the_keeper_is_started_before_the_server_and_bound_to_nothing(scope: str) -> None:
    texts = unit_texts(_plan(scope))
    keeper, server = _settings(texts[KEEPER_UNIT]), _settings(texts[SERVER_UNIT])
    assert server["After"] == server["Wants"] == KEEPER_UNIT
    for unit in (keeper, server):
        assert not {"Requires", "BindsTo", "PartOf", "Requisite", "PropagatesStopTo"} & set(unit)
        assert (unit["Type"], unit["StartLimitIntervalSec"]) == ("notify", "0")
    assert (keeper["KillMode"], keeper["Restart"]) == ("process", "on-failure")
    assert server["Restart"] == "always"
    owner = "OUTLIVE_SERVICE_UNIT=/etc/systemd/system/outlive.service"
    assert server["Environment"] == f"OUTLIVE_KEEPER_EXTERNAL=1 {owner}"
    assert " keeper run " in keeper["ExecStart"]
    assert " serve " in server["ExecStart"]
    assert "ExecStop" not in keeper, "it runs also when the unit merely restarts"


@pytest.mark.parametrize("scope", ["user", "system"])
def test_nothing_bounds_what_a_command_may_do(scope: str) -> None:
    texts = unit_texts(_plan(scope))
    assert [name for name in _settings(texts[KEEPER_UNIT]) if name.startswith(_SANDBOX)] == []
    bounded = [name for name in _settings(texts[SERVER_UNIT]) if name.startswith(_SANDBOX)]
    assert "NoNewPrivileges" in bounded
    # The server looks whether a command's working folder is there: it must see what the command will see.
    assert not {"PrivateTmp", "ProtectHome", "PrivateUsers", "InaccessiblePaths"} & set(bounded)


def test_words_of_a_path_stay_one_word_and_stand_for_themselves() -> None:
    texts = unit_texts(_plan("system", program=["/opt/a $b/outlive"], state_dir="/s/100% $x"))
    keeper, server = _settings(texts[KEEPER_UNIT]), _settings(texts[SERVER_UNIT])
    assert keeper["ExecStart"] == '"/opt/a $b/outlive" keeper run --state-dir "/s/100%% $$x"'
    assert server["ReadWritePaths"] == '"/s/100%% $x"'
    assert keeper["User"] == server["User"] == "daemon"
    assert keeper["StateDirectory"] == "outlive"
    assert "User" not in _settings(unit_texts(_plan())[KEEPER_UNIT])


def test_a_path_that_no_unit_can_hold_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="cannot be written into a systemd unit"):
        unit_texts(_plan(state_dir="/a\nExecStart=/bin/evil"))
