"""`outlive install` and `uninstall`: which file is meant, what is kept of it, backups, several hosts at once,
mistakes.
"""

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from outlive.cli.machine.file_change import FileChange
from outlive.core.errors import ConfigInvalid
from outlive.extensions.hosts.entry import config_path
from outlive.extensions.hosts.table import HOSTS, PORTABLE
from outlive.frontends.mcp.tools.table import TOOL_SETS
from tests.extensions.hosts.samples import PROJECT_FILES, USER_FILES, call, call_here, servers, words_of
from tests.support.server import outlive_command


@pytest.mark.parametrize("host", HOSTS)
def test_a_project_has_a_file_of_its_own_or_is_refused(host: str, tmp_path: Path) -> None:
    done = call_here(tmp_path, "install", host, "--project", "--name", "mine", "--json")
    if host not in PROJECT_FILES:
        assert (done.returncode, done.stdout) == (1, "")
        assert "--project" in done.stderr
        return
    answer = json.loads(done.stdout)
    path = tmp_path / PROJECT_FILES[host]
    assert answer["path"] == str(path)
    assert (answer["changed"], answer["backup"]) == (True, None)
    assert servers(host, path) == {"mine": answer["server"]}
    call_here(tmp_path, "uninstall", host, "--project", "--name", "mine")
    assert not path.exists()


def test_files_are_found_where_variables_have_moved_them(tmp_path: Path) -> None:
    environ = {"HOME": "/h", "XDG_CONFIG_HOME": "/c", "CLAUDE_CONFIG_DIR": "/k", "CODEX_HOME": "/x"}
    assert config_path(HOSTS["claude-code"], environ) == "/k/.claude.json"
    assert config_path(HOSTS["vscode"], environ) == "/c/Code/User/mcp.json"
    assert config_path(HOSTS["cursor"], environ) == "/h/.cursor/mcp.json"
    assert config_path(HOSTS["codex"], environ) == "/x/config.toml"
    assert (
        config_path(HOSTS["vscode"], {"HOME": "/h", "XDG_CONFIG_HOME": "c"})
        == "/h/.config/Code/User/mcp.json"
    )
    with pytest.raises(ConfigInvalid, match="HOME is not set"):
        config_path(HOSTS["cursor"], {})


def test_of_two_names_that_a_host_reads_the_one_that_is_there_is_changed(tmp_path: Path) -> None:
    path = tmp_path / ".config/opencode/opencode.jsonc"
    path.parent.mkdir(parents=True)
    path.write_text("{\n  // mine\n}\n")
    call_here(tmp_path, "install", "opencode")
    assert [one.name for one in path.parent.glob("opencode.json*") if ".bak" not in one.name] == [path.name]
    assert "// mine" in path.read_text()


@pytest.mark.parametrize("words", [["install", "claude-code", "--remove"], ["uninstall", "claude-code"]])
def test_a_link_a_mode_and_every_older_backup_are_kept(words: list[str], tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.json"
    old = '{"numStartups": 7, "mcpServers": {"other": {"command": "x"}}}'
    kept.write_text(old)
    kept.chmod(0o640)
    link = tmp_path / ".claude.json"
    link.symlink_to(kept)
    (tmp_path / ".claude.json.bak").write_text("older")
    done = call(tmp_path, "install", "claude-code", "--json")
    assert done.returncode == 0, done.stderr
    assert link.is_symlink()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert json.loads(kept.read_text())["numStartups"] == 7
    assert (tmp_path / ".claude.json.bak").read_text() == "older"
    backup = Path(json.loads(done.stdout)["backup"])
    assert backup == tmp_path / ".claude.json.bak.1"
    assert backup.read_text() == old
    assert stat.S_IMODE(backup.stat().st_mode) == 0o640
    removed = call(tmp_path, *words, "--json")
    assert json.loads(removed.stdout)["backup"].endswith(".bak.2")
    assert kept.read_text() == old
    assert link.is_symlink()
    assert "Nothing to do" in call(tmp_path, *words).stdout


@pytest.mark.root("only root gives files away")
def test_a_file_keeps_its_owner_and_so_do_its_backups(tmp_path: Path) -> None:
    path = tmp_path / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text("a = 1\n")
    os.chown(path, 65534, 65534)
    done = call_here(tmp_path, "install", "codex", "--json")
    for one in (path, Path(json.loads(done.stdout)["backup"])):
        assert (one.stat().st_uid, one.stat().st_gid) == (65534, 65534)


def test_a_link_to_nothing_stays_a_link(tmp_path: Path) -> None:
    link = tmp_path / ".claude.json"
    link.symlink_to(tmp_path / "dotfiles.json")
    call_here(tmp_path, "install", "claude-code")
    call_here(tmp_path, "uninstall", "claude-code")
    assert link.is_symlink()
    assert json.loads(link.read_text()) == {}


def test_what_others_have_added_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {}}\n')
    call_here(tmp_path, "install", "cursor")
    path.write_text(path.read_text().replace('{"mcpServers": {', '{"new": 1, "mcpServers": {"x": {}, '))
    call_here(tmp_path, "uninstall", "cursor")
    assert json.loads(path.read_text()) == {"new": 1, "mcpServers": {"x": {}}}


