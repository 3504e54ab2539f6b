"""`outlive config show`, and where configuration files are looked for."""

import json
import os
from pathlib import Path

import pytest

from outlive.config import all_options, resolve
from outlive.core.errors import ConfigInvalid
from outlive.core.layout import VARIABLE
from outlive.discovery.config_files import PROJECT_FILE, read_config_files
from outlive.discovery.config_paths import user_file
from outlive.discovery.state_folder import path_of
from tests.support.server import run_outlive


def test_the_users_file_lies_where_xdg_says() -> None:
    assert user_file({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == "/c/outlive/config.toml"
    assert user_file({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}) == "/h/.config/outlive/config.toml"
    assert user_file({}) is None


def test_the_nearest_project_file_counts_and_one_named_file_replaces_users_and_systems(
    tmp_path: Path,
) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    (tmp_path / PROJECT_FILE).write_text("max_connections = 1")
    (tmp_path / "a" / PROJECT_FILE).write_text("max_connections = 2")
    named = tmp_path / "mine.toml"
    named.write_text("max_connections = 3")
    home = tmp_path / ".config" / "outlive"
    home.mkdir(parents=True)
    (home / "config.toml").write_text("max_connections = 4")
    environ = {"HOME": str(tmp_path)}
    found = read_config_files(environ, working_folder=str(below))
    assert [(file.kind, file.text) for file in found if file.kind != "system"] == [
        ("user", "max_connections = 4"),
        ("project", "max_connections = 2"),
    ]
    found = read_config_files(environ | {"OUTLIVE_CONFIG": str(named)}, working_folder=str(below))
    assert [(file.kind, file.text) for file in found] == [
        ("user", "max_connections = 3"),
        ("project", "max_connections = 2"),
    ]
    assert (
        read_config_files(
            environ | {"OUTLIVE_CONFIG": os.devnull}, working_folder=str(below), with_project=False
        )[0].text
        == ""
    )


@pytest.mark.root("only root can give a file away")
def test_a_project_file_of_another_user_is_left_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / PROJECT_FILE
    path.write_text("max_connections = 1")
    os.chown(path, 12345, -1)
    environ = {"HOME": "/nowhere", "OUTLIVE_CONFIG": os.devnull}
    said: list[str] = []
    found = read_config_files(environ, working_folder=str(tmp_path), say=said.append)
    assert [file.kind for file in found] == ["user"]
    assert "belongs to another user" in said[0]


def test_a_named_file_that_is_missing_a_folder_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "folder").mkdir()
    for name, part in (("missing", "is not there"), ("folder", "cannot be read"), ("bytes", "no UTF-8")):
        with pytest.raises(ConfigInvalid, match=part):
            read_config_files({"OUTLIVE_CONFIG": str(tmp_path / name)}, working_folder="/")


def test_config_show_tells_values_and_origins_and_hides_the_key(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('retention = "7d"')
    environ = {"OUTLIVE_CONFIG": str(config), "MCP_API_KEY": "a-secret", "MAX_SESSIONS": "3"}
    done = run_outlive("config", "show", "--origin", "--json", state_dir=tmp_path, env=environ)
    shown = json.loads(done.stdout)
    assert shown["retention"] == {"value": "7d", "source": "user", "place": f"{config}: retention"}
    assert shown["max_connections"] == {"value": "3", "source": "environment", "place": "MAX_SESSIONS"}
    assert shown["jsonrpc_port"]["source"] == "default"
    assert shown["mcp_api_key"]["value"] == "(hidden)"
    assert "a-secret" not in done.stdout + done.stderr
    plain = run_outlive("config", "show", "--origin", state_dir=tmp_path, env=environ)
    assert "retention" in plain.stdout
    assert f"# user: {config}: retention" in plain.stdout


def test_a_misspelt_key_stops_the_start_with_a_suggestion(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("jsonrpc_prot = 1")
    done = run_outlive("serve", state_dir=tmp_path, env={"OUTLIVE_CONFIG": str(config)})
    assert done.returncode == 1
    assert "jsonrpc_prot" in done.stderr
    assert "Did you mean jsonrpc_port?" in done.stderr


@pytest.mark.parametrize(
    ("state_dir", "environ"),
    [
        (None, {}),
        (None, {"XDG_STATE_HOME": "/x"}),
        (None, {"XDG_STATE_HOME": "relative"}),
        (None, {"OUTLIVE_STATE_DIR": "~/s"}),
        (None, {"OUTLIVE_STATE_DIR": ""}),
        ("below", {"OUTLIVE_STATE_DIR": "/e"}),
        ("", {"OUTLIVE_STATE_DIR": "/e"}),
        ("~", {}),
    ],
)
def test_the_folder_is_the_same_where_the_settings_are_not_asked(
    state_dir: str | None, environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a configuration file `path_of` takes a shorter way than `resolve`."""
    for name in ("OUTLIVE_STATE_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "OUTLIVE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": str(tmp_path), **environ}.items():
        monkeypatch.setenv(name, value)
    flags = {} if state_dir is None else {"state_dir": state_dir}
    resolved = resolve(flags, os.environ, working_folder=os.getcwd()).settings.state_dir
    assert path_of(state_dir) == resolved


def test_the_variable_of_the_folder_is_the_options_own() -> None:
    assert [one.env for one in all_options() if one.name == "state_dir"] == [(VARIABLE,)]
