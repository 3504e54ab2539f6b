"""The engine's settings made from the server's: `engine_settings`."""

from collections.abc import Mapping

from outlive.config import Settings
from outlive.core.sandbox import Limits, Profile
from outlive.engine.lists import command_policy
from outlive.engine.sandbox import SandboxSettings
from outlive.engine.settings import EngineSettings
from outlive.keeper.common.launch import EXTERNAL_VARIABLE, SERVICE_VARIABLE
from outlive.keeper.common.spawn import SOFT_LIMIT_VARIABLE
from outlive.policy.commands import AllowedCommands
from outlive.policy.redaction import Redactor
from outlive.policy.wanted_grant import GRANTED_SCOPES
from outlive.store.retention import Retention

# What systemd (systemd.exec(5)), our unit and the server itself have noted for the server and its keeper: none of a
# command's business.
_OF_THE_SERVER = frozenset(
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
    """Return what the engine must be told.

    Args:
        settings: What the user chose.
        state_dir: The state folder.
        environment: The server's own.
        working_folder: Where commands run by default.
        redactor: Hides secrets.
    """
    return EngineSettings(
        state_dir=state_dir,
        environment={name: text for name, text in environment.items() if name not in _OF_THE_SERVER},
        cwd=working_folder,
        grace_s=settings.grace_s,
        max_processes=settings.max_processes,
        output_limit=settings.output_limit_bytes,
        allowed_commands=AllowedCommands(frozenset(settings.allowed_commands)),
        redactor=redactor,
        hides_secrets=settings.redact != "off",
        sandbox=_sandbox_settings(settings),
        policy=command_policy(settings),
        approval_timeout_s=settings.approval_timeout_s,
        callbacks=GRANTED_SCOPES.get(settings.callbacks),
        retention=Retention(
            max_age_s=settings.retention_s,
            max_count=settings.retention_count,
            max_bytes=settings.state_quota_bytes,
        ),
    )


def _sandbox_settings(settings: Settings) -> SandboxSettings:
    cpu_s = settings.limit_cpu_s
    return SandboxSettings(
        profile=Profile(settings.profile),
        limits=Limits(
            cpu_s=None if cpu_s is None else round(cpu_s),
            cpus=settings.limit_cpus,
            memory_bytes=settings.limit_memory_bytes,
            files=settings.limit_files,
            processes=settings.limit_processes,
        ),
        readable=settings.sandbox_read,
        writable=settings.sandbox_write,
        folders=settings.sandbox_folders,
    )
