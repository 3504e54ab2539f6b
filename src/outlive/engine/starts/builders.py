"""What is noted down of a command before it runs: its first record, and the spec for the keeper.

Names of commands for people and old clients: `cmd_<unix seconds>_<n>`, unique for ever (promise S1.3).

The counter is reserved in blocks: a crash skips numbers, it never repeats one.
"""

from outlive.core.command import ApprovalState, Command
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import State
from outlive.core.process import Owner, ProcessRecord
from outlive.core.sandbox import Sandbox
from outlive.core.spec import Spec
from outlive.engine.commands.resolver import Resolved
from outlive.engine.commands.sandbox import Confined
from outlive.engine.processes.output_redaction import TextMask
from outlive.engine.settings import EngineSettings
from outlive.store.folder import encode_meta
from outlive.store.registry import Registry
from outlive.store.rows import at_time

_MAX_TEXT = 100 * 1024  # characters of a command that records keep; the whole line is in the folder


def new_record(
    command: Command,
    resolved: Resolved,
    owner: Owner,
    *,
    process_id: ProcessId,
    command_id: str,
    created_ns: int,
    settings: EngineSettings,
    folder: str,
    state: State,
    hide: TextMask,
    sandbox: Sandbox,
    approval: ApprovalState | None = None,
) -> ProcessRecord:
    """Return what is known of a process that begins in `state`.

    `folder` is where its script would lie; `hide` takes secrets out of a text.
    """
    text = command.text
    if command.script is not None and command.title is None:
        text = " ".join(resolved.argv)
    text = hide(text)
    if len(text) > _MAX_TEXT:
        text = f"{text[:1000]} … ({len(text)} characters, whole in {folder}/script)"
    return ProcessRecord(
        process_id=process_id,
        command=_shown(text),
        shell=resolved.shell,
        cwd=_shown(resolved.cwd),
        state=state,
        owner=owner,
        stdio=command.stdio,
        stdin=command.stdin,
        created_at=at_time(created_ns),
        is_detached=command.detached,
        timeout_s=settings.timeout_s if command.timeout_s is None else command.timeout_s,
        grace_s=settings.grace_s if command.grace_s is None else command.grace_s,
        tags=dict(command.tags),
        group=command.group,
        command_id=command_id,
        sandbox=sandbox,
        secret_names=tuple(command.env_secrets),
        approval=approval,
        grant=command.granted,
        terminal=command.terminal,
        location=resolved.location,
        redacted=hide.count,
    )


def _shown(text: str) -> str:
    """Return a text for people: bytes that are no UTF-8 (PEP 383) become U+FFFD. What runs keeps them."""
    return text if text.isascii() else text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def new_spec(
    command: Command,
    resolved: Resolved,
    record: ProcessRecord,
    *,
    output_limit: int | None,
    confined: Confined,
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
        secrets=record.secret_names,
        confinement=confined.steps,
        groups=confined.groups,
        container=record.location.container or "",
        umask=umask if command.umask is None else command.umask,
        nice=nice if command.nice is None else _allowed(command.nice, record.owner, settings),
        meta={**encode_meta(record), **resolved.meta},
    )


def _allowed(nice: int, owner: Owner, settings: EngineSettings) -> int:
    """Return the niceness that a caller may have: none below the server's own, but for an administrator outside of our trees.

    Where the keeper is root's, the kernel would give it to everybody who may run.
    """
    if owner.is_admin and owner.inside is None:
        return nice
    return max(nice, settings.nice or 0)


_COUNTER = "command_id"
_BLOCK = 1000


class CommandIds:
    """Hands out names; only the loop's thread uses it."""

    def __init__(self, registry: Registry) -> None:
        """Nothing is reserved before `open`."""
        self._registry = registry
        self._next = self._reserved = 0

    async def open(self) -> None:
        """Reserve the first block; committed when this returns."""
        self._next = await self._registry.counter(_COUNTER) + 1
        self._reserve()
        await self._registry.flush()

    def new(self, now_s: int) -> str:
        """Return the next name."""
        number = self._next
        self._next += 1
        if self._reserved - self._next < _BLOCK // 2:
            self._reserve()  # committed long before it is needed; the seconds guard what is left to chance
        return f"cmd_{now_s}_{number}"

    def _reserve(self) -> None:
        self._reserved = self._next + _BLOCK
        self._registry.count_to(_COUNTER, self._reserved)
