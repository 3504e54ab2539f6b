"""`outlive service install | uninstall | status`: the keeper and the server as two units of systemd.

`unit_texts` are their texts: pure. Why they are as they are: decision 45. `Systemd` asks `systemctl` of one
scope; where there is none it says what to do by hand.
"""

import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Literal, assert_never

from outlive.cli.machine.file_change import FileChange, read_text
from outlive.cli.machine.program_path import program_words
from outlive.cli.output import Answer, say, show, show_diff, show_json
from outlive.cli.parameters import DRY_RUN, JSON, STATE_DIR, option, switch, takes
from outlive.cli.server.keeper import read_status
from outlive.core.errors import BackendUnavailable, ConfigInvalid, OutliveError, StartFailed
from outlive.core.layout import Layout
from outlive.core.values import dataclass
from outlive.discovery.state_folder import layout_of
from outlive.keeper.common.spawn import EXTERNAL_VARIABLE, SERVICE_VARIABLE

SERVER_UNIT = "outlive.service"
KEEPER_UNIT = "outlive-keeper.service"
MARK = "# Written by `outlive service install`; `systemctl edit` keeps what you add.\n"

Scope = Literal["user", "system"]

_KEEPER = """\
[Unit]
Description=Keeper of outlive: what outlives its server
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
{account}\
ExecStart={program} keeper run --state-dir {state_dir}
ExecReload={program} keeper upgrade --state-dir {state_dir}
# Only the process that reports to systemd: supervisor, guardian, shims and commands are nobody's to kill.
KillMode=process
Restart=on-failure
RestartSec=1
# A command that runs out of memory must not take the others along.
OOMPolicy=continue
LimitNOFILE=262144
TasksMax=infinity
# No sandbox here: commands run in this unit and would inherit it. Choose a profile for each command instead.
"""

_SERVER = """\
[Unit]
Description=outlive
# Before the server, and bound to nothing: no Requires=, BindsTo= or PartOf=.
Wants={keeper}
After={keeper}
StartLimitIntervalSec=0

[Service]
Type=notify
NotifyAccess=main
{account}\
# The keeper lies in its own unit, and only there: the server waits for it and never starts one in here.
# Clients that find no server wait for this unit instead of starting one.
Environment={external}=1 {service}
ExecStart={program} serve --state-dir {state_dir}
KillMode=mixed
Restart=always
RestartSec=1
# Commands run in the keeper's unit: what follows bounds the server alone.
{hardening}
[Install]
WantedBy={target}
"""

