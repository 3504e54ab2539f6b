"""Configuration files: order, unknown keys, values of every shape, and projects that may only tighten."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.config import ConfigFile, Origin, all_options, resolve
from outlive.config.resolution import is_tighter
from outlive.core.errors import ConfigInvalid

_HOME = {"HOME": "/ann"}
_KEYS = [option.key for option in all_options()]


def _user(text: str) -> ConfigFile:
    return ConfigFile("user", "/ann/.config/outlive/config.toml", text)


def _project(text: str) -> ConfigFile:
    return ConfigFile("project", "/src/.outlive.toml", text)


def _system(text: str) -> ConfigFile:
    return ConfigFile("system", "/etc/outlive/config.toml", text)


def test_the_order_is_flag_environment_project_user_system_default() -> None:
    files = [_system("max_connections = 6"), _user("max_connections = 5"), _project("max_connections = 4")]
    said: list[tuple[int, Origin]] = []
    flags, environ = {"max_connections": "2"}, _HOME | {"MAX_SESSIONS": "3"}
    for given_flags, given_environ, given_files in (
        (flags, environ, files),
        ({}, environ, files),
        ({}, _HOME, files),
        ({}, _HOME, files[:2]),
        ({}, _HOME, files[:1]),
        ({}, _HOME, []),
    ):
        resolution = resolve(given_flags, given_environ, working_folder="/", files=given_files)
        said.append((resolution.settings.max_connections, resolution.origins["max_connections"]))
    assert said == [
        (2, Origin("flag", "--max-connections", "2")),
        (3, Origin("environment", "MAX_SESSIONS", "3")),
        (4, Origin("project", "/src/.outlive.toml: max_connections", "4")),
        (5, Origin("user", "/ann/.config/outlive/config.toml: max_connections", "5")),
        (6, Origin("system", "/etc/outlive/config.toml: max_connections", "6")),
        (100, Origin("default", "--max-connections", "100")),
    ]


def test_values_may_be_text_numbers_switches_or_lists_and_keys_may_have_dashes() -> None:
    text = """
