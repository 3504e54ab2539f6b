"""Other servers that commands may run on: `NodeSettings`."""

import re
from dataclasses import dataclass

from outlive.config.declaration import option
from outlive.config.values import parse_folder, parse_words
from outlive.config.web_address import websocket_url
from outlive.core.location import DOCKER, LOCAL

NODE_TOKEN = "OUTLIVE_NODE_TOKEN_"  # noqa: S105 -- the beginning of variables' names

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def parse_nodes(text: str) -> tuple[str, ...]:
    """Return NAME=URL with WebSocket addresses, from those between commas."""
    found: dict[str, str] = {}
    for word in parse_words(text):
        name, separator, address = word.partition("=")
        if not separator or not _NAME.fullmatch(name):
            raise ValueError(
                f"{word[:60]!r} is not NAME=URL; a name has small letters, digits, dots, - and _"
            )
        if name in {LOCAL, DOCKER}:
            raise ValueError(f"{name!r} is no name for a node: it stands for this machine")
        if name in found:
            raise ValueError(f"there are two nodes {name!r}")
        found[name] = websocket_url(address)
    return tuple(f"{name}={address}" for name, address in found.items())


@dataclass(frozen=True, kw_only=True)
class NodeSettings:
    """The part of `Settings` that names other servers as backends."""

    nodes: tuple[str, ...] = option(
        "words",
        parse_nodes,
        "",
        "Other outlive servers that commands may run on (`--backend NAME`), as NAME=URL, separated by commas.",
        flag="--node",
        example="build=https://build.example:8003",
    )
    node_tokens: str = option(
        "file",
        parse_folder,
        "",
        "File with the nodes' tokens, a line NAME TOKEN each; nobody else may read it. "
        "OUTLIVE_NODE_TOKEN_<NAME> in the environment comes first.",
        flag="--node-tokens",
        example="/etc/outlive/node-tokens",
    )
    node_ca: str = option(
        "file",
        parse_folder,
        "",
        "PEM file of the authorities whose certificates count for nodes; the system's by default.",
        flag="--node-ca",
        example="/etc/outlive/ca.pem",
    )