def test_an_entry_that_came_back_with_a_backup_is_removed_again(tmp_path: Path) -> None:
    path = tmp_path / ".cursor/mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {}}\n')
    call_here(tmp_path, "install", "cursor")
    installed = path.read_text()
    for _ in range(2):
        path.write_text(installed)
        call_here(tmp_path, "uninstall", "cursor")
        assert path.read_text() == '{"mcpServers": {}}\n'


def test_a_dry_run_shows_the_change_and_writes_nothing(tmp_path: Path) -> None:
    done = call_here(tmp_path, "install", "cursor", "--dry-run")
    assert '+    "outlive": {' in done.stdout
    assert "Nothing was written" in done.stdout
    answer = json.loads(call_here(tmp_path, "install", "cursor", "--dry-run", "--json").stdout)
    assert (answer["changed"], answer["would_change"]) == (False, True)
    assert list(tmp_path.iterdir()) == []
    call_here(tmp_path, "install", "cursor")
    text = (tmp_path / ".cursor/mcp.json").read_text()
    gone = call_here(tmp_path, "uninstall", "cursor", "--dry-run")
    assert "+++ /dev/null" in gone.stdout
    assert (tmp_path / ".cursor/mcp.json").read_text() == text


def _program(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_all_hosts_that_are_there_are_set_up_and_reported_each(tmp_path: Path) -> None:
    """One is known by its folder, one by its file, one by its program.

    A broken one keeps no other from its entry.
    """
    programs = tmp_path / "programs"
    _program(programs, "goose")
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".claude.json").write_text("{}")
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor/mcp.json").write_text("{broken")
    done = call(tmp_path, "install", "--all", "--json", PATH=str(programs))
    assert done.returncode == 1
    outcomes = {one["host"]: one for one in json.loads(done.stdout)["hosts"]}
    assert list(outcomes) == ["claude-code", "cursor", "codex", "goose"]
    assert outcomes["cursor"]["error"]["code"] == "config_invalid"
    assert "Paste this" in outcomes["cursor"]["error"]["hint"]
    for host in ("claude-code", "codex", "goose"):
        assert outcomes[host]["changed"] is True
        assert servers(host, tmp_path / USER_FILES[host])["outlive"] == outcomes[host]["server"]
    (tmp_path / ".cursor/mcp.json").unlink()
    told = call(tmp_path, "install", "--all", PATH=str(programs))
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("Nothing to do") == 3
    assert f"Wrote {tmp_path}/.cursor/mcp.json" in told.stdout
    gone = call(tmp_path, "uninstall", "--all")
    assert gone.returncode == 0
    assert (tmp_path / ".claude.json").read_text() == "{}"
    assert gone.stdout.count("Removed") == 3
    assert "Nothing to do" not in gone.stdout
    assert "no host has outlive" in call(tmp_path, "uninstall", "--all").stdout


def test_all_without_any_host_names_those_that_there_are(tmp_path: Path) -> None:
    done = call_here(tmp_path, "install", "--all", PATH=str(tmp_path))
    assert done.returncode == 1
    assert all(host in done.stderr for host in HOSTS)


def test_every_tool_set_of_the_setting_may_be_chosen_and_no_other(tmp_path: Path) -> None:
    for tools in TOOL_SETS:
        call_here(tmp_path, "install", "codex", "--tools", tools)
        assert words_of(servers("codex", tmp_path / ".codex/config.toml")["outlive"])[-1] == tools
    done = call_here(tmp_path, "install", "codex", "--tools", "fat")
    assert done.returncode == 2
    assert "lean" in done.stderr


def test_an_entry_for_an_address_becomes_one_for_a_command(tmp_path: Path) -> None:
    old = {"type": "http", "url": "http://127.0.0.1:8888/mcp", "headers": {"X": "y"}, "env": {"A": "b"}}
    for host, kept in (("claude-code", {"type": "stdio"}), ("cursor", {})):
        path = tmp_path / USER_FILES[host]
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"mcpServers": {"outlive": old}}))
        call_here(tmp_path, "install", host)
        entry = servers(host, path)["outlive"]
        assert words_of(entry) == [*outlive_command(), "mcp", "--mcp-tools", "lean"]
        assert {name: entry[name] for name in entry if name not in {"command", "args"}} == {
            **kept,
            "env": {"A": "b"},
        }


