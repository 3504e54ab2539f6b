"""`ApprovalQueue`: starts about which policy asks a person wait, on disk, until they are approved or denied.

No person is asked over the agent's own channel: the answer comes through `approve` and `deny`, which the
doors give to callers with the scope `admin` only. Under one uid nothing proves that a person has spoken
(SECURITY.md).

Which starts wait for a person's approval, and until when: `ApprovalDeadlines`. The files are
`store.queue_store`'s.
"""

import asyncio
import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal

from outlive.core.command import ApprovalState, Command, StandingApproval
from outlive.core.errors import InvalidState, LimitExceeded, OutliveError
from outlive.core.events import ApprovalDecided, ApprovalRequested
from outlive.core.lifecycle import Cause
from outlive.core.process import ProcessRecord
from outlive.core.redactions import redacted_member
from outlive.core.values import dataclass, replace
from outlive.engine.commands.policy_check import Policing
from outlive.engine.commands.resolver import Resolved
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.groups import ConcurrencyLimits, PendingStarts
from outlive.engine.processes.output_redaction import Redaction, TextMask, hide_error
from outlive.engine.processes.process import Process, boot_time, read_clocks
from outlive.engine.processes.process_table import ChangeHandler, ProcessTable, StartOutcomes
from outlive.engine.starts.standing_approvals import StandingApprovals
from outlive.policy.judgement import Verdict, refusal
from outlive.protocols.keeper import decode_spec, encode_spec
from outlive.store.folder import encode_meta
from outlive.store.queue_store import WaitingCommand
from outlive.store.retention import RetentionClock
from outlive.store.rows import to_ns

_LOOK_S = 60.0  # a few microseconds for each that waits


