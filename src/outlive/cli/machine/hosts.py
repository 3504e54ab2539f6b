"""The MCP hosts that `outlive install` knows: where each keeps its configuration, and what it wants there. Pure.

Sources: Claude Code and Claude Desktop documentation ("MCP"), cursor.com/docs/mcp, code.visualstudio.com "MCP
configuration reference"; Claude Desktop and VS Code are Electron programs, which follow XDG_CONFIG_HOME.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outlive.cli.machine.file_change import member, put_member, remove_member
from outlive.core.errors import ConfigInvalid

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what Claude Code takes; the others take more
_OTHER_TRANSPORTS = ("url", "headers")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host: its files relative to where they lie, the object that lists its servers, and what to do afterwards."""

    title: str
    section: str
    user_file: str
    user_base: str  # "home", "config" ($XDG_CONFIG_HOME), or the variable that moves the file
    project_file: str | None
    names_type: bool  # whether its own entries carry "type": "stdio"
    then: str


HOSTS: Mapping[str, Host] = {
    "claude-code": Host(
        title="Claude Code",
        section="mcpServers",
        user_file=".claude.json",
        user_base="CLAUDE_CONFIG_DIR",
        project_file=".mcp.json",
        names_type=True,
        then="Claude Code reads it at its next start; /mcp shows it there.",
    ),
    "claude-desktop": Host(
        title="Claude Desktop",
        section="mcpServers",
        user_file="Claude/claude_desktop_config.json",
        user_base="config",
        project_file=None,
        names_type=False,
        then="Quit Claude Desktop altogether and start it again.",
    ),
    "cursor": Host(
        title="Cursor",
        section="mcpServers",
        user_file=".cursor/mcp.json",
        user_base="home",
        project_file=".cursor/mcp.json",
        names_type=False,
        then="Restart Cursor; its settings list the server under MCP.",
    ),
    "vscode": Host(
        title="VS Code",
        section="servers",
        user_file="Code/User/mcp.json",
        user_base="config",
        project_file=".vscode/mcp.json",
        names_type=True,
        then='VS Code asks before it first starts the server; "MCP: List Servers" shows it.',
    ),
}


def is_name(text: str) -> bool:
    """Tell whether every host takes this name for a server."""
    return _NAME.fullmatch(text) is not None


def config_path(host: Host, environ: Mapping[str, str], *, project_folder: str | None = None) -> str:
    """Return the path of the host's file: the user's, or that of the project in `project_folder`.

    Raises:
        ConfigInvalid: The host has no project file, or there is no home folder.
    """
    if project_folder is not None:
        if host.project_file is None:
            raise ConfigInvalid(
                "config_invalid",
                f"{host.title} has no configuration of its own for a project.",
                hint="Leave out --project.",
            )
        return os.path.join(project_folder, host.project_file)
    return os.path.join(_user_base(host, environ), host.user_file)


def _user_base(host: Host, environ: Mapping[str, str]) -> str:
    moved = environ.get("XDG_CONFIG_HOME" if host.user_base == "config" else host.user_base, "")
    if host.user_base != "home" and moved.startswith("/"):
        return moved
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        raise ConfigInvalid(
            "config_invalid",
            f"There is no home folder to find {host.title}'s configuration in (HOME is not set).",
            hint="Set HOME, or use --project.",
        )
    return f"{home}/.config" if host.user_base == "config" else home


def with_entry(text: str, host: Host, name: str, *, program: Sequence[str]) -> str:
    """Return the host's document with a server `name` that runs `program`; everything else stays as it is.

    What a user has added to our entry (`env` for instance) stays, too.

    Raises:
        NotJson: The document cannot be understood.
    """
    ours: dict[str, object] = {"command": program[0], "args": list(program[1:])}
    if host.names_type:
        ours = {"type": "stdio", **ours}
    old = member(text, host.section, name) if text.strip() else None
    kept = dict(old) if isinstance(old, dict) else {}
    for key in _OTHER_TRANSPORTS:
        kept.pop(key, None)
    if not host.names_type and kept.get("type", "stdio") != "stdio":
        del kept["type"]
    return put_member(text, host.section, name, value={**kept, **ours})


def without_entry(text: str, host: Host, name: str) -> str:
    """Return the host's document without the server `name`.

    Raises:
        NotJson: The document cannot be understood.
    """
    return remove_member(text, host.section, name)
