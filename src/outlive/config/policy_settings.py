"""Options about commands: which may be started (`PolicySettings`), and what they may reach and use
(`SandboxOptions`).

Rows of the table of options only. `policy` judges commands by them, and the keeper's sandbox enforces the
bounds.
"""

from outlive.config.options import (
    option,
    parse_bound,
    parse_cpu_bound,
    parse_cpus_bound,
    parse_profile_name,
    parse_seconds,
    parse_size_bound,
    parse_sudo,
    parse_switch,
    parse_verdict,
    parse_words,
)
from outlive.core.values import dataclass

_MAX_APPROVAL_S = 30 * 86400.0  # an approval that was not given within a month will not be given any more


def _parse_refusal(text: str) -> str:
    """Return the verdict about a command that no rule allows: deny or ask."""
    verdict = parse_verdict(text)
    if verdict == "allow":
        raise ValueError("deny or ask is needed: to allow everything, have no allow rules")
    return verdict


def _parse_approval_time(text: str) -> float:
    """Return how long a command waits for an approval: more than nothing, a month at most."""
    seconds = parse_seconds(text)
    if not 0 < seconds <= _MAX_APPROVAL_S:
        raise ValueError("a time of more than 0 and at most 30d is needed")
    return seconds


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class PolicySettings:
    """The part of `Settings` that decides which commands may be started (docs/policy.md)."""

    # A plain list of programs; the rules below it can also judge arguments.
    allowed_commands: tuple[str, ...] = option(
        "words",
        parse_words,
        "",
        (
            "Programs that may be started, separated by commas; empty allows everything, and so does a shell "
            "on the list."
        ),
        flag="--allowed-commands",
        env=("ALLOWED_COMMANDS",),
        example="git,ls,make",
        project="subset",
    )
    # Three lists of rules, tried in this order; the first that matches decides.
    deny: tuple[str, ...] = option(
        "words",
        parse_words,
        "",
        "Rules of what is never started, separated by commas (docs/policy.md); they count first.",
        flag="--deny",
        example="sudo,git push *",
        project="superset",
    )
    ask: tuple[str, ...] = option(
        "words",
        parse_words,
        "",
        "Rules of what is started only after a person has approved it (`outlive approve`).",
        flag="--ask",
        example="git push *,curl",
        project="superset",
    )
    allow: tuple[str, ...] = option(
        "words",
        parse_words,
        "",
        (
            "Rules of what may be started; empty allows whatever the other lists leave, and so does a rule "
            "for a shell."
        ),
        flag="--allow",
        example="ls,git status *,make test",
        project="subset",
    )
    # What happens to commands that no rule decides, and to lines that the parser cannot judge. Both fail
    # closed.
    policy_default: str = option(
        "verdict",
        _parse_refusal,
        "deny",
        "What becomes of a command that no rule allows while there are allow rules: deny or ask.",
        flag="--policy-default",
        example="ask",
        project="stricter",
    )
    policy_opaque: str = option(
        "verdict",
        parse_verdict,
        "deny",
        (
            "What becomes of a line that cannot be judged with certainty while there are rules: deny, ask or "
            "allow."
        ),
        flag="--policy-opaque",
        example="ask",
        project="stricter",
    )
    approval_timeout_s: float = option(
        "time",
        _parse_approval_time,
        "10m",
        "How long a command waits for a person's approval.",
        flag="--approval-timeout",
        unit="seconds",
        project="lower",
    )
    # The rest concerns MCP tools only, and counts beside the rules above.
    tools_disabled: bool = option(
        "switch",
        parse_switch,
        "off",
        "MCP tools start nothing.",
        flag="--disable-commands",
        example="on",
        project="on",
    )
    scripts_disabled: bool = option(
        "switch",
        parse_switch,
        "off",
        "MCP tools start commands but no scripts.",
        flag="--disable-scripts",
        example="on",
        project="on",
    )
    allow_sudo: bool | None = option(
        "switch",
        parse_sudo,
        "lean",
        "MCP tools may start commands that begin with sudo; lean: the lean tools, in the profile open.",
        flag="--allow-sudo",
        example="on",
        project="off",
    )
    allowed_patterns: tuple[str, ...] = option(
        "words",
        parse_words,
        "*",
        "What MCP tools may start: every simple command matches one of these, separated by commas.",
        flag="--allowed-patterns",
        example="git *,make *",
        project="subset",
    )
    blocked_patterns: tuple[str, ...] = option(
        "words",
        parse_words,
        "",
        "What MCP tools may not start: no simple command matches one of these.",
        flag="--blocked-patterns",
        example="rm -rf *",
        project="superset",
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class SandboxOptions:
    """The part of `Settings` that decides what a command may reach and use; None stands for no bound.

    A command may ask for a stronger profile and lower bounds, never for weaker ones (docs/sandbox.md).
    """

    profile: str = option(
        "profile",
        parse_profile_name,
        "open",
        (
            "Sandbox of commands that ask for none: open, guarded, workspace, offline or sealed "
            "(docs/sandbox.md)."
        ),
        flag="--profile",
        example="workspace",
        project="stronger",
    )
    # No project may change these two: a folder that holds one could open the rest of the disk to its
    # commands.
    sandbox_read: tuple[str, ...] = option(
        "folders",
        parse_words,
        "",
        "Folders in homes that commands of the profiles from workspace on may read, separated by commas.",
        flag="--sandbox-read",
        example="/srv/tools",
    )
    sandbox_write: tuple[str, ...] = option(
        "folders",
        parse_words,
        "",
        (
            "Folders that commands of the profiles from workspace on may write to, besides their own and "
            "temporary ones."
        ),
        flag="--sandbox-write",
        example="/srv/artifacts",
    )
    sandbox_folders: tuple[str, ...] = option(
        "folders",
        parse_words,
        "",
        (
            "Folders below which commands of the profiles from workspace on may run, separated by commas; "
            "empty: anywhere."
        ),
        flag="--sandbox-folders",
        example="/srv/projects",
        project="subset",
    )
    # All off by default: which bound is too low for a build, only its user knows. CPU time and files are
    # counted for each process, as the kernel does (setrlimit(2)); the others for a command with all its
    # descendants.
    limit_cpu_s: int | None = option(
        "time",
        parse_cpu_bound,
        "off",
        "Processor time that each process of a command may use; off: any.",
        flag="--limit-cpu",
        unit="seconds",
        example="1h",
        project="lower",
    )
    limit_cpus: float | None = option(
        "count",
        parse_cpus_bound,
        "off",
        "Processors that a command with all it starts may keep busy, like 1.5; off: any.",
        flag="--limit-cpus",
        example="2",
        project="lower",
    )
    limit_memory_bytes: int | None = option(
        "size",
        parse_size_bound,
        "off",
        "Memory that a command may use; off: any.",
        flag="--limit-memory",
        unit="bytes",
        example="4G",
        project="lower",
    )
    limit_files: int | None = option(
        "count",
        parse_bound,
        "off",
        "Files that each process of a command may have open; off: as many as the system allows.",
        flag="--limit-files",
        example="4096",
        project="lower",
    )
    limit_processes: int | None = option(
        "count",
        parse_bound,
        "off",
        "Processes that a command may have; off: as many as the system allows.",
        flag="--limit-processes",
        example="200",
        project="lower",
    )
