"""Nodes in the settings: names, addresses, tokens; and what is refused."""

from pathlib import Path

import pytest

from outlive.config import misspelt_names, resolve
from outlive.config.options import websocket_url
from outlive.core.errors import ConfigInvalid
from outlive.extensions.fleet.options import FleetOptions, parse_nodes
from outlive.extensions.fleet.ways import node_tokens


def _options(tmp_path: Path, **flags: str) -> FleetOptions:
    found = {"state_dir": str(tmp_path), **flags}
    return resolve(found, {}, working_folder="/").settings.of(FleetOptions)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://build.example:8003", "wss://build.example:8003/ws/mcp"),
        ("http://127.0.0.1:1/", "ws://127.0.0.1:1/ws/mcp"),
        ("ws://[::1]:8003/ws/mcp", "ws://[::1]:8003/ws/mcp"),
        ("wss://box/behind/ws/mcp", "wss://box/behind/ws/mcp"),
        ("build:8003", "ws://build:8003/ws/mcp"),
    ],
)
def test_an_address_may_be_written_as_people_do(text: str, url: str) -> None:
    assert websocket_url(text) == url


@pytest.mark.parametrize(
    "text",
    ["ftp://x", "http://", "https://u:p@x", "http://x?a=b", "http://x#y", "http://x:0", "http://x:99999"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"address|ort"):
        websocket_url(text)


def test_several_nodes_stand_between_commas() -> None:
    assert parse_nodes("a=http://x:1, b.c-d=https://y") == (
        "a=ws://x:1/ws/mcp",
        "b.c-d=wss://y/ws/mcp",
    )


@pytest.mark.parametrize(
    "text", ["x", "=http://x", "A=http://x", "local=http://x", "docker=http://x", "a=b=c://"]
)
def test_a_bad_node_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_nodes(text)
    with pytest.raises(ValueError, match="two nodes"):
        parse_nodes("a=http://x,a=http://y")


def test_tokens_come_from_a_private_file_and_the_environment_before_it(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# ours\na one\n\nb two\n")
    path.chmod(0o600)
    options = _options(tmp_path, nodes="a=http://x,b=http://y", node_tokens=str(path))
    assert node_tokens(options, {}) == {"a": "one", "b": "two"}
    assert node_tokens(options, {"OUTLIVE_NODE_TOKEN_B": "three"}) == {"a": "one", "b": "three"}
    path.chmod(0o644)
    with pytest.raises(ConfigInvalid, match="read by others"):
        node_tokens(options, {})
    path.chmod(0o600)
    path.write_text("only-a-name\n")
    with pytest.raises(ConfigInvalid, match="NAME TOKEN"):
        node_tokens(options, {})
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        node_tokens(_options(tmp_path, node_tokens=str(tmp_path / "none")), {})


def test_a_nodes_token_in_the_environment_is_not_misspelt() -> None:
    assert misspelt_names({"OUTLIVE_NODE_TOKEN_FAR": "x"}) == []


def test_a_server_does_not_start_where_another_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="another server"):
        resolve({"state_dir": str(tmp_path)}, {"OUTLIVE_HOST": "https://x:1"}, working_folder="/")
