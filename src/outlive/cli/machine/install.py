"""`outlive install`: writing an MCP host's configuration so that the host runs `outlive mcp`.

The MCP hosts that `outlive install` knows: where each keeps its configuration, and what it wants there. Pure.

Sources: Claude Code and Claude Desktop documentation ("MCP"), cursor.com/docs/mcp, code.visualstudio.com "MCP
configuration reference"; Claude Desktop and VS Code are Electron programs, which follow XDG_CONFIG_HOME.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outlive.cli.machine.file_change import (
    FileChange,
    NotJson,
    member,
    program_words,
    put_member,
    read_text,
    remove_member,
)
from outlive.cli.output import show, show_diff, show_json
from outlive.cli.parameters import DRY_RUN, JSON, STATE_DIR, UsageError, option, place, switch, takes
from outlive.core.errors import ConfigInvalid
from outlive.discovery.state_folder import layout_of, working_folder

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


_SECRET = 0o600  # a user's file may come to hold keys of other servers
_SHARED = 0o666  # a project's is committed


@takes(
    place("host", "|".join(HOSTS), about="The program that is to run `outlive mcp`."),
    option("--name", metavar="NAME", about="What the host calls it.", default="outlive"),
    switch("--project", about="In the project of this folder, not for all of yours."),
    switch("--remove", about="Take it out again."),
    DRY_RUN,
    STATE_DIR,
    JSON,
)
def install(
    *,
    host: str,
    name: str,
    project: bool,
    remove: bool,
    dry_run: bool,
    state_dir: str | None,
    as_json: bool,
) -> int:
    """Put the server `name` into the host's configuration, or take it out; say what changed.

    Raises:
        ConfigInvalid: The file cannot be changed without harm; the hint holds what to paste.
    """
    if not is_name(name):
        raise UsageError("Invalid value for --name: a name has 1 to 64 letters, digits, - and _.")
    folder = [] if state_dir is None else ["--state-dir", layout_of(state_dir).root]
    program = [*program_words(), "mcp", *folder]
    wanted = HOSTS[host]
    path = config_path(wanted, os.environ, project_folder=working_folder() if project else None)
    change = _change(wanted, path, name, program=program, remove=remove)
    backup = None
    if change.is_needed and not dry_run:
        backup = change.apply(mode=_SHARED if project else _SECRET)
    if as_json:
        show_json(_document(host, name, change, remove=remove, dry_run=dry_run, backup=backup))
        return 0
    if not change.is_needed:
        show(f"Nothing to do: {path} " + (f"has no {name}." if remove else f"runs it as {name} already."))
        return 0
    show_diff(change.diff)
    if dry_run:
        show(f"Nothing was written: this is what would change in {path}.")
        return 0
    show(f"Wrote {path}" + (f"; as it was: {backup}." if backup else "."))
    show(wanted.then)
    return 0


def _change(host: Host, path: str, name: str, *, program: Sequence[str], remove: bool) -> FileChange:
    old = read_text(path)
    try:
        if remove:
            return FileChange(path=path, old=old, new=None if old is None else without_entry(old, host, name))
        return FileChange(path=path, old=old, new=with_entry(old or "", host, name, program=program))
    except NotJson as error:
        raise ConfigInvalid(
            "config_invalid",
            f"{path} is not plain JSON ({error}): outlive would destroy what it cannot read, and leaves it alone.",
            hint=f'Take "{name}" out of "{host.section}" there by hand.'
            if remove
            else "Paste this there by hand:\n" + _snippet(host, name, program),
        ) from None


def _snippet(host: Host, name: str, program: Sequence[str]) -> str:
    return with_entry("", host, name, program=program).rstrip("\n")


def _document(
    host_name: str, name: str, change: FileChange, *, remove: bool, dry_run: bool, backup: str | None
) -> Mapping[str, object]:
    server = None if remove or change.new is None else json.loads(change.new)[HOSTS[host_name].section][name]
    return {
        "host": host_name,
        "name": name,
        "path": change.path,
        "changed": change.is_needed and not dry_run,
        "would_change": change.is_needed,
        "server": server,
        "backup": backup,
        "diff": change.diff,
    }