# In a user's unit only what needs no privilege; in the system's also what hides nothing that a command's cwd
# may name.
_HARDENING: Mapping[Scope, Sequence[str]] = {
    "user": ("NoNewPrivileges=yes", "LockPersonality=yes", "RestrictRealtime=yes", "RestrictSUIDSGID=yes"),
    "system": (
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "LockPersonality=yes",
        "ProtectClock=yes",
        "ProtectControlGroups=yes",
        "ProtectHostname=yes",
        "ProtectKernelLogs=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelTunables=yes",
        "ProtectSystem=strict",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
        "RestrictNamespaces=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPlan:
    """What the units are made from.

    `program` are the words that run outlive, the first one absolute; `account` runs a system's units;
    `unit_file` is where the server's unit will lie; `owns_state_dir` lets systemd make /var/lib/outlive for
    it.
    """

    scope: Scope
    program: Sequence[str]
    state_dir: str
    unit_file: str
    account: str = ""
    owns_state_dir: bool = False


def unit_texts(plan: UnitPlan) -> Mapping[str, str]:
    """Return the text of each unit by its name.

    Raises:
        ConfigInvalid: A path cannot be written into a unit.
    """
    words = " ".join(_word(word, is_first=not place) for place, word in enumerate(plan.program))
    state_dir = _word(plan.state_dir)
    account = f"User={_word(plan.account)}\n" if plan.account else ""
    if plan.owns_state_dir:
        account += "StateDirectory=outlive\nStateDirectoryMode=0700\n"
    hardening = "".join(f"{line}\n" for line in _HARDENING[plan.scope])
    if plan.scope == "system":
        hardening += f"ReadWritePaths={_word(plan.state_dir, expands=False)}\n"
    keeper = _KEEPER.format(account=account, program=words, state_dir=state_dir)
    server = _SERVER.format(
        account=account,
        program=words,
        state_dir=state_dir,
        keeper=KEEPER_UNIT,
        external=EXTERNAL_VARIABLE,
        service=_word(f"{SERVICE_VARIABLE}={plan.unit_file}", expands=False),
        hardening=hardening,
        target="default.target" if plan.scope == "user" else "multi-user.target",
    )
    return {KEEPER_UNIT: MARK + keeper, SERVER_UNIT: MARK + server}


def _word(text: str, *, is_first: bool = False, expands: bool = True) -> str:
    """Return one word for a command line of a unit (systemd.service(5), "Command lines").

    `%` is a specifier everywhere; `$` is a variable in command lines but not in their first word.
    """
    if not text.isprintable():
        raise ConfigInvalid(
            "config_invalid", f"{text!r} cannot be written into a systemd unit.", hint="Choose another path."
        )
    text = text.replace("%", "%%")
    if expands and not is_first:
        text = text.replace("$", "$$")
    if not text or set(text) & set(" \"'\\;"):
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return text


_PATIENCE_S = 120.0  # longer than a unit's start may take (90 s)
_BOOTED = "/run/systemd/system"  # sd_booted(3)
_PROPERTIES = ("LoadState", "ActiveState", "SubState", "UnitFileState", "MainPID")


class Systemd:
    """The service manager of this machine, or of this user."""

    def __init__(self, scope: Scope) -> None:
        self._words = ["systemctl", "--user"] if scope == "user" else ["systemctl"]
        self._scope = scope

    def absence(self) -> str | None:
        """Return why systemd cannot be asked here, None when it can."""
        if shutil.which("systemctl") is None:
            return "There is no systemctl on this machine"
        if not os.path.isdir(_BOOTED):
            return "This machine was not started by systemd"
        if self._scope == "user" and not os.environ.get("XDG_RUNTIME_DIR"):
            return "There is no systemd of this user here (XDG_RUNTIME_DIR is not set)"
        return None

    def typed(self, words: Sequence[str]) -> str:
        """Return a call as one would type it."""
        return shlex.join([*self._words, *words])

    def call(self, words: Sequence[str]) -> str:
        """Run systemctl with these words and return what it said.

        Raises:
            StartFailed: It failed; the message holds what it said.
            BackendUnavailable: `timeout`, it did not answer.
        """
        try:
            done = subprocess.run(
                [*self._words, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BackendUnavailable("timeout", f"`{self.typed(words)}` did not answer: {error}.") from error
        if done.returncode:
            said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise StartFailed(
                "start_failed",
                f"`{self.typed(words)}` failed: {said}",
                hint=f"See {self.typed(['status', 'outlive', 'outlive-keeper'])}.",
            )
        return done.stdout

    def unit(self, name: str) -> Mapping[str, str]:
        """Return LoadState, ActiveState, SubState, UnitFileState and MainPID of a unit.

        Raises:
            OutliveError: As `call` does.
        """
        said = self.call(["show", name, f"--property={','.join(_PROPERTIES)}"])
        found = dict(line.partition("=")[::2] for line in said.splitlines())
        return {name: found.get(name, "") for name in _PROPERTIES}


ACCOUNT = "outlive"
_SYSTEM_FOLDER = "/etc/systemd/system"
_SYSTEM_STATE = "/var/lib/outlive"
_READABLE = 0o644
_UNITS = (KEEPER_UNIT, SERVER_UNIT)
_Calls = Sequence[Sequence[str]]
_SYSTEM = switch("--system", off="--user", about="The units of the machine, or (the default) your own.")


@takes(
    _SYSTEM,
    option(
        "--account", metavar="NAME", about="The account that runs the units of the machine.", default=ACCOUNT
    ),
    STATE_DIR,
    DRY_RUN,
    JSON,
)
def install(*, system: bool, account: str, state_dir: str | None, dry_run: bool, as_json: bool) -> int:
    """Write both units, and have systemd start the server now and at every boot; return the exit code.

    Returns:
        1 when the units were written and systemd cannot be asked: what to do by hand was said.

    Raises:
        OutliveError: A file is in the way, the account is missing, or systemd refused.
    """
    scope = _scope(system=system)
    plan = _plan(scope, account=account, state_dir=state_dir)
    if not dry_run:
        _check_rights(scope)
        _check_account(plan)
    changes = [_change(scope, name, text) for name, text in unit_texts(plan).items()]
    calls: _Calls = (["daemon-reload"], ["enable", "--now", SERVER_UNIT])
    code = _carry_out(scope, changes, calls_after=calls, dry_run=dry_run, as_json=as_json)
    if scope == "user" and not as_json and not _lingers():
        say(
            "The user's systemd ends at the last logout, and everything with it; `loginctl "
            "enable-linger` keeps it."
        )
    return code


@takes(_SYSTEM, DRY_RUN, JSON)
def uninstall(*, system: bool, dry_run: bool, as_json: bool) -> int:
    """Stop and disable the server, leave the keeper to itself, remove both units.

    Return the exit code as above.

    No process is ended: the keeper stays for as long as it has something to keep.
    """
    scope = _scope(system=system)
    if not dry_run:
        _check_rights(scope)
    changes = [_change(scope, name, None) for name in _UNITS]
    there = [change for change in changes if change.old is not None]
    stop: _Calls = (["disable", "--now", SERVER_UNIT], ["stop", KEEPER_UNIT])
    code = _carry_out(
        scope,
        there,
        calls_before=stop if there else (),
        calls_after=[["daemon-reload"]] if there else (),
        dry_run=dry_run,
        as_json=as_json,
    )
    if there and not as_json and not dry_run:
        say("What runs lives on; `outlive keeper stop --kill` ends it.")
    return code


@takes(_SYSTEM, STATE_DIR, JSON)
def status(*, system: bool, state_dir: str | None) -> Answer:
    """Show what is installed, what systemd says of it, and which keeper keeps the commands.

    It ends with 1 when systemd cannot be asked or a unit is not active.
    """
    scope = _scope(system=system)
    systemd = Systemd(scope)
    absence = systemd.absence()
    units: dict[str, dict[str, object]] = {}
    for name in _UNITS:
        path = _path(scope, name)
        said = {} if absence else systemd.unit(name)
        units[name] = {"path": path if os.path.exists(path) else None, **said}
    is_well = not absence and all(unit.get("ActiveState") == "active" for unit in units.values())
    layout = Layout(_state_dir(scope, state_dir))
    try:
        keeper: Mapping[str, object] = read_status(layout)
    except (OutliveError, PermissionError) as error:
        keeper = {"error": str(error)}
    members = {"ok": is_well, "absent": absence, "units": units, "state_dir": layout.root, "keeper": keeper}
    lines = _status_lines(units, absence, layout.root, keeper)
    return Answer(members, lines, code=0 if is_well else 1)


def _status_lines(
    units: Mapping[str, Mapping[str, object]], absence: str | None, root: str, keeper: Mapping[str, object]
) -> list[str]:
    lines = []
    for name, unit in units.items():
        if unit["path"] is None:
            words = "not installed here"
        elif absence:
            words = "installed"
        else:
            words = (
                f"{unit['ActiveState']} ({unit['SubState']}), {unit['UnitFileState']}, pid {unit['MainPID']}"
            )
        lines.append(f"{name:<23} {words}")
    lines.append(f"{'processes':<23} {keeper.get('processes', keeper.get('error'))} in {root}")
    return [*lines, f"{absence}: nothing more is known."] if absence else lines


def _scope(*, system: bool) -> Scope:
    return "system" if system else "user"


def _plan(scope: Scope, *, account: str, state_dir: str | None) -> UnitPlan:
    return UnitPlan(
        scope=scope,
        program=program_words(),
        state_dir=_state_dir(scope, state_dir),
        unit_file=_path(scope, SERVER_UNIT),
        account=account if scope == "system" else "",
        owns_state_dir=scope == "system" and state_dir is None,
    )


def _state_dir(scope: Scope, state_dir: str | None) -> str:
    if scope == "system" and state_dir is None:
        return _SYSTEM_STATE
    return layout_of(state_dir).root


def _check_rights(scope: Scope) -> None:
    if scope == "system" and os.geteuid() != 0:
        raise ConfigInvalid(
            "config_invalid",
            "Only root may change the units of the system.",
            hint="Call it with sudo, or leave out --system for units of your own.",
        )


def _check_account(plan: UnitPlan) -> None:
    if plan.scope == "user":
        return
    try:
        uid = pwd.getpwnam(plan.account).pw_uid
    except KeyError:
        raise ConfigInvalid(
            "config_invalid",
            f"There is no account {plan.account!r} to run as.",
            hint=f"useradd --system --home-dir {_SYSTEM_STATE} --shell /usr/sbin/nologin {plan.account}",
        ) from None
    if plan.owns_state_dir:
        return
    try:
        owner = os.stat(plan.state_dir).st_uid
    except OSError:
        owner = None
    if owner != uid:
        raise ConfigInvalid(
            "state_folder",
            f"{plan.state_dir} has to be a folder of {plan.account!r}.",
            hint=f"install -d -m 700 -o {plan.account} {plan.state_dir}",
        )


def _path(scope: Scope, name: str) -> str:
    match scope:
        case "system":
            return f"{_SYSTEM_FOLDER}/{name}"
        case "user":
            base = os.environ.get("XDG_CONFIG_HOME", "")
            return f"{base if base.startswith('/') else os.path.expanduser('~/.config')}/systemd/user/{name}"
        case other:
            assert_never(other)


def _change(scope: Scope, name: str, new: str | None) -> FileChange:
    path = _path(scope, name)
    old = read_text(path)
    if old is not None and not old.startswith(MARK):
        raise ConfigInvalid(
            "config_invalid",
            f"{path} was not written by outlive, and is left alone.",
            hint="Move it away first, or add the line with which units of outlive begin.",
        )
    return FileChange(path=path, old=old, new=new)


def _carry_out(
    scope: Scope,
    changes: Sequence[FileChange],
    *,
    calls_before: _Calls = (),
    calls_after: _Calls,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Change the files between two series of calls to systemd, and say everything; return the exit code."""
    systemd = Systemd(scope)
    absence = systemd.absence()
    is_live = changes and not dry_run and not absence
    if not as_json:
        _show_changes(changes)
    for words in calls_before if is_live else ():
        systemd.call(words)
    wanted = [] if dry_run else [change for change in changes if change.is_needed]
    backups = {change.path: change.apply(mode=_READABLE) for change in wanted}
    for words in calls_after if is_live else ():
        systemd.call(words)
    typed = [systemd.typed(words) for words in (*calls_before, *calls_after)] if changes else []
    is_done = dry_run or not changes or not absence
    if as_json:
        files = [
            {
                "path": change.path,
                "changed": change.path in backups,
                "backup": backups.get(change.path),
                "diff": change.diff,
            }
            for change in changes
        ]
        show_json({"ok": is_done, "absent": absence, "files": files, "calls": typed})
    elif not is_done:
        say(f"outlive: {absence}: the files are in place, systemd was not called.")
        say("  Where systemd runs:", *(f"    {words}" for words in typed))
        say("  Without it: `outlive keeper run` and `outlive serve`, each looked after by whatever you have.")
    elif changes:
        show("Nothing was written. These would be called:" if dry_run else "Done, and called:")
        show(*(f"  {words}" for words in typed))
    return 0 if is_done else 1


def _show_changes(changes: Sequence[FileChange]) -> None:
    if not changes:
        show("Nothing to do: no unit is installed.")
    for change in changes:
        if change.is_needed:
            show_diff(change.diff)
        else:
            show(f"Nothing to do: {change.path} is right already.")


def _lingers() -> bool:
    name = pwd.getpwuid(os.geteuid()).pw_name
    return os.path.exists(f"/var/lib/systemd/linger/{name}")
