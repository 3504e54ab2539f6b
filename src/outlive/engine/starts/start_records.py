"""What is recorded of a command before it runs: `new_record`, and `new_spec`, what the keeper is asked to
run. Pure.
"""

from outlive.core.command import ApprovalState, Command
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import State
from outlive.core.process import Owner, ProcessRecord, StartOrigin
from outlive.core.spec import CALLER_ENVIRONMENT, REPEATED, Spec
from outlive.engine.commands.resolver import Resolved
from outlive.engine.processes.output_redaction import TextMask
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.names import recorded_text, shown_text
from outlive.store.folder import encode_meta
from outlive.store.rows import at_time


def new_record(
    command: Command,
    resolved: Resolved,
    owner: Owner,
    *,
    process_id: ProcessId,
    command_id: str,
    number: int,
    created_ns: int,
    settings: EngineSettings,
    folder: str,
    state: State,
    hide: TextMask,
    approval: ApprovalState | None = None,
) -> ProcessRecord:
    """Return what is known of a process that begins in `state`.

    `folder` is where its script would lie; `hide` takes secrets out of a text.
    """
    text = command.text
    if command.script is not None and command.title is None:
        text = " ".join(resolved.argv)
    return ProcessRecord(
        process_id=process_id,
        command=recorded_text(hide(text), folder),
        shell=resolved.shell,
        cwd=shown_text(resolved.cwd),
        state=state,
        owner=owner,
        origin=StartOrigin.of(owner),
        stdio=command.stdio,
        stdin=command.stdin,
        created_at=at_time(created_ns),
        is_detached=command.detached,
        timeout_s=command.timeout_s,
        grace_s=settings.options.grace_s if command.grace_s is None else command.grace_s,
        tags=dict(command.tags),
        group=command.group,
        command_id=command_id,
        project=command.project,
        number=number,
        key=command.key,
        name=command.name,
        sandbox=resolved.sandbox,
        secret_names=tuple(command.env_secrets),
        approval=approval,
        grant=command.granted,
        terminal=command.terminal,
        location=resolved.location,
        needs=resolved.needs,
        redacted=hide.count,
    )


def new_spec(
    command: Command,
    resolved: Resolved,
    record: ProcessRecord,
    *,
    output_limit: int | None,
    settings: EngineSettings,
) -> Spec:
    """Return what the keeper is asked to run."""
    # A node has defaults of its own.
    umask, nice = (None, None) if record.location.is_elsewhere else (settings.umask, settings.nice)
    return Spec(
        program=resolved.program,
        argv=resolved.argv,
        env=resolved.env,
        shared_env=resolved.shared_env,
        cwd=resolved.cwd,
        stdio=command.stdio,
        stdin=command.stdin,
        rows=command.rows,
        cols=command.cols,
        timeout_s=record.timeout_s,
        grace_s=record.grace_s,
        output_limit=output_limit,
        on_limit=command.on_limit,
        after_exit=command.after_exit,
        secrets=(*record.secret_names, *((CALLER_ENVIRONMENT,) if resolved.caller_env else ())),
        confinement=resolved.steps,
        groups=resolved.groups,
        container=record.location.container or "",
        umask=umask if command.umask is None else command.umask,
        nice=nice if command.nice is None else _allowed(command.nice, record.owner, settings),
        meta={
            **encode_meta(record),
            **({"limits": command.limits.view()} if command.limits else {}),
            **({REPEATED: asked} if (asked := command.asked_again) else {}),
            **resolved.meta,
        },
    )


def _allowed(nice: int, owner: Owner, settings: EngineSettings) -> int:
    """Return the niceness that a caller may have: none below the server's own, but for an administrator
    outside of our trees.

    Where the keeper is root's, the kernel would give it to every caller with the scope run.
    """
    if owner.is_admin and owner.inside is None:
        return nice
    return max(nice, settings.nice or 0)