def test_an_entry_on_one_line_of_toml_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / ".codex/config.toml"
    path.parent.mkdir()
    ours = 'outlive = { command = "old", env = { A = "b" }, timeout = 1.5 }'
    text = f'[mcp_servers]\n{ours}\nother.command = "x"\n'
    path.write_text(text)
    call_here(tmp_path, "install", "codex")
    entry = servers("codex", path)["outlive"]
    assert entry == {**entry, "env": {"A": "b"}, "timeout": 1.5, "command": outlive_command()[0]}
    assert 'other.command = "x"\n' in path.read_text()
    text = text.replace("1.5", "1979-05-27")
    path.write_text(text)
    done = call_here(tmp_path, "install", "codex")
    assert (done.returncode, "a date or a time" in done.stderr) == (1, True)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "words",
    [
        ["install", "emacs"],
        ["install"],
        ["uninstall"],
        ["install", "cursor", "--all"],
        ["install", "--all", "--project"],
        ["install", "cursor", "--name", "a b"],
        ["install", "cursor", "--name", ""],
    ],
)
def test_a_mistake_is_a_usage_error(words: list[str], tmp_path: Path) -> None:
    done = call_here(tmp_path, *words)
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_another_program_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
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
    done = call_here(tmp_path, "install", "claude-code")
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_the_portable_entry_says_when_no_program_of_its_name_is_on_the_path(tmp_path: Path) -> None:
    done = call_here(tmp_path, "install", PORTABLE, PATH=str(tmp_path))
    assert words_of(servers(PORTABLE, tmp_path / ".mcp.json")["outlive"])[0] == "outlive"
    assert "PATH" in done.stderr


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


@pytest.mark.parametrize("verb", ["install", "uninstall"])
@pytest.mark.parametrize("host", PROJECT_FILES)
@pytest.mark.parametrize("is_folder", [False, True], ids=["file", "folder"])
def test_a_repository_leads_a_change_of_its_project_nowhere_else(
    host: str, verb: str, is_folder: bool, tmp_path: Path
) -> None:
    """Neither is written elsewhere, nor shown: a diff would have the lines around."""
    outside, project = tmp_path / "outside", tmp_path / "project"
    outside.mkdir()
    project.mkdir()
    path = project / PROJECT_FILES[host]
    elsewhere = outside / path.name
    call_here(outside, "install", host, "--project")  # so that there is something to take out, too
    (outside / PROJECT_FILES[host]).rename(elsewhere)
    before = {one: one.read_bytes() for one in outside.rglob("*") if one.is_file()}
    if is_folder and path.parent != project:
        path.parent.symlink_to(outside)
    else:
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(elsewhere)
    for words in ([], ["--dry-run"]):
        done = call_here(project, verb, host, "--project", *words)
        assert done.returncode == 1
        assert "outside" in done.stderr
        assert "command" not in done.stdout + done.stderr
    assert {one: one.read_bytes() for one in outside.rglob("*") if one.is_file()} == before
    assert path.is_symlink() or path.parent.is_symlink()


@pytest.mark.parametrize("host", PROJECT_FILES)
def test_a_repository_keeps_no_installation_waiting(host: str, tmp_path: Path) -> None:
    path = tmp_path / PROJECT_FILES[host]
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    done = call_here(tmp_path, "install", host, "--project")
    assert done.returncode == 1
    assert "no regular file" in done.stderr


def test_a_backup_that_is_a_link_is_not_read_and_not_written(tmp_path: Path) -> None:
    outside, project = tmp_path / "outside", tmp_path / "project"
    project.mkdir()
    outside.write_text("{}")
    (project / ".mcp.json").write_text('{"mcpServers": {}}')
    for name in (".mcp.json.bak", ".mcp.json.bak.1"):
        (project / name).symlink_to(outside)
    done = call_here(project, "install", "claude-code", "--project", "--json")
    assert json.loads(done.stdout)["backup"] == str(project / ".mcp.json.bak.2")
    assert call_here(project, "uninstall", "claude-code", "--project").returncode == 0
    assert outside.read_text() == "{}"
    assert servers("claude-code", project / ".mcp.json") == {}
