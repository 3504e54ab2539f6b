"""What the engine must be told: `EngineSettings`, filled in by the composition root."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from outlive.engine.containers import ContainerSettings
from outlive.engine.sandbox import SandboxSettings
from outlive.policy.access import Scope
from outlive.policy.commands import AllowedCommands
from outlive.policy.judgement import CommandPolicy
from outlive.policy.redaction import Redactor
from outlive.store.retention import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Defaults of commands and bounds of what is kept.

    `environment` is the server's own; its secrets are filtered before a command sees it. Paths are absolute.
    `timeout_s` None means that a command may run for ever,
    `max_processes` None that a principal may have any number. What waits for a reader (`on_limit` "block") waits
    `reader_grace_s` for one that is gone, what waits for a person's approval `approval_timeout_s`.
    `umask` and `nice` are those of commands whose caller names none (nice None: the keeper's own).
    `callbacks` is what every command on this machine may do here, by a token of its own (None: nothing).
    `redactor` hides secrets in output, commands' texts and errors; `hides_secrets` also the values of `env_secrets`.
    """

    state_dir: str
    environment: Mapping[str, str]
    cwd: str
    timeout_s: float | None = None
    max_processes: int | None = None
    grace_s: float = 10.0
    output_limit: int | None = 2 * 1024**3
    reader_grace_s: float = 10.0
    allowed_commands: AllowedCommands = field(default_factory=AllowedCommands)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    containers: ContainerSettings = field(default_factory=ContainerSettings)
    policy: CommandPolicy = field(default_factory=CommandPolicy)
    approval_timeout_s: float = 600.0
    retention: Retention = field(default_factory=Retention)
    retention_interval_s: float = 60.0
    redactor: Redactor = field(default_factory=Redactor)
    hides_secrets: bool = True
    umask: int = 0o022
    nice: int | None = None
    callbacks: Scope | None = None
