"""`outlive policy check`: what it says, how it ends, and that it neither starts anything nor needs a
server.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from outlive.cli.operator.policy import check
from outlive.core.errors import OutliveError
from tests.support.server import outlive_command

pytestmark = pytest.mark.thorough


def _check(
    folder: Path, *words: str, rules: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the verb in a folder with no settings but `rules`."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("OUTLIVE_", "ALLOWED_"))}
    environment = {**clean, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / ".config"), **(rules or {})}
    command = [*outlive_command(), "policy", "check", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_it_explains_a_decision_and_ends_with_it(tmp_path: Path) -> None:
    rules = {"OUTLIVE_DENY": "sudo,rm -rf *", "OUTLIVE_ASK": "touch", "OUTLIVE_ALLOW": "ls,touch,nice,bash"}
    canary = tmp_path / "ran"
    said = _check(tmp_path, f"ls; nice rm -rf {canary}", rules=rules)
    assert said.returncode == 4
    assert said.stdout.startswith("deny (command_denied)\n  The rule 'rm -rf *' denies 'rm' here.\n")
    assert "rule     deny 2: 'rm -rf *' from environment OUTLIVE_DENY" in said.stdout
    assert "program  /usr/bin/ls" in said.stdout
    assert "starts   others: runs the words behind its own" in said.stdout
    assert "warning: 'bash' on the list allows everything" in said.stdout
    asked = _check(tmp_path, f"touch {canary}", rules=rules)
    assert (asked.returncode, asked.stdout.split("\n")[0]) == (3, "ask (approval_needed)")
    assert _check(tmp_path, "ls -l", rules=rules).returncode == 0
    writing = _check(tmp_path, "ls > x", rules=rules)
    assert writing.returncode == 4
    assert "`; write = true`" in writing.stdout
    opaque = _check(tmp_path, "ls $(pwd)", rules=rules)
    assert opaque.returncode == 4
    assert "opaque: the line holds more" in opaque.stdout
    assert not canary.exists()
    assert not (tmp_path / ".local").exists()  # no server, no state folder


def test_its_json_tells_the_same_and_where_each_list_came_from(tmp_path: Path) -> None:
    (tmp_path / ".config" / "outlive").mkdir(parents=True)
    (tmp_path / ".config" / "outlive" / "config.toml").write_text('deny = ["rm"]\nallow = ["ls", "cat"]\n')
    (tmp_path / ".outlive.toml").write_text('deny = ["rm", "sudo"]\nallow = ["ls"]\n')
    said = _check(tmp_path, "--json", "--", "ls", "; rm -rf x")
    document: dict[str, Any] = json.loads(said.stdout)
    assert (said.returncode, document["decision"], document["code"]) == (0, "allow", None)
    assert document["commands"][0]["words"] == ["ls", "; rm -rf x"]
    assert document["commands"][0]["rule"]["text"] == "ls"
    assert document["commands"][0]["rule"]["from"].startswith(str(tmp_path / ".outlive.toml"))
    assert document["settings"]["deny"]["source"] == "project"
    assert document["settings"]["ask"]["source"] == "default"
    refused = json.loads(_check(tmp_path, "cat x | sudo ls", "--json").stdout)
    assert [one["verdict"] for one in refused["commands"] if not one["inner"]] == ["deny", "deny"]
    (tmp_path / ".outlive.toml").write_text('deny = ["sudo"]\n')
    loose = _check(tmp_path, "ls")
    assert loose.returncode == 1
    assert "may only tighten deny" in loose.stderr


def test_the_other_lists_have_their_say(tmp_path: Path) -> None:
    names = _check(tmp_path, "cat x", rules={"ALLOWED_COMMANDS": "ls,env"})
    assert (names.returncode, names.stdout.split("\n")[0]) == (4, "deny (command_not_allowed)")
    assert "warning: 'env' on the list allows everything" in names.stdout
    tools = _check(tmp_path, "sudo ls")
    assert tools.returncode == 0
    assert "for MCP tools besides: Sudo commands are not allowed" in tools.stdout
    argv = json.loads(_check(tmp_path, "--json", "--", "sudo", "ls").stdout)
    assert argv["mcp_tools"] == "Sudo commands are not allowed"


@pytest.mark.parametrize(
    ("words", "rules", "said"),
    [
        (("ls",), {"OUTLIVE_DENY": "echo 'a'"}, "has no quotes"),
        (("ls",), {"OUTLIVE_POLICY_OPAQUE": "maybe"}, "allow, ask, deny"),
        (("ls",), {"OUTLIVE_POLICY_DEFAULT": "allow"}, "deny or ask"),
        ((" ",), {}, "no command"),
    ],
)
def test_what_makes_no_sense_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], rules: dict[str, str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTLIVE_CONFIG", "/dev/null")
    for name, text in rules.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(OutliveError, match=said):
        check(words=words, cwd=None)


def test_folders_of_path_that_everybody_can_write_to_are_named(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    rules = {"OUTLIVE_ALLOW": "ls", "PATH": f"{os.environ['PATH']}:{shared}"}
    said = _check(tmp_path, "ls", rules=rules)
    assert f"warning: every user can put programs into {shared} (PATH)" in said.stdout
    relative = _check(tmp_path, "ls", rules={"OUTLIVE_ALLOW": "ls", "PATH": f"{os.environ['PATH']}:"})
    assert "into the working folder (PATH)" in relative.stdout
    assert relative.returncode == 4  # the working folder decides what a line means
