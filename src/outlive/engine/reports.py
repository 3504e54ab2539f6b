"""`Reports`: what the caller's processes did in a span of time, what the audit log says, which settings
count, what a check finds.

Counted is what the registry has: nothing samples anything. SQLite adds it up (`store.span_sums`), and
`engine.span_counts` makes the answer of that.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import assert_never

import msgspec

from outlive.config import EffectiveSetting
from outlive.core.errors import BackendUnavailable
from outlive.core.layout import Layout
from outlive.core.process import Owner
from outlive.core.values import dataclass, field
from outlive.engine.queries import Queries
from outlive.engine.span_counts import SpanCounts
from outlive.engine.starts.start_queue import StartQueue
from outlive.kernel.processes import python_words
from outlive.operations.reports import (
    AuditPage,
    AuditRequest,
    ChecksAnswer,
    ChecksRequest,
    GroupsAnswer,
    GroupsRequest,
    ReportAnswer,
    ReportRequest,
    SettingsAnswer,
    SettingsRequest,
    SettingView,
    StatisticsAnswer,
    StatisticsRequest,
)
from outlive.operations.requests import moment_of
from outlive.store.audit.audit_trail import read_outages, read_page
from outlive.store.registry import Registry, span_sums
from outlive.store.rows import ProcessFilter, bounded_ns
from outlive.store.span_sums import SpanBounds, SpanSums

_CHECK_S = 30.0  # a doctor on a busy machine: it starts some programs
_CHECKED_S = 10.0  # a page that is looked at asks again


@dataclass(eq=False, slots=True)
class Reports:
    """Answers `statistics`, `groups`, `audit`, `settings` and `checks`. On the engine's loop only."""

    layout: Layout
    registry: Registry
    queries: Queries
    queue: StartQueue
    _settings: tuple[SettingView, ...] = field(default=(), init=False)
    _checking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _checked: tuple[float, ChecksAnswer] | None = field(default=None, init=False)

    def show_settings(self, effective: Iterable[EffectiveSetting]) -> None:
        """Take the settings that are in effect, once, before the first question."""
        self._settings = tuple(
            SettingView(key=one.key, value=one.value, source=one.source, place=one.place, help=one.help)
            for one in effective
        )

    async def answer(self, asked: ReportRequest, by: Owner) -> ReportAnswer:
        """Answer one of `operations.reports.REPORTS`; raises what each of them does."""
        match asked:
            case StatisticsRequest():
                return await self.statistics(by.principal, asked)
            case GroupsRequest():
                return GroupsAnswer(groups=self.queue.machine.views(by.principal))
            case AuditRequest():
                return await self.audit(asked)
            case SettingsRequest():
                return self.settings()
            case ChecksRequest():
                return await self.checks()
            case _:
                assert_never(asked)

    def settings(self) -> SettingsAnswer:
        """Return every setting of this server, as it was started; no secret's value is among them."""
        return SettingsAnswer(settings=list(self._settings))

    async def checks(self) -> ChecksAnswer:
        """Return what `outlive doctor` finds on this machine, at most ten seconds old.

        In a process of its own: what is tried out (signals, a subreaper, a group of processes) must not
        happen in a server.

        Raises:
            BackendUnavailable: `timeout`: it has not ended in half a minute, or says nothing that can be
            read.
        """
        async with self._checking:  # asked for twice at once, it is done once
            now = time.monotonic()
            if self._checked is None or now - self._checked[0] > _CHECKED_S:
                self._checked = (now, await _check(self.layout.root))
            return self._checked[1]

    async def statistics(self, principal: str, asked: StatisticsRequest) -> StatisticsAnswer:
        """Return what a principal's processes did.

        Raises:
            InvalidRequest: The span makes no sense.
            OutliveError: The registry does not answer.
        """
        span = asked.span(datetime.now(UTC))
        counting = SpanCounts(span)
        if asked.counts:
            wanted = ProcessFilter(principal=principal, project=asked.project, alive_since=span.since)
            bounds = SpanBounds(
                since_ns=bounded_ns(span.since),
                until_ns=bounded_ns(span.until),
                bucket_ns=span.bucket_s * 10**9,
                count=span.count,
            )
            counting.add_sums(await self._sums(wanted, bounds))
        away = await asyncio.to_thread(read_outages, self.layout.audit, since=span.since, until=span.until)
        return counting.answer(away)

    async def _sums(self, wanted: ProcessFilter, bounds: SpanBounds) -> SpanSums:
        """Return what the registry adds up; what lives is among `others`."""
        await self.queries.known()
        live = [one.record for one in self.queries.live(principal=wanted.principal)]
        found = await span_sums(self.registry, wanted, bounds, without=[one.process_id for one in live])
        found.others += [one for one in live if wanted.matches(one)]
        return found

    async def audit(self, asked: AuditRequest) -> AuditPage:
        """Return a page of the audit log; an entry is there some 50 ms after what it is about.

        Raises:
            InvalidRequest: A time is none.
        """
        found = await asyncio.to_thread(
            read_page,
            self.layout.audit,
            process_id=asked.process_id,
            since="" if asked.since is None else _as_entered("since", asked.since),
            until="~" if asked.until is None else _as_entered("until", asked.until),
            before=asked.before,
            limit=asked.limit + 1,
        )
        return AuditPage(entries=found[: asked.limit], more=len(found) > asked.limit)


async def _check(state_dir: str) -> ChecksAnswer:
    words = (*python_words(), "-m", "outlive", "doctor", "--json", "--state-dir", state_dir)
    doctor = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_CHECK_S):
            said, _ = await doctor.communicate()
        return msgspec.json.decode(said, type=ChecksAnswer)
    except (TimeoutError, msgspec.DecodeError) as error:
        text = "`outlive doctor` gave no answer."
        raise BackendUnavailable("timeout", text, hint="Try it at the machine's own command line.") from error
    finally:
        with contextlib.suppress(ProcessLookupError):  # mostly it has ended
            doctor.kill()
        await asyncio.shield(doctor.wait())


def _as_entered(name: str, text: str) -> str:
    """Return a moment in the form in which the audit log has it."""
    return f"{moment_of(name, text).astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
