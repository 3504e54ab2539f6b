"""Options about other servers (`FleetOptions`)."""

import re

from outlive.config.options import option, parse_folder, parse_words, websocket_url
from outlive.core.location import ANY, DOCKER, LOCAL
from outlive.core.values import dataclass

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


def parse_nodes(text: str) -> tuple[str, ...]:
    """Return NAME=URL for each node between commas, the URLs as WebSocket addresses."""
    found: dict[str, str] = {}
    for word in parse_words(text):
        name, separator, address = word.partition("=")
        if not separator or not _NAME.fullmatch(name):
            raise ValueError(
                f"{word[:60]!r} is not NAME=URL; a name has small letters, digits, dots, - and _"
            )
        if name in {LOCAL, DOCKER, ANY}:
            raise ValueError(f"{name!r} is no name for a node: it has a meaning of its own")
        if name in found:
            raise ValueError(f"there are two nodes {name!r}")
        found[name] = websocket_url(address)
    return tuple(f"{name}={address}" for name, address in found.items())


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """Other servers on which commands run."""

    nodes: tuple[str, ...] = option(
        "words",
        parse_nodes,
        "",
        (
            "Other outlive servers that commands may run on (`--backend NAME`), as NAME=URL, separated by "
            "commas."
        ),
        flag="--node",
        example="build=https://build.example:8003",
        mark="places",
    )

    @property
    def node_addresses(self) -> dict[str, str]:
        """The addresses of the nodes, by their names."""
        return dict(one.split("=", 1) for one in self.nodes)

    # A file, because other users of the machine can read flags.
    node_tokens: str = option(
        "file",
        parse_folder,
        "",
        "File with the nodes' tokens, a line NAME TOKEN each; only its owner may be able to read it. "
        "OUTLIVE_NODE_TOKEN_NAME in the environment comes first.",
        flag="--node-tokens",
        example="/etc/outlive/node-tokens",
        mark="secret file",
    )
    node_ca: str = option(
        "file",
        parse_folder,
        "",
        "PEM file of the authorities whose certificates count for nodes; the system's by default.",
        flag="--node-ca",
        example="/etc/outlive/ca.pem",
    )
