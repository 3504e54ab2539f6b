"""What a server says at its start about lists that allow more than they seem to, and how it finds
programs.
"""

import logging
import os
import re
from pathlib import Path

import pytest

from outlive.config import Settings, resolve
from outlive.core.errors import ConfigInvalid
from outlive.engine.commands.policy_check import command_policy, log_openness, writable_folders
from outlive.engine.commands.resolver import look_up
from outlive.policy.judgement import Verdict


def _settings(**flags: str) -> Settings:
    return resolve(flags, {"HOME": "/nonexistent"}, working_folder="/").settings


def test_settings_become_a_policy_and_a_rule_that_is_none_is_named() -> None:
    policy = command_policy(_settings(deny="rm -rf *,sudo", ask="curl", allow="ls", policy_opaque="ask"))
    assert [rule.text for rule in policy.rules] == ["rm -rf *", "sudo", "curl", "ls"]
    assert (policy.opaque, policy.default) == (Verdict.ASK, Verdict.DENY)
    with pytest.raises(ConfigInvalid, match=re.escape("ask: 'a | b': a rule is about one program")):
        command_policy(_settings(ask="a | b"))


def test_open_lists_and_open_folders_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(0o777)
    settings = _settings(allow="ls,bash", allowed_commands="env,ls")
    with caplog.at_level(logging.WARNING):
        log_openness(settings, command_policy(settings), f"/usr/bin:{tmp_path}:.:/nonexistent")
    told = [(record.__dict__.get("rule"), record.__dict__.get("folder")) for record in caplog.records]
    assert told == [("bash", None), ("env", None), (None, str(tmp_path)), (None, ".")]
    caplog.clear()
    settings = _settings(allowed_commands="ls,/bin/bash")
    with caplog.at_level(logging.WARNING):
        log_openness(settings, command_policy(settings), "/usr/bin")
    assert caplog.records[-1].message == (
        "ALLOWED_COMMANDS holds a shell and so allows everything: only the first word of a line is judged"
    )
    caplog.clear()
    log_openness(_settings(), command_policy(_settings()), str(tmp_path))
    assert not caplog.records
    assert writable_folders("/usr/bin") == []


def test_a_program_is_found_with_every_link_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "real").mkdir()
    program = tmp_path / "real" / "tool-1.2"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / "real" / "tool").symlink_to("tool-1.2")
    (tmp_path / "bin" / "t").symlink_to("../real/tool")
    (tmp_path / "folder").symlink_to(tmp_path / "bin")
    path = str(tmp_path / "bin")
    found = look_up("t", path=path, cwd="/", own_path=path)
    assert found is not None
    assert found.paths == (f"{path}/t", f"{tmp_path}/real/tool", str(program))
    assert found.names == {"t", "tool", "tool-1.2"}
    assert found.is_own
    by_link = look_up("folder/t", path=path, cwd=str(tmp_path), own_path=path)
    assert by_link is not None
    assert (by_link.found, by_link.identity) == (f"{path}/t", found.identity)
    elsewhere = look_up(str(program), path=path, cwd="/", own_path=path)
    assert elsewhere is not None
    assert not elsewhere.is_own
    assert look_up("t", path=path, cwd="/", own_path="bin:") == look_up(
        "t", path=path, cwd="/", own_path="/usr/bin"
    )
    assert look_up("missing", path=path, cwd="/", own_path=path) is None


def test_links_that_go_round_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert look_up(str(tmp_path / "a"), path="", cwd="/", own_path=os.defpath) is None
