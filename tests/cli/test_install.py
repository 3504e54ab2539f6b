"""`outlive install`: the files of the hosts, written, kept, backed up and refused; what was written really works."""

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from outlive.cli.machine.file_change import FileChange
from outlive.cli.machine.install import HOSTS, config_path
from outlive.core.errors import ConfigInvalid
from tests.cli.launching import run
from tests.mcp_stdio.hosting import leave_nothing
from tests.support.server import outlive_command

_USER_FILES = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
}
_PROJECT_FILES = {"claude-code": ".mcp.json", "cursor": ".cursor/mcp.json", "vscode": ".vscode/mcp.json"}


def _install(home: Path, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    clean = {"HOME": str(home), "XDG_CONFIG_HOME": "", "CLAUDE_CONFIG_DIR": "", **env}
    return run("install", *words, env=clean, cwd=home)


def _server(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_text())
    found: dict[str, Any] = document.get("servers", document.get("mcpServers"))["outlive"]
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_gets_its_file_with_the_absolute_program(host: str, tmp_path: Path) -> None:
    done = _install(tmp_path, host, "--state-dir", "some/where")
    assert done.returncode == 0, done.stderr
    path = tmp_path / _USER_FILES[host]
    server = _server(path)
    assert [server["command"], *server["args"]] == [
        *outlive_command(),
        "mcp",
        "--state-dir",
        str(tmp_path / "some/where"),
    ]
    assert Path(server["command"]).is_absolute()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert f"+++ {path}" in done.stdout
    assert "\x1b" not in done.stdout
    again = _install(tmp_path, host, "--state-dir", "some/where")
    assert again.returncode == 0
    assert again.stdout.startswith("Nothing to do")
    assert sorted(path.parent.glob(f"{path.name}.*")) == []


@pytest.mark.parametrize("host", HOSTS)
def test_a_project_has_a_file_of_its_own_or_is_refused(host: str, tmp_path: Path) -> None:
    done = _install(tmp_path, host, "--project", "--name", "mine", "--json")
    if host not in _PROJECT_FILES:
        assert (done.returncode, done.stdout) == (1, "")
        assert "--project" in done.stderr
        return
    answer = json.loads(done.stdout)
    path = tmp_path / _PROJECT_FILES[host]
    assert answer["path"] == str(path)
    assert answer["changed"] is True
    assert answer["backup"] is None
    assert json.loads(path.read_text())[HOSTS[host].section] == {"mine": answer["server"]}


def test_files_are_found_where_variables_have_moved_them(tmp_path: Path) -> None:
    environ = {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "CLAUDE_CONFIG_DIR": "/k"}
    assert config_path(HOSTS["claude-code"], environ) == "/k/.claude.json"
    assert config_path(HOSTS["vscode"], environ) == "/c/Code/User/mcp.json"
    assert config_path(HOSTS["cursor"], environ) == "/h/.cursor/mcp.json"
    assert (
        config_path(HOSTS["vscode"], {"HOME": "/h", "XDG_CONFIG_HOME": "c"})
        == "/h/.config/Code/User/mcp.json"
    )
    with pytest.raises(ConfigInvalid, match="HOME is not set"):
        config_path(HOSTS["cursor"], {})


def test_a_link_a_mode_and_every_older_backup_are_kept(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.json"
    old = '{"numStartups": 7, "mcpServers": {"other": {"command": "x"}}}'
    kept.write_text(old)
    kept.chmod(0o640)
    link = tmp_path / ".claude.json"
    link.symlink_to(kept)
    (tmp_path / ".claude.json.bak").write_text("older")
    done = _install(tmp_path, "claude-code", "--json")
    assert done.returncode == 0, done.stderr
    assert link.is_symlink()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert json.loads(kept.read_text())["numStartups"] == 7
    assert (tmp_path / ".claude.json.bak").read_text() == "older"
    backup = Path(json.loads(done.stdout)["backup"])
    assert backup == tmp_path / ".claude.json.bak.1"
    assert backup.read_text() == old
    assert stat.S_IMODE(backup.stat().st_mode) == 0o640
    removed = _install(tmp_path, "claude-code", "--remove", "--json")
    assert json.loads(removed.stdout)["backup"].endswith(".bak.2")
    assert kept.read_text() == old
    assert "Nothing to do" in _install(tmp_path, "claude-code", "--remove").stdout


def test_a_dry_run_shows_the_change_and_writes_nothing(tmp_path: Path) -> None:
    done = _install(tmp_path, "cursor", "--dry-run")
    assert '+    "outlive": {' in done.stdout
    assert "Nothing was written" in done.stdout
    answer = json.loads(_install(tmp_path, "cursor", "--dry-run", "--json").stdout)
    assert (answer["changed"], answer["would_change"]) == (False, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ['{\n  // mine\n  "servers": {}\n}\n', "{ broken", "[]", '{"servers": 1}'])
def test_a_file_that_cannot_be_changed_without_harm_is_left_alone_with_what_to_paste(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / _USER_FILES["vscode"]
    path.parent.mkdir(parents=True)
    path.write_text(text)
    done = _install(tmp_path, "vscode")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Paste this" in done.stderr
    assert json.loads(done.stderr[done.stderr.index("{\n") :])["servers"]["outlive"]["args"] == ["mcp"]
    assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]
    gone = _install(tmp_path, "vscode", "--remove")
    assert gone.returncode == 1
    assert "by hand" in gone.stderr


@pytest.mark.parametrize("words", [["emacs"], [], ["cursor", "--name", "a b"], ["cursor", "--name", ""]])
def test_a_mistake_is_a_usage_error(words: list[str], tmp_path: Path) -> None:
    done = _install(tmp_path, *words)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_somebody_else_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("theirs")
    change = FileChange(path=str(path), old="as it was read", new="ours")
    with pytest.raises(ConfigInvalid, match="changed by another program"):
        change.apply(mode=0o600)
    assert path.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "said"), [(b"\xff\xfe", "no UTF-8"), (None, "cannot be read")], ids=["latin", "folder"]
)
def test_what_is_no_text_file_is_refused(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / ".claude.json"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    done = _install(tmp_path, "claude-code")
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_on_a_terminal_the_diff_is_coloured_unless_that_is_not_wanted(tmp_path: Path) -> None:
    command = f"{' '.join(outlive_command())} install cursor --dry-run"
    said = {}
    for wanted in ("", "1"):
        env = {**os.environ, "HOME": str(tmp_path), "TERM": "xterm", "NO_COLOR": wanted}
        said[wanted] = subprocess.run(
            ["script", "-qec", command, "/dev/null"],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        ).stdout
    assert b"\x1b[32m+" in said[""]
    assert b"\x1b" not in said["1"]


def test_a_host_that_runs_what_was_written_speaks_mcp(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    _install(tmp_path, "claude-desktop", "--state-dir", str(state_dir))
    server = _server(tmp_path / _USER_FILES["claude-desktop"])
    env = {
        **os.environ,
        "OUTLIVE_JSONRPC_PORT": "0",
        "OUTLIVE_MCP_PORT": "0",
        "OUTLIVE_REST_PORT": "0",
        "OUTLIVE_BRIDGE_PORT": "0",
        "OUTLIVE_CONFIG": os.devnull,
    }
    asked = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "host", "version": "1"},
    }
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked})
    try:
        done = subprocess.run(
            [server["command"], *server["args"]],
            cwd="/",
            env=env,
            input=line + "\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "outlive"
    finally:
        leave_nothing(state_dir)
