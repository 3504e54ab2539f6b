"""Each host's file as a user keeps it, with other servers and comments, and how a test reads what was
written.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from outlive.cli.output import show_error
from outlive.cli.runner import run_program
from outlive.core.errors import OutliveError
from outlive.extensions.hosts.table import HOSTS, PORTABLE
from tests.cli.launching import environment, run

USER_FILES = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "codex": ".codex/config.toml",
    "gemini-cli": ".gemini/settings.json",
    "copilot-cli": ".copilot/mcp-config.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "cline": ".cline/data/settings/cline_mcp_settings.json",
    "cline-vscode": ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
    "zed": ".config/zed/settings.json",
    "opencode": ".config/opencode/opencode.json",
    "goose": ".config/goose/config.yaml",
    PORTABLE: ".mcp.json",
}
PROJECT_FILES = {
    "claude-code": ".mcp.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "codex": ".codex/config.toml",
    "gemini-cli": ".gemini/settings.json",
    "zed": ".zed/settings.json",
    "opencode": "opencode.json",
    PORTABLE: ".mcp.json",
}
_JSON = (
    '{\n    "first":  1.50,\n    "SECTION": {\n        "mine": {"a": [1,2]}\n    },\n    "last": "\\u00e9"\n}'
)
_JSONC = """// settings of mine
{
  "first":  1.50, // as it was measured
  "SECTION": {
    // the one that works
    "mine": {"a": [1,2,],}, // "not": {}
    /* "old": {"command": "x"}, */
  },
  "last": "// no comment",
}
"""
_TOML = """# my settings
model = "o9"   # the large one

[SECTION.mine]
command = 'x'
env = { A = "b" } # why

# about the rest
[tui]
theme = "dark"
"""
_YAML = """# my settings
GOOSE_MODE: "auto"   # careful

SECTION:
    developer:
        bundled: true
        args: [a, 'b']

    # the one that works
    mine:
        name: mine

# about the rest
last: |
  text
"""
_TEXTS = {"json": _JSON, "jsonc": _JSONC, "toml": _TOML, "yaml": _YAML}


def sample(host: str) -> str:
    """Return a file of the host with other servers, and with comments where its format has them."""
    row = HOSTS[host]
    return _TEXTS[row.format].replace("SECTION", ".".join(row.section))


def document(host: str, text: str) -> dict[str, Any]:
    """Return what a text of the host's format means, by a parser that is not the editor's own."""
    found: dict[str, Any]
    match HOSTS[host].format:
        case "toml":
            found = tomllib.loads(text)
        case "yaml":
            found = yaml.safe_load(text)
        case _:
            # No string of the samples but one holds what looks like a comment.
            text = re.sub(r'(?m)(?<!")//.*$|/\*.*?\*/', "", text)
            found = json.loads(re.sub(r",(\s*[}\]])", r"\1", text))
    return found


def servers(host: str, path: Path) -> dict[str, Any]:
    """Return the servers of the host's file."""
    found = document(host, path.read_text())
    for name in HOSTS[host].section:
        found = found[name]
    return found


def words_of(entry: dict[str, Any]) -> list[str]:
    """Return the command line of an entry."""
    command = entry.get("command", entry.get("cmd"))
    assert command is not None
    return list(command) if isinstance(command, list) else [command, *entry["args"]]


def call(home: Path, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Call the command line in a home folder of its own, in which no variable names another place."""
    return run(*words, env=_environment(home, env), cwd=home)


def call_here(home: Path, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Do the same in this process, in a tenth of the time: what is imported and printed is the product's
    own.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment(_environment(home, env)), clear=True),
        contextlib.chdir(home),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = run_program(words)
        except OutliveError as error:
            show_error(error)
            code = 1
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def _environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    return {"HOME": str(home), **{row.moved_by: "" for row in HOSTS.values() if row.moved_by}, **extra}
