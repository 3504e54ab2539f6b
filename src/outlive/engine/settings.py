"""What the engine is given: `EngineSettings`, filled in by the composition root.

The engine's settings made from the server's: `engine_settings`.
"""

from collections.abc import Mapping

from outlive.config import Settings, all_options
from outlive.core.values import dataclass, field
from outlive.engine.commands.elsewhere import ContainerPlaces, RemoteFiles
from outlive.engine.commands.notices import NoNotices, Notices
from outlive.engine.commands.policy_check import command_policy
from outlive.extensions.contract import own_variables
from outlive.keeper.common.spawn import EXTERNAL_VARIABLE, SERVICE_VARIABLE, SOFT_LIMIT_VARIABLE
from outlive.policy.access import GRANTED_SCOPES, Scope
from outlive.policy.judgement import CommandPolicy
from outlive.policy.patterns import AllowedCommands
from outlive.policy.redaction import Redactor
from outlive.protocols.trace_context import TRACE_VARIABLES
from outlive.store.retention import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What the operator has chosen, and what was made of it for the engine.

    `options` are the operator's, as they are. Without `containers` none runs in one, without
    `remote_files` no file of a node is read.
    `environment` is the server's own; its secrets are filtered before a command sees it. Paths are absolute.
    What waits for a reader (`on_limit` "block") waits `reader_grace_s` for one that is gone. `own_files` are
    outlive's outside of the state folder: settings, tokens, keys; no copy reads or writes them.
    `standing_file` is the user's file of what is approved for always (None: nothing can be). `runner` is the
    path of the native program, which may come to be there later (None: it never will). `umask` and `nice` are
    those of commands whose caller names none (nice None: the keeper's own). `notices` are those that this
    server sends. `passes_trace`: commands get the span that they are as TRACEPARENT. `callbacks` is what
    every command on this machine may do here, by a token of its own (None: nothing). `gpus` are this
    machine's, by the names that drivers take: commands that need some are given some of them. `redactor`
    hides secrets in output, commands' texts and errors.
    """

    state_dir: str
    environment: Mapping[str, str]
    cwd: str
    options: Settings = field(default_factory=Settings)
    reader_grace_s: float = 10.0
    allowed_commands: AllowedCommands = field(default_factory=AllowedCommands)
    containers: ContainerPlaces | None = None
    remote_files: RemoteFiles | None = None
    policy: CommandPolicy = field(default_factory=CommandPolicy)
    standing_file: str | None = None
    own_files: tuple[str, ...] = ()
    retention: Retention = field(default_factory=Retention)
    retention_interval_s: float = 60.0
    redactor: Redactor = field(default_factory=Redactor)
    runner: str | None = None
    umask: int = 0o022
    nice: int | None = None
    callbacks: Scope | None = None
    notices: Notices = field(default_factory=NoNotices)
    passes_trace: bool = False
    gpus: tuple[str, ...] = ()

    @property
    def is_strict(self) -> bool:
        """Whether lists are in force, so that nothing but the command may decide what a shell runs."""
        return bool(self.allowed_commands.names) or self.policy.is_active


# What is meant for the server, and none of a command's business: whatever an option reads, since a value may
# be a secret; what systemd (systemd.exec(5)), our unit and the server itself have noted for the server and
# its keeper; and the span in which the server was started, which is not that of its later callers.
_OF_THE_SERVER = TRACE_VARIABLES | frozenset(
    {
        EXTERNAL_VARIABLE,
        SOFT_LIMIT_VARIABLE,
        SERVICE_VARIABLE,
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "NOTIFY_SOCKET",
        "SYSTEMD_EXEC_PID",
    }
)


def engine_settings(
    settings: Settings,
    state_dir: str,
    *,
    environment: Mapping[str, str],
    working_folder: str,
    redactor: Redactor,
) -> EngineSettings:
    """Return what the engine is given.

    Args:
        settings: What the user chose.
        state_dir: The state folder.
        environment: The server's own.
        working_folder: Where commands run by default.
        redactor: Hides secrets.
    """
    of_the_server = _OF_THE_SERVER.union(*(option.env for option in all_options()))
    return EngineSettings(
        state_dir=state_dir,
        environment={
            name: text
            for name, text in environment.items()
            if name not in of_the_server and not name.startswith(own_variables())
        },
        cwd=working_folder,
        options=settings,
        allowed_commands=AllowedCommands(frozenset(settings.allowed_commands)),
        redactor=redactor,
        policy=command_policy(settings),
        callbacks=GRANTED_SCOPES.get(settings.callbacks),
        retention=Retention(
            max_age_s=settings.retention_s,
            max_count=settings.retention_count,
            max_bytes=settings.state_quota_bytes,
        ),
    )
