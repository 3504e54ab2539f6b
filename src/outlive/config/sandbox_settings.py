"""What bounds commands: `SandboxOptions`."""

from dataclasses import dataclass

from outlive.config.declaration import option
from outlive.config.values import (
    parse_bound,
    parse_cpus_bound,
    parse_profile_name,
    parse_seconds_bound,
    parse_size_bound,
    parse_words,
)


@dataclass(frozen=True, kw_only=True)
class SandboxOptions:
    """The part of `Settings` that decides what a command may reach and take; None stands for no bound."""

    profile: str = option(
        "profile",
        parse_profile_name,
        "open",
        "Sandbox of commands that ask for none: open, guarded, workspace, offline or sealed (docs/sandbox.md).",
        flag="--profile",
        example="workspace",
        project="stronger",
    )
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
        "Folders that commands of the profiles from workspace on may write to, besides their own and temporary ones.",
        flag="--sandbox-write",
        example="/srv/cache",
    )
    sandbox_folders: tuple[str, ...] = option(
        "folders",
        parse_words,
        "",
        "Folders below which commands of the profiles from workspace on may run, separated by commas; empty: anywhere.",
        flag="--sandbox-folders",
        example="/srv/projects",
        project="subset",
    )
    limit_cpu_s: float | None = option(
        "time",
        parse_seconds_bound,
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
