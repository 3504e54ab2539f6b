"""`DiskUsage`: what takes the state folder's disk, by project and state, and what retention will do about it.

Sizes are what lies on disk (blocks, so that released output does not count), read anew at each question: a
folder costs ten system calls, ten thousand of them half a second in a thread. What belongs to other
principals is counted nowhere but in the free space, and in how much of retention's limits is used.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from outlive.core.layout import Layout
from outlive.core.lifecycle import ENDED
from outlive.core.process import Owner
from outlive.core.values import dataclass
from outlive.engine.queries import Queries
from outlive.engine.recovery.upkeep import Upkeep
from outlive.operations.answers import DiskRequest, DiskShare, DiskUsageAnswer, ProjectShare, RetentionRule
from outlive.store.retention import Candidate, Retention, RetentionClock, judge
from outlive.store.rows import ProcessFilter

_PAGE = 1000  # records of one question to the registry: some milliseconds
_BLOCK = 512  # st_blocks counts these, whatever the file system's are (stat(2))
_Place = tuple[str | None, str, int]  # project, state, bytes


@dataclass(eq=False, slots=True)
class DiskUsage:
    """Answers the operation `disk`. On the engine's loop only."""

    layout: Layout
    upkeep: Upkeep
    rule: Retention
    queries: Queries

    async def answer(self, _asked: DiskRequest, by: Owner) -> DiskUsageAnswer:
        """Return what the caller's processes take now.

        Raises:
            OutliveError: The registry does not answer, or the folder is gone.
        """
        await self.queries.known()
        known = await self._all_of(by.principal)
        places, own_bytes = await asyncio.to_thread(self._measure, known)
        clock, candidates = await self.upkeep.candidates()
        retention = await asyncio.to_thread(
            explained, candidates, self.rule, clock=clock, ours=known.keys(), now=datetime.now(UTC)
        )
        disk = await asyncio.to_thread(os.statvfs, self.layout.root)
        return DiskUsageAnswer(
            processes=len(places),
            running=_running(places),
            bytes=_bytes(places),
            reclaimable_bytes=_reclaimable(places),
            states=_by_state(places),
            projects=_by_project(places),
            own_bytes=own_bytes,
            free_bytes=disk.f_bavail * disk.f_frsize,
            total_bytes=disk.f_blocks * disk.f_frsize,
            retention=retention,
        )

    async def _all_of(self, principal: str) -> dict[str, tuple[str | None, str]]:
        """Return project and state of every process of a principal, by id."""
        found: dict[str, tuple[str | None, str]] = {}
        before: str | None = None
        # In pages, so that other questions to the registry have their turns between.
        while True:
            page = await self.queries.list(ProcessFilter(principal=principal, before=before), limit=_PAGE)
            for record in page:
                found[record.process_id] = (record.project, record.state.value)
            if len(page) < _PAGE:
                return found
            before = page[-1].process_id

    def _measure(self, known: dict[str, tuple[str | None, str]]) -> tuple[list[_Place], int]:
        places = [
            (project, state, disk_bytes(self.layout.process(process_id)))
            for process_id, (project, state) in known.items()
        ]
        own = sum(
            disk_bytes(f"{self.layout.root}/{name}")
            for name in os.listdir(self.layout.root)
            if f"{self.layout.root}/{name}" != self.layout.processes
        )
        return places, own


def disk_bytes(path: str) -> int:
    """Return what a file, or a folder with all that is in it, takes on disk.

    What vanishes meanwhile counts nothing.
    """
    total = 0
    with contextlib.suppress(OSError):
        total = os.lstat(path).st_blocks * _BLOCK
        if os.path.isdir(path) and not os.path.islink(path):
            with os.scandir(path) as entries:
                total += sum(disk_bytes(entry.path) for entry in entries)
    return total


def explained(
    candidates: Iterable[Candidate],
    rule: Retention,
    *,
    clock: RetentionClock,
    ours: Iterable[str],
    now: datetime,
) -> list[RetentionRule]:
    """Return what each part of the rule takes of ours next, and when the age takes the first of what stays.

    Pure.

    The rule looks at everything that has ended; `now` is the wall clock, which a person compares with.
    """
    # Judged together, as the server does it: another principal's process may be the newer one that pushes
    # ours out.
    ended = list(candidates)
    mine = {one.process_id for one in ended}.intersection(ours)
    doomed = judge(ended, rule, now_ns=clock.now_ns)
    # The age counts by retention's own clock, which a wall clock that was set wrong does not move.
    oldest = min((one.ended_ns for one in ended), default=clock.now_ns)
    stays = [one.ended_ns for one in ended if one.process_id in mine and one.process_id not in doomed]
    next_at = None
    if rule.max_age_s is not None and stays:
        next_at = now + timedelta(seconds=rule.max_age_s - (clock.now_ns - min(stays)) / 1e9)
    parts = (
        ("age", None if rule.max_age_s is None else int(rule.max_age_s), (clock.now_ns - oldest) // 10**9),
        ("count", rule.max_count, len(ended)),
        ("size", rule.max_bytes, sum(one.size for one in ended)),
    )
    found = []
    for name, limit, used in parts:
        taken = [one for one in ended if one.process_id in mine and doomed.get(one.process_id) == name]
        found.append(
            RetentionRule(
                rule=name,  # type: ignore[arg-type]  # one of the three
                limit=limit,
                used=max(0, used),
                processes=len(taken),
                bytes=sum(one.size for one in taken),
                next_at=next_at if name == "age" else None,
            )
        )
    return found


def _running(places: Iterable[_Place]) -> int:
    return sum(state not in ENDED for _, state, _ in places)


def _bytes(places: Iterable[_Place]) -> int:
    return sum(size for _, _, size in places)


def _reclaimable(places: Iterable[_Place]) -> int:
    return sum(size for _, state, size in places if state in ENDED)


def _by_state(places: Iterable[_Place]) -> dict[str, DiskShare]:
    found: dict[str, list[int]] = {}
    for _, state, size in places:
        found.setdefault(state, []).append(size)
    return {
        state: DiskShare(processes=len(sizes), bytes=sum(sizes)) for state, sizes in sorted(found.items())
    }


def _by_project(places: Iterable[_Place]) -> list[ProjectShare]:
    parts: dict[str | None, list[_Place]] = {}
    for place in places:
        parts.setdefault(place[0], []).append(place)
    shares = [
        ProjectShare(
            project=project,
            processes=len(part),
            running=_running(part),
            bytes=_bytes(part),
            reclaimable_bytes=_reclaimable(part),
            states=_by_state(part),
        )
        for project, part in parts.items()
    ]
    return sorted(shares, key=lambda one: (-one.bytes, one.project or ""))
