"""`outlive install` and `outlive uninstall`: our entry in the configuration of an MCP host, or of all that
are there.

What a host's file looks like is in `hosts`; this file reads it, shows what changes, writes, and reports.
"""

import os
import shutil
from collections.abc import Mapping, Sequence

from outlive.cli.machine.file_change import FileChange, backup_texts, read_text
from outlive.cli.machine.program_path import program_words, short_lived
from outlive.cli.output import say, show, show_diff, show_error, show_json
from outlive.cli.parameters import DRY_RUN, JSON, STATE_DIR, UsageError, option, place, switch, takes
from outlive.core.errors import ConfigInvalid
from outlive.core.values import dataclass
from outlive.discovery.state_folder import layout_of
from outlive.extensions.hosts.editor import FormatName, NotEditable
from outlive.extensions.hosts.entry import (
    config_path,
    entry_in,
    is_here,
    is_name,
    text_before,
    with_entry,
    without_entry,
)
from outlive.extensions.hosts.table import HOSTS, PORTABLE, Host
from outlive.kernel.project import working_folder

_SECRET = 0o600  # a user's file may come to hold keys of other servers
_SHARED = 0o666  # a project's is committed
_BLANK = frozenset({"", "{}"})  # what is left of a document that held nothing but our entry
_FORMATS: Mapping[FormatName, str] = {
    "json": "plain JSON",
    "jsonc": "JSON with comments",
    "toml": "TOML",
    "yaml": "YAML",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """What was asked for, for one host or many; `program` is None where the entry is to go."""

    name: str
    program: Sequence[str] | None
    is_project: bool
    is_dry_run: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one host's file."""

    host: str
    change: FileChange
    backup: str | None
    server: object | None


def _about_tools() -> str:
    # Start-up time: completion imports this file, and only a help page shows the sentence.
    from outlive.config import all_options  # noqa: PLC0415

    return next(one for one in all_options() if one.name == "mcp_tools").sentence


_HOST = place("host", "|".join(HOSTS), about="The program that is to run `outlive mcp`.", is_required=False)
_NAME = option("--name", metavar="NAME", about="What the host calls it.", default="outlive")
_PROJECT = switch("--project", about="In the project of this folder, not for all of yours.")


@takes(
    _HOST,
    switch("--all", about="Each host that is on this machine.", to="all_hosts"),
    option("--tools", metavar="SET", about=_about_tools, default="lean"),
    _NAME,
    _PROJECT,
    switch("--remove", about="Take it out again, as `outlive uninstall` does."),
    DRY_RUN,
    STATE_DIR,
    JSON,
)
def install(
    *,
    host: str | None,
    all_hosts: bool,
    tools: str,
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
    folder = [] if state_dir is None else ["--state-dir", layout_of(state_dir).root]
    words = ["mcp", "--mcp-tools", _tool_set(tools), *folder]
    program = None if remove else words
    wish = _Wish(name=name, program=program, is_project=project, is_dry_run=dry_run)
    return _carry_out(_chosen(host, all_hosts, wish), wish, is_list=all_hosts, as_json=as_json)


@takes(
    _HOST,
    switch("--all", about="Each host that has it.", to="all_hosts"),
    _NAME,
    _PROJECT,
    DRY_RUN,
    JSON,
)
def uninstall(
    *, host: str | None, all_hosts: bool, name: str, project: bool, dry_run: bool, as_json: bool
) -> int:
    """Take the server `name` out of the host's configuration; say what changed.

    Raises:
        ConfigInvalid: The file cannot be changed without harm.
    """
    wish = _Wish(name=name, program=None, is_project=project, is_dry_run=dry_run)
    return _carry_out(_chosen(host, all_hosts, wish), wish, is_list=all_hosts, as_json=as_json)


def _tool_set(text: str) -> str:
    # Start-up time: completion imports this file, and the settings are a third of a second of it.
    from outlive.config import all_options  # noqa: PLC0415

    try:
        return str(next(one for one in all_options() if one.name == "mcp_tools").parse(text))
    except ValueError as error:
        raise UsageError(f"Invalid value for --tools: {error}.") from None


def _chosen(host: str | None, all_hosts: bool, wish: _Wish) -> Sequence[str]:  # noqa: FBT001 -- a flag as given
    """Return the hosts that are meant.

    Raises:
        ConfigInvalid: All were asked for, and none is there.
    """
    if not is_name(wish.name):
        raise UsageError("Invalid value for --name: a name has 1 to 64 letters, digits, - and _.")
    if host is not None and not all_hosts:
        return [host]
    if host is not None or wish.is_project:
        raise UsageError("--all takes neither a host nor --project.")
    if not all_hosts:
        raise UsageError(f"A host is needed: {', '.join(HOSTS)}, or --all.")
    if wish.program is None:
        return [one for one, row in HOSTS.items() if row.files]
    found = [one for one, row in HOSTS.items() if is_here(row, os.environ)]
    if not found:
        raise ConfigInvalid(
            "config_invalid",
            "None of the hosts that outlive knows is on this machine.",
            hint=f"Name one to configure it all the same: {', '.join(HOSTS)}.",
        )
    return found


def _carry_out(hosts: Sequence[str], wish: _Wish, *, is_list: bool, as_json: bool) -> int:
    """Change each host's file and report it.

    With several, one that fails keeps no other one from being done.
    """
    documents: list[Mapping[str, object]] = []
    warnings: dict[str, None] = {}  # each is said once, in the order in which they came
    is_done = failed = False
    for name in hosts:
        warning = None
        try:
            outcome = _change(name, wish)
            warning = _warning(name, wish)
        except ConfigInvalid as error:
            if not is_list:
                raise
            failed = True
            documents.append(
                {"host": name, "error": {"code": error.code, "message": error.message, "hint": error.hint}}
            )
            if not as_json:
                show_error(error)
            continue
        documents.append(_document(outcome, wish, warning))
        if warning is not None:
            warnings[warning] = None
        is_done |= outcome.change.is_needed
        # Of all hosts those that never had it are of no interest.
        if not as_json and (outcome.change.is_needed or wish.program is not None or not is_list):
            _report(outcome, wish)
    if as_json:
        show_json({"hosts": documents} if is_list else documents[0])
        return 1 if failed else 0
    if is_list and wish.program is None and not is_done and not failed:
        show(f"Nothing to do: no host has {wish.name}.")
    for warning in warnings:
        say(f"outlive: {warning}")
    return 1 if failed else 0


def _change(host_name: str, wish: _Wish) -> _Outcome:
    host = HOSTS[host_name]
    is_project = wish.is_project or host_name == PORTABLE
    project = working_folder() if is_project else None
    path = config_path(host, os.environ, project_folder=project)
    old = read_text(path, project)
    program = None if wish.program is None else [*_program(host_name), *wish.program]
    is_ours = False
    try:
        if program is not None:
            new: str | None = with_entry(old or "", host, wish.name, program=program)
        elif old is None or entry_in(old, host, wish.name) is None:
            new = old
        else:
            new, is_ours = _without_us(path, project, old, host, wish.name)
    except NotEditable as error:
        raise ConfigInvalid(
            "config_invalid",
            f"{path} is not {_FORMATS[host.format]} that can be changed ({error}): "
            "outlive would destroy what it cannot read, and leaves it alone.",
            hint=f'Take "{wish.name}" out of "{".".join(host.section)}" there by hand.'
            if program is None
            else "Paste this there by hand:\n"
            + with_entry("", host, wish.name, program=program).rstrip("\n"),
        ) from None
    change = FileChange(path=path, old=old, new=new, project=project)
    backup = None
    if change.is_needed and not wish.is_dry_run:
        backup = change.apply(mode=_SHARED if is_project else _SECRET, is_backed_up=not is_ours)
    server = None if program is None or new is None else entry_in(new, host, wish.name)
    return _Outcome(host=host_name, change=change, backup=backup, server=server)


def _program(host_name: str) -> Sequence[str]:
    """Return the words that run outlive; a file that is committed names no path of this machine."""
    return ["outlive"] if host_name == PORTABLE else program_words()


def _without_us(path: str, project: str | None, old: str, host: Host, name: str) -> tuple[str | None, bool]:
    """Return the text without our entry, None to remove the file, and whether all of the old text is ours.

    Where the file is what we have made of a backup, or of nothing, that is what it becomes again.
    """
    backups = backup_texts(path, project)
    before = text_before(old, host, name, backups=[*backups, ""])
    if before is not None and (before or "" in backups):
        return before, False
    is_ours = before is not None
    new = without_entry(old, host, name)
    was_there = any(_has_no_entry(text, host, name) for text in backups)
    # A link is the user's, whatever it points to.
    if new.strip() in _BLANK and not was_there and not os.path.islink(path):
        return None, is_ours
    return new, False


def _has_no_entry(text: str, host: Host, name: str) -> bool:
    try:
        return entry_in(text, host, name) is None
    except NotEditable:
        return True


def _warning(host_name: str, wish: _Wish) -> str | None:
    """Return what may keep the entry from working later; None where nothing does."""
    if wish.program is None:
        return None
    program = _program(host_name)
    if host_name == PORTABLE:
        return None if shutil.which(program[0]) else "no `outlive` is on your PATH, which this entry needs."
    folder = short_lived(program[0], os.environ)
    if folder is None:
        return None
    return (
        f"{program[0]} lies in {folder}, whose content may be removed at any time: "
        "install outlive for good (pipx install, uv tool install, or an environment of your own), and do "
        "this again."
    )


def _report(outcome: _Outcome, wish: _Wish) -> None:
    change, path = outcome.change, outcome.change.path
    if not change.is_needed:
        has = f"has no {wish.name}" if wish.program is None else f"runs it as {wish.name} already"
        show(f"Nothing to do: {path} {has}.")
        return
    show_diff(change.diff)
    if wish.is_dry_run:
        show(f"Nothing was written: this is what would change in {path}.")
        return
    done = "Removed" if change.new is None else "Wrote"
    show(f"{done} {path}" + (f"; as it was: {outcome.backup}." if outcome.backup else "."))
    show(HOSTS[outcome.host].then if wish.program is not None else "The host notices at its next start.")


def _document(outcome: _Outcome, wish: _Wish, warning: str | None) -> Mapping[str, object]:
    change = outcome.change
    return {
        "host": outcome.host,
        "name": wish.name,
        "path": change.path,
        "changed": change.is_needed and not wish.is_dry_run,
        "would_change": change.is_needed,
        "server": outcome.server,
        "backup": outcome.backup,
        "warning": warning,
        "diff": change.diff,
    }
