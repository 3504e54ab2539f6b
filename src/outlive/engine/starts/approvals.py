"""`StartApprovals`: about which starts policy asks a person, and what that person sees, approves or denies.

No person is asked over the agent's own channel: the answer comes through `approve` and `deny`, which the
doors give to callers with the scope `admin` only. Under one uid nothing proves that a person has spoken
(SECURITY.md).

What is asked about waits in `start_queue`, on disk, until it is approved or denied, or nobody has approved it
in time.
"""

import hmac
from datetime import UTC, datetime, timedelta

from outlive.core.command import ApprovalState, Command, StandingApproval
from outlive.core.errors import InvalidState, LimitExceeded, OutliveError
from outlive.core.process import ProcessRecord, WaitingApproval
from outlive.core.redactions import redacted_member
from outlive.core.values import dataclass, replace
from outlive.engine.commands.policy_check import Policing
from outlive.engine.commands.resolver import Resolved
from outlive.engine.processes.output_redaction import Redaction, TextMask, hide_error
from outlive.engine.processes.process import Process, boot_time
from outlive.engine.starts.standing_approvals import StandingApprovals
from outlive.engine.starts.start_queue import StartQueue
from outlive.policy.judgement import Verdict, refusal
from outlive.protocols.keeper import decode_spec
from outlive.store.queue_store import WaitingCommand

_MAX_SCRIPT_BYTES = 64 * 1024  # of a script that is shown
_MASKED = "****"
_MAX_ASKED = 1000  # a person does not read more; each is a file and some 10 KB of memory


@dataclass(eq=False, slots=True, kw_only=True)
class StartApprovals:
    """The starts that wait for a person: shown, approved or denied. On the engine's loop only.

    A start waits at most `timeout_s` for its approval. What is approved for always is in `standing`.
    """

    queue: StartQueue
    policing: Policing
    standing: StandingApprovals
    redaction: Redaction
    timeout_s: float

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self.queue.machine.asked)

    def waiting(self, *, raw: bool = False) -> list[WaitingApproval]:
        """Return what waits for an approval, oldest first, of all principals; `raw` hides no secrets in the
        words.
        """
        return [
            _shown(
                one.process.record,
                one.command,
                TextMask(None) if raw else self.redaction.texts_of(one.process.process_id),
                raw=raw,
            )
            for one in self.queue.asked
        ]

    async def approve(self, process: Process, *, digest: str, by: str, always: bool = False) -> None:
        """Let a process start that waits for an approval; it may have to wait for its group's turn yet.

        Returns when that is on disk: a crash behind it does not ask again, and starts it exactly once.

        Args:
            process: What is approved,
            digest: and what it was when it was looked at (`WaitingApproval.digest`).
            by: The principal that approves, for the record.
            always: Whether the same is approved in its project from now on (`ApprovalState.standing`).

        Raises:
            ConfigInvalid: `config_invalid`: the file of what is approved for always cannot be used; it goes
            on waiting.
            InvalidRequest: `invalid_params`: this can be approved only once.
            InvalidState: `approval_settled`: it does not wait (any more). `approval_changed`: what waits is
                not what was looked at (details have it), or a file that it names has changed since.
            LimitExceeded: `disk_full`: it cannot be kept, and goes on waiting.
            StartFailed: `start_failed`: its files cannot be looked at in time.
        """
        waiting = next((one.command for one in self.queue.asked if one.process is process), None)
        if waiting is not None:
            hide = self.redaction.texts_of(process.process_id)
            if not hmac.compare_digest(waiting.digest.encode(), digest.encode()):
                raise _changed(_shown(process.record, waiting, TextMask(None), raw=True), hide)
            try:
                await self.standing.check_unchanged(process.record, waiting.spec)
            except OutliveError as error:  # it may name one of the words
                hide_error(error, hide)
                raise
            if always:
                # First, so that a crash behind it loses no yes.
                await self.standing.give(process.record.approval, by=by)
        await self.queue.decide(process, is_approved=True, by=by)

    async def deny(self, process: Process, *, by: str, reason: str = "") -> None:
        """End a process that waits for an approval: it never runs.

        Raises:
            InvalidState: `approval_settled`: it does not wait (any more).
        """
        await self.queue.decide(process, is_approved=False, by=by, reason=reason)

    async def needed_for(self, command: Command, resolved: Resolved) -> ApprovalState | None:
        """Return the approval that a start needs by the rules, or that it has for always; None when it needs
        none.

        Raises:
            CommandRefused: The rules deny it.
            LimitExceeded: Too many wait for an approval already.
        """
        decision, reading, files = await self.policing.decide(command, cwd=resolved.cwd, path=resolved.path)
        if decision.verdict is Verdict.ALLOW:
            return None
        if decision.verdict is Verdict.DENY:
            raise refusal(decision)
        proposed = await self.standing.proposed(command, resolved, reading, files)
        standing = proposed.standing
        if (
            isinstance(standing, StandingApproval)
            and (given := await self.standing.given(standing)) is not None
        ):
            reason = f"{decision.reason} It is approved for always in {given.project}, since {given.at}."
            return ApprovalState(
                reason=reason, expires_at=datetime.now(UTC), approved_by=given.by, files=proposed.files
            )
        if len(self) >= _MAX_ASKED:
            text = f"{_MAX_ASKED} commands wait for an approval already."
            raise LimitExceeded("approval_limit", text)
        expires_at = datetime.now(UTC) + timedelta(seconds=self.timeout_s)
        return ApprovalState(
            reason=decision.reason + proposed.remark,
            expires_at=expires_at,
            asked=boot_time(),
            timeout_s=self.timeout_s,
            variables=tuple(sorted({*command.env, *command.env_secrets})),
            files=proposed.files,
            standing=standing if isinstance(standing, StandingApproval) else None,
            only_once=standing if isinstance(standing, str) else "",
        )


def _changed(shown: WaitingApproval, hide: TextMask) -> InvalidState:
    """Return the refusal of an approval of something else than what waits."""
    process_id = shown.record.process_id
    details = {
        "digest": shown.digest,
        "argv": [hide(word).encode("utf-8", "replace").decode() for word in shown.argv],
        "cwd": shown.record.cwd,
        "variables": list(shown.env),
        "profile": shown.record.sandbox.profile.value,
        **redacted_member(hide.count),
    }
    text = f"What waits as {process_id} is not what was approved: nothing is started."
    return InvalidState("approval_changed", text, details=details)


def _shown(record: ProcessRecord, command: WaitingCommand, hide: TextMask, *, raw: bool) -> WaitingApproval:
    """Return what a person sees of a command that waits; `raw` shows the values that the caller has set."""
    script = command.script[:_MAX_SCRIPT_BYTES].decode("utf-8", "replace")
    spec = decode_spec(command.spec)
    argv = tuple(map(hide, spec.argv))
    given = {**spec.env, **command.secrets}
    names = () if record.approval is None else record.approval.variables
    env = {name: given.get(name) if raw or given.get(name) is None else _MASKED for name in names}
    masked = 0 if raw else sum(value is not None for value in env.values())
    if record.approval is not None:  # it may name one of the words
        standing = record.approval.standing
        if standing is not None:
            commands = tuple(tuple(map(hide, words)) for words in standing.commands)
            standing = replace(standing, commands=commands)
        approval = replace(record.approval, reason=hide(record.approval.reason), standing=standing)
        record = replace(record, approval=approval)
    script = hide(script)
    return WaitingApproval(
        record=record,
        digest=command.digest,
        argv=argv,
        script=script,
        script_bytes=len(command.script),
        env=env,
        redacted=hide.count + masked,
    )