jsonrpc-port = 9003
mcp_port = "off"
grace = 2.5
retention = "7d"
disable_commands = true
print_json = false
allowed_commands = ["git", "ls"]
"""
    settings = resolve({}, _HOME, working_folder="/", files=[_user(text)]).settings
    assert (settings.jsonrpc_port, settings.mcp_port, settings.grace_s) == (9003, None, 2.5)
    assert settings.retention_s == 7 * 86400
    assert (settings.tools_disabled, settings.print_json) == (True, False)
    assert settings.allowed_commands == ("git", "ls")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("jsonrpc_prot = 1", ("config.toml", "jsonrpc_prot", "jsonrpc_port?")),
        ("zzz = 1", ("zzz", "config show")),
        ("[server]\nport = 1", ("server", "no option")),
        ("grace = [", ("no TOML", "key = value")),
        ("grace = [1, 2]", ("grace", "list of words")),
        ('allowed_commands = ["a,b"]', ("allowed_commands", "without commas")),
        ("grace = 1979-05-27", ("grace", "needs text")),
        ("jsonrpc_port = 70000", ("config.toml: jsonrpc_port = '70000'", "8003")),
    ],
)
def test_what_a_file_gets_wrong_is_named_with_the_file_and_a_hint(text: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        resolve({}, _HOME, working_folder="/", files=[_user(text)])
    told = f"{caught.value.message} {caught.value.hint}"
    assert all(part in told for part in parts), told


@pytest.mark.parametrize(
    ("user", "project"),
    [
        ("", "max_connections = 100"),
        ("", 'allowed_commands = ["git"]'),
        ('allowed_commands = ["git", "ls"]', 'allowed_commands = ["ls"]'),
        ("", 'allowed_patterns = ["git *"]'),
        ('blocked_patterns = ["rm *"]', 'blocked_patterns = ["rm *", "dd *"]'),
        ("", "disable_commands = true"),
        ("allow_sudo = true", "allow_sudo = false"),
        ("", 'mcp_tools = "lean"'),
        ('command_timeout = "10m"', 'command_timeout = "5m"'),
    ],
)
def test_a_project_may_tighten(user: str, project: str) -> None:
    resolution = resolve({}, _HOME, working_folder="/", files=[_user(user), _project(project)])
    assert "project" in {one.source for one in resolution.origins.values()}


@pytest.mark.parametrize(
    ("user", "project"),
    [
        ("", "max_connections = 101"),
        ('allowed_commands = ["git"]', 'allowed_commands = ["git", "ls"]'),
        ('allowed_commands = ["git"]', "allowed_commands = []"),
        ('allowed_patterns = ["git *"]', 'allowed_patterns = ["*"]'),
        ('blocked_patterns = ["rm *", "dd *"]', 'blocked_patterns = ["rm *"]'),
        ("disable_scripts = true", "disable_scripts = false"),
        ("", "allow_sudo = true"),
        ('mcp_tools = "lean"', 'mcp_tools = "all"'),
        ('mcp_tools = "lean"', 'mcp_tools = "documents"'),
        ('command_timeout = "10s"', 'command_timeout = "1m"'),
    ],
)
def test_a_project_may_not_loosen(user: str, project: str) -> None:
    with pytest.raises(ConfigInvalid, match="may only tighten"):
        resolve({}, _HOME, working_folder="/", files=[_user(user), _project(project)])


def test_a_project_may_not_touch_what_is_no_limit() -> None:
    for key, value in (
        ("state_dir", "/tmp"),
        ("mcp_api_key", ""),
        ("jsonrpc_port", "1"),
        ("log_level", "debug"),
    ):
        with pytest.raises(ConfigInvalid, match="may not decide"):
            resolve({}, _HOME, working_folder="/", files=[_project(f'{key} = "{value}"')])


def test_a_flag_may_loosen_what_a_project_tightened() -> None:
    resolution = resolve(
        {"allow_sudo": "on"}, _HOME, working_folder="/", files=[_project("allow_sudo = false")]
    )
    assert resolution.settings.allow_sudo


def test_only_the_options_that_are_looked_at_can_be_wrong() -> None:
    """A bad limit must not keep anybody from stopping the keeper."""
    options = [option for option in all_options() if option.name == "state_dir"]
    environ = _HOME | {"MAX_SESSIONS": "many"}
    files = [_user('state_dir = "/s"\nmax_connections = "many"')]
    resolution = resolve({}, environ, working_folder="/", files=files, options=options)
    assert resolution.settings.state_dir == "/s"
    assert resolution.settings.max_connections == 100


@given(st.lists(st.sampled_from(["a", "b", "c", "*"])), st.lists(st.sampled_from(["a", "b", "c", "*"])))
def test_a_subset_never_allows_a_word_that_was_not_allowed(value: list[str], than: list[str]) -> None:
    def allowed(words: list[str]) -> set[str]:
        return {"a", "b", "c"} if not words or "*" in words else set(words)

    if is_tighter("subset", tuple(value), than=tuple(than)):
        assert allowed(value) <= allowed(than)


@given(st.text(), st.sampled_from(["user", "project", "system"]))
def test_whatever_a_file_contains_it_is_read_or_refused(text: str, kind: str) -> None:
    file = ConfigFile(kind, "/f", text)  # type: ignore[arg-type]  # drawn from the three kinds
    message = "/f"
    try:
        resolve({}, _HOME, working_folder="/", files=[file])
    except ConfigInvalid as error:
        message = error.message
    assert "/f" in message


def test_keys_are_the_flags_with_underscores_and_unique() -> None:
    assert len(set(_KEYS)) == len(all_options())
    assert "jsonrpc_port" in _KEYS
