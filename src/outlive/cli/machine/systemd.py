"""Asking systemd: `systemctl` of one scope, with an answer that says what to do by hand where there is none.

The texts of outlive's two systemd units: pure. Why they are as they are: decision 45.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Literal

from outlive.core.errors import BackendUnavailable, ConfigInvalid, StartFailed
from outlive.core.values import dataclass
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