class ApprovalDeadlines:
    """Which processes wait for an approval. On the engine's loop only."""

    def __init__(self, *, expire: Callable[[Process], None]) -> None:
        """`expire` is called when a process's time is up."""
        self._expire = expire
        self._waiting: dict[Process, WaitingCommand] = {}
        self._timers: dict[Process, asyncio.TimerHandle] = {}
        self._clock: RetentionClock | None = None  # None: no time passes yet

    def begin(self, clock: RetentionClock) -> None:
        """Let time pass for what waits, now and from now on."""
        self._clock = clock
        for process in self._waiting:
            self._wind(process)

    def __contains__(self, process: Process) -> bool:
        """Return whether a process waits for an approval."""
        return process in self._waiting

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def of(self, process: Process) -> WaitingCommand | None:
        """Return the command of a process that waits here; None for every other."""
        return self._waiting.get(process)

    def add(self, process: Process, command: WaitingCommand) -> None:
        """Note that a process waits until its approval's time is up."""
        self._waiting[process] = command
        self._wind(process)

    def step_out(self, process: Process) -> WaitingCommand | None:
        """Let a process wait no more, and return its command; None when it did not wait here."""
        timer = self._timers.pop(process, None)
        if timer is not None:
            timer.cancel()
        return self._waiting.pop(process, None)

    def all(self) -> list[tuple[Process, WaitingCommand]]:
        """Return what waits, oldest first."""
        return sorted(self._waiting.items(), key=lambda one: one[0].process_id)

    def close(self) -> None:
        """Stop the clocks: the next server goes on with them."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._clock = None

    def _wind(self, process: Process) -> None:
        if self._clock is None:
            return
        record = process.record
        approval = record.approval
        if approval is None:
            raise AssertionError("a process that waits here has an approval")
        self._clock = clock = self._clock.step(read_clocks())
        age_s = (clock.now_ns - clock.at(approval.asked, wall_ns=to_ns(record.created_at))) / 1e9
        rest_s = approval.timeout_s - age_s
        if rest_s <= 0:
            self._timers.pop(process, None)
            self._expire(process)
            return
        expires_at = datetime.now(UTC) + timedelta(seconds=rest_s)
        if abs((expires_at - approval.expires_at).total_seconds()) > 1:  # the wall clock was set
            process.approve(replace(approval, expires_at=expires_at))
        # The loop's clock stands still while the machine is suspended, and says nothing of the wall clock.
        wait_s = min(rest_s, _LOOK_S)
        self._timers[process] = asyncio.get_running_loop().call_later(wait_s, self._wind, process)


_MAX_SCRIPT_BYTES = 64 * 1024  # of a script that is shown
_MASKED = "****"
_MAX_ASKED = 1000  # a person does not read more; each is a file and some 10 KB of memory
_Verdict = Literal["approved", "denied", "expired"]
_ENDS: dict[_Verdict, Cause] = {"denied": Cause.APPROVAL_DENIED, "expired": Cause.APPROVAL_EXPIRED}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingApproval:
    """What a person decides about: the words that would be executed, whatever the command calls itself.

    `digest` stands for all that decides what runs (`WaitingCommand.digest`). `script` is whole where its size
    is `script_bytes`, else its first 64 KiB. `env` holds what the caller has set, by name: a masked value, or
    None for a variable that is taken away. `redacted`: how many secrets and values are stars in the words,
    the script, the reason and `env`.
    """

    record: ProcessRecord
    digest: str
    argv: tuple[str, ...]
    script: str
    script_bytes: int
    env: Mapping[str, str | None]
    redacted: int = 0


class ApprovalQueue:
    """The starts that wait for a person: shown, approved, denied, or expired. On the engine's loop only."""

    def __init__(
        self,
        pending: PendingStarts,
        limits: ConcurrencyLimits,
        *,
        policing: Policing,
        timeout_s: float,
        standing: StandingApprovals,
        table: ProcessTable,
        changes: ChangeHandler,
        outcomes: StartOutcomes,
        redaction: Redaction,
        events: EventPublisher,
    ) -> None:
        """Take the parts; a start waits at most `timeout_s` for its approval.

        What is approved for always is in `standing`.
        """
        self._pending = pending
        self._limits = limits
        self._policing = policing
        self._timeout_s = timeout_s
        self._standing = standing
        self._table = table
        self._changes = changes
        self._outcomes = outcomes
        self._redaction = redaction
        self._events = events
        self._deadlines = ApprovalDeadlines(expire=self._expire)

    def begin(self, clock: RetentionClock) -> None:
        """Let time pass for what waits, now and from now on."""
        self._deadlines.begin(clock)

    def close(self) -> None:
        """Stop the clocks: the next server goes on with them."""
        self._deadlines.close()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._deadlines)

    def waiting(self, *, raw: bool = False) -> list[WaitingApproval]:
        """Return what waits for an approval, oldest first, of all principals; `raw` hides no secrets in the
        words.
        """
        return [
            _shown(
                process.record,
                command,
                TextMask(None) if raw else self._redaction.texts_of(process.process_id),
                raw=raw,
            )
            for process, command in self._deadlines.all()
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
        waiting = self._deadlines.of(process)
        if waiting is not None and not hmac.compare_digest(waiting.digest.encode(), digest.encode()):
            shown = _shown(process.record, waiting, TextMask(None), raw=True)
            hide = self._redaction.texts_of(process.process_id)
            text = f"What waits as {process.process_id} is not what was approved: nothing is started."
            details = {
                "digest": shown.digest,
                "argv": [hide(word).encode("utf-8", "replace").decode() for word in shown.argv],
                "cwd": shown.record.cwd,
                "variables": list(shown.env),
                "profile": shown.record.sandbox.profile.value,
                **redacted_member(hide.count),
            }
            raise InvalidState("approval_changed", text, details=details)
        if waiting is not None:
            await self.check_unchanged(process, waiting)
        if always and waiting is not None:
            # First, so that a crash behind it loses no yes.
            await self._standing.give(process.record.approval, by=by)
        await self._carry_out(process, "approved", by=by)

    async def deny(self, process: Process, *, by: str, reason: str = "") -> None:
        """End a process that waits for an approval: it never runs.

        Raises:
            InvalidState: `approval_settled`: it does not wait (any more).
        """
        await self._carry_out(process, "denied", by=by, reason=reason)

    async def needed_for(self, command: Command, resolved: Resolved) -> ApprovalState | None:
        """Return the approval that a start needs by the rules, or that it has for always; None when it needs
        none.

        Raises:
            CommandRefused: The rules deny it.
            LimitExceeded: Too many wait for an approval already.
        """
        decision, reading, files = await self._policing.decide(command, cwd=resolved.cwd, path=resolved.path)
        if decision.verdict is Verdict.ALLOW:
            return None
        if decision.verdict is Verdict.DENY:
            raise refusal(decision)
        proposed = await self._standing.proposed(command, resolved, reading, files)
        standing = proposed.standing
        if (
            isinstance(standing, StandingApproval)
            and (given := await self._standing.given(standing)) is not None
        ):
            reason = f"{decision.reason} It is approved for always in {given.project}, since {given.at}."
            return ApprovalState(
                reason=reason, expires_at=datetime.now(UTC), approved_by=given.by, files=proposed.files
            )
        if len(self._deadlines) >= _MAX_ASKED:
            text = f"{_MAX_ASKED} commands wait for an approval already."
            raise LimitExceeded("approval_limit", text)
        expires_at = datetime.now(UTC) + timedelta(seconds=self._timeout_s)
        return ApprovalState(
            reason=decision.reason + proposed.remark,
            expires_at=expires_at,
            asked=boot_time(),
            timeout_s=self._timeout_s,
            variables=tuple(sorted({*command.env, *command.env_secrets})),
            files=proposed.files,
            standing=standing if isinstance(standing, StandingApproval) else None,
            only_once=standing if isinstance(standing, str) else "",
        )

    async def check_unchanged(self, process: Process, command: WaitingCommand) -> None:
        """Return if a process may start that has an approval, or needs none: just before it is asked for.

        Raises:
            InvalidState: `approval_changed`: a file that it names is not what it was.
            StartFailed: `start_failed`: its files cannot be looked at in time.
        """
        try:
            await self._standing.check_unchanged(process.record, command.spec)
        except OutliveError as error:  # it may name one of the words
            hide_error(error, self._redaction.texts_of(process.process_id))
            raise

    async def put(self, process: Process, command: WaitingCommand) -> bool:
        """Keep a command until a person decides about it; False when the disk does not take it."""
        return await self._pending.carry_out(self._put(process, command))

    async def _put(self, process: Process, command: WaitingCommand) -> bool:
        async with self._pending.decision_on(process):
            try:
                await asyncio.to_thread(self._pending.store.put_asked, command)
            except OSError:
                return False
            self._table.processes.enter(process)
            self._pending.add(process, command)
            self._deadlines.add(process, command)
        self._changes.queued(process)
        self._events.publish(ApprovalRequested(record=process.record))
        return True

    def rejoin(self, process: Process, command: WaitingCommand) -> None:
        """Let a process wait that waited when an earlier server ended."""
        self._pending.add(process, command)
        self._deadlines.add(process, command)

    def withdraw(self, process: Process) -> bool:
        """Let a process wait no more because its start was cancelled; return whether it waited here."""
        if self._deadlines.step_out(process) is None:
            return False
        self._events.publish(ApprovalDecided(record=process.record, verdict="withdrawn"))
        return True

    def _expire(self, process: Process) -> None:
        """End a process whose time for an approval is up; called by the clock."""
        self._pending.spawn(self._decide(process, "expired", by="", reason=""))

    async def _carry_out(self, process: Process, verdict: _Verdict, *, by: str, reason: str = "") -> None:
        if await self._pending.carry_out(self._decide(process, verdict, by=by, reason=reason)):
            return
        if process in self._deadlines:
            raise LimitExceeded("disk_full", "The approval cannot be kept; the command goes on waiting.")
        text = f"The process {process.process_id} does not wait for an approval: it is {process.state}."
        raise InvalidState("approval_settled", text, details={"state": process.state.value})

    async def _decide(self, process: Process, verdict: _Verdict, *, by: str, reason: str) -> bool:
        """Carry out what was decided; False when it was not to be decided any more, or the disk is full."""
        async with self._pending.decision_on(process):
            if process not in self._deadlines:
                return False
            if verdict == "approved":
                return await self._admit_approved(process, by=by)
            note = f"Denied by {by}{f': {reason}' if reason else '.'}"
            if verdict == "expired":
                note = "Nobody approved it in time."
            self._deadlines.step_out(process)
            await self._pending.withdraw(process, has_waited=True, cause=_ENDS[verdict], note=note)
            self._outcomes.never_started(process, cause=_ENDS[verdict], error=note)
        self._events.publish(ApprovalDecided(record=process.record, verdict=verdict, by=by, reason=reason))
        return True

    async def _admit_approved(self, process: Process, *, by: str) -> bool:
        """Put down that a process is approved, then let it take its turn; False when the disk is full."""
        waiting = self._deadlines.step_out(process)
        approval = process.record.approval
        if waiting is None or approval is None:
            raise AssertionError("a process that is approved has waited for it")
        approved = replace(approval, approved_by=by)
        spec = decode_spec(waiting.spec)
        meta = encode_meta(replace(process.record, approval=approved))
        command = replace(waiting, spec=encode_spec(spec._replace(meta={**spec.meta, **meta})))
        try:
            await asyncio.to_thread(self._pending.store.put, command)
        except OSError:
            self._deadlines.add(process, waiting)
            return False
        process.approve(approved)
        self._events.publish(ApprovalDecided(record=process.record, verdict="approved", by=by))
        self._limits.rejoin(process, command)
        self._limits.advance(process)
        return True


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
