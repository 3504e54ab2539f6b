"""`outlive install`: writing an MCP host's configuration so that the host runs `outlive mcp`."""

import json
import os
from collections.abc import Mapping, Sequence

from outlive.cli.machine.file_change import FileChange, NotJson, read_text
from outlive.cli.machine.hosts import HOSTS, Host, config_path, is_name, with_entry, without_entry
from outlive.cli.machine.own_command import program_words
from outlive.cli.output import show, show_diff, show_json
from outlive.cli.parameters import DRY_RUN, JSON, STATE_DIR, UsageError, option, place, switch, takes
from outlive.core.errors import ConfigInvalid
from outlive.discovery.state_folder import layout_of, working_folder

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
