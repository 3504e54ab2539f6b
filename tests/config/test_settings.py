"""Resolution of settings: flags > environment > defaults, with errors that say where a value came from."""

import dataclasses
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from outlive.config import Settings, all_options, misspelt_names, resolve
from outlive.config.reference import render_reference
from outlive.core.errors import ConfigInvalid
from outlive.extensions.contract import OWN, extensions, load

_HOME = {"HOME": "/ann"}


def test_the_defaults_are_those_of_the_documents() -> None:
    resolution = resolve({}, _HOME, working_folder="/")
    settings = resolution.settings
    assert settings.state_dir == "/ann/.local/state/outlive"
    assert (settings.host, settings.jsonrpc_port) == ("127.0.0.1", 8003)
    assert (settings.max_connections, settings.max_line_bytes, settings.allowed_commands) == (100, 8192, ())
    assert (settings.reconnect_grace_s, settings.grace_s) == (10.0, 10.0)
    assert (settings.output_limit_bytes, settings.max_message_bytes) == (2 << 30, 16 << 20)
    assert not settings.print_json
    assert not settings.stop_processes
    assert {one.source for one in resolution.origins.values()} == {"default"}


@pytest.mark.promise("S0.12", "S0.15", "S0.7")
def test_the_environment_names_of_the_documents_are_read() -> None:
    environ = _HOME | {"MAX_SESSIONS": "3", "MAX_BUFFER_SIZE": "100", "ALLOWED_COMMANDS": "git, ls"}
    resolution = resolve({}, environ, working_folder="/")
    settings = resolution.settings
    assert (settings.max_connections, settings.max_line_bytes) == (3, 100)
    assert settings.allowed_commands == ("git", "ls")
    assert resolution.origins["max_connections"].source == "environment"


def test_a_flag_wins_over_the_environment_and_our_name_over_the_documents() -> None:
    environ = _HOME | {"MAX_SESSIONS": "3", "OUTLIVE_MAX_CONNECTIONS": "4"}
    assert resolve({}, environ, working_folder="/").settings.max_connections == 4
    resolution = resolve({"max_connections": "5"}, environ, working_folder="/")
    assert resolution.settings.max_connections == 5
    assert resolution.origins["max_connections"].source == "flag"


def test_an_empty_variable_counts_as_unset() -> None:
    assert resolve({}, _HOME | {"MAX_SESSIONS": ""}, working_folder="/").settings.max_connections == 100


@pytest.mark.parametrize(
    ("flags", "environ", "folder"),
    [
        ({}, {"XDG_STATE_HOME": "/var/state"}, "/var/state/outlive"),
        ({}, {"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/outlive"),
        ({}, {"OUTLIVE_STATE_DIR": "/s"}, "/s"),
        ({"state_dir": "sub/../state"}, {}, "/here/state"),
        ({"state_dir": "~/state"}, {"HOME": "/h"}, "/h/state"),
        ({"state_dir": "/s/"}, {}, "/s"),
    ],
)
def test_the_state_folder_is_found(flags: dict[str, str], environ: dict[str, str], folder: str) -> None:
    assert resolve(flags, environ, working_folder="/here").settings.state_dir == folder


def test_without_a_home_the_state_folder_must_be_named() -> None:
    with pytest.raises(ConfigInvalid, match="HOME") as caught:
        resolve({}, {}, working_folder="/")
    assert "--state-dir" in caught.value.hint


@pytest.mark.parametrize(
    ("flags", "environ", "named"),
    [
        ({"jsonrpc_port": "x"}, {}, "--jsonrpc-port='x'"),
        ({}, {"MAX_SESSIONS": "many"}, "MAX_SESSIONS='many'"),
    ],
)
def test_an_error_names_the_source_and_shows_an_example(
    flags: dict[str, str], environ: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigInvalid, match=re.escape(named)) as caught:
        resolve(flags, _HOME | environ, working_folder="/")
    assert caught.value.code == "config_invalid"
    example = re.search(r"=(\S+)\.$", caught.value.hint)
    assert example is not None
    name = caught.value.details["option"]
    resolve({str(name): example[1]}, _HOME, working_folder="/")


def test_what_is_no_address_is_refused_with_a_reason() -> None:
    with pytest.raises(ConfigInvalid, match="an address of this machine"):
        resolve({"host": "example.com"}, _HOME, working_folder="/")


def test_every_option_is_described_once_and_completely() -> None:
    tables = (Settings, *(load(one.options) for one in extensions() if one.options))
    hints = {name: hint for table in tables for name, hint in get_type_hints(table).items()}
    declared = [entry.name for table in tables for entry in dataclasses.fields(table) if entry.metadata]
    assert [option.name for option in all_options()] == declared
    assert len(declared) == len(set(declared))
    for names in (
        [option.flag for option in all_options()],
        [name for option in all_options() for name in option.env],
    ):
        assert len(names) == len(set(names))
    for option in all_options():
        assert option.sentence.endswith((".", ")."))
        assert option.flag == option.flag.lower()
        assert option.example
        kinds = get_args(hints[option.name]) or (hints[option.name],)
        value = option.parse(option.example)
        assert isinstance(
            value,
            tuple
            if str in kinds and option.kind in {"words", "folders", "patterns", "addresses", "program"}
            else kinds,
        ), option.name
        for suffix, unit in {"_s": "seconds", "_bytes": "bytes"}.items():
            assert (option.unit == unit) == option.name.endswith(suffix), option.name


def test_a_misspelt_variable_is_noticed() -> None:
    environ = {
        "OUTLIVE_RECONECT_GRACE": "1",
        "OUTLIVE_PROCESS_ID": "x",
        "OUTLIVE_HOST": "::1",
        "PATH": "/bin",
    }
    assert misspelt_names(environ) == [("OUTLIVE_RECONECT_GRACE", "OUTLIVE_RECONNECT_GRACE")]
    assert misspelt_names({}) == []


@pytest.mark.skipif(any(one not in extensions() for one in OWN), reason="the page has all extensions")
def test_the_documentation_page_is_the_one_made_from_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text() == render_reference(), "python -m outlive.config.reference > docs/settings.md"
