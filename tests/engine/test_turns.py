"""Turns in groups and places on a machine, in any order of all that can happen to them."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlive.core.errors import LimitExceeded
from outlive.core.identity import RANDOM_BYTES, ProcessId, new_process_id
from outlive.core.lifecycle import State
from outlive.core.needs import Amounts, Needs
from outlive.core.process import Owner, ProcessRecord
from outlive.engine import Process
from outlive.engine.processes.groups import ConcurrencyLimits, PendingStarts
from outlive.engine.processes.places import Places
from outlive.placement.fleet import FleetNode
from outlive.placement.static import StaticPlacement
from outlive.store.folder import ChangedLabels
from outlive.store.queue_store import GroupKey, WaitingCommand
from outlive.store.rows import StoredProcess

_MACHINE = FleetNode(name="local", capacity=Amounts.of(cpu=2, gpu=1))
_HOPELESS = Needs(amounts=Amounts.of(gpu=8))
_NEEDS = st.sampled_from(
    [None, *(Needs(amounts=Amounts.of(**one)) for one in ({"cpu": 1}, {"cpu": 2}, {"gpu": 1})), _HOPELESS]
)
_GROUPS = st.sampled_from(["g", "g", "g", "h", None])
_FULL = st.sampled_from([False, False, False, False, True])  # whether the disk is
_PICKS = st.integers(0, 1000)


class _Disk:
    """What `QueueStore` keeps, in memory: it outlives the server, and is full when a test says so."""

    def __init__(self) -> None:
        self.is_full = False
        self.waiting: dict[str, WaitingCommand] = {}
        self.order: list[str] = []
        self.limits: dict[GroupKey, int] = {}

    def open(self) -> tuple[list[WaitingCommand], dict[GroupKey, int]]:
        turns = {name: turn for turn, name in enumerate(self.order)}
        waiting = sorted(self.waiting.values(), key=lambda one: turns.get(one.process_id, len(turns)))
        return waiting, dict(self.limits)

    def _write(self) -> None:
        if self.is_full:
            raise OSError("No space left on device")

    def put(self, command: WaitingCommand) -> None:
        self._write()
        self.waiting[command.process_id] = command

    def remove(self, process_id: ProcessId) -> None:
        self.waiting.pop(process_id, None)

    def keep_limits(self, limits: Mapping[GroupKey, int]) -> None:
        self._write()
        self.limits = dict(limits)

    def keep_order(self, process_ids: Sequence[str]) -> None:
        self._write()
        self.order = list(process_ids)


class _Starter:
    """Starts what is admitted, and counts how often."""

    def __init__(self) -> None:
        self.started: list[str] = []

    async def admit(self, process: Process, command: WaitingCommand) -> bool:
        assert process.process_id == command.process_id
        self.started.append(process.process_id)
        return True


class Turns(RuleBasedStateMachine):
    """Commands come, end, are cancelled and moved, limits and labels change, the machine goes and comes, the
    server restarts.
    """

    @initialize(limit=st.none() | st.integers(1, 2))
    def begin(self, limit: int | None) -> None:
        """Open the first server."""
        self.loop = asyncio.new_event_loop()
        self.disk = _Disk()
        if limit is not None:
            self.disk.limits["me", "g"] = limit
        self.starter = _Starter()
        self.count = 0
        self.alive: dict[str, Process] = {}  # what has been started and has not ended
        self.queued: dict[str, Process] = {}
        self.machine = _MACHINE
        self._open()

    def teardown(self) -> None:
        """Let all end: nothing is left that waits, but for what no machine has."""
        if not hasattr(self, "loop"):
            return
        try:
            if self.machine.is_open is False:
                self.open_or_close()
            for name in [name for name, one in self.queued.items() if one.needs == _HOPELESS]:
                self._cancel(name)
            while self.alive:
                self._end(next(iter(self.alive)))
            assert not self.queued, "they wait for ever"
        finally:
            self._run(self._close())
            self.loop.close()

    def _run(self, deed: Coroutine[None, None, object]) -> None:
        self.loop.run_until_complete(deed)
        while tasks := asyncio.all_tasks(self.loop):  # they start what was admitted
            self.loop.run_until_complete(asyncio.gather(*tasks))
        self._take_over()

    def _take_over(self) -> None:
        for name in [name for name in self.queued if name in self.starter.started]:
            self.alive[name] = self.queued.pop(name)

    def _open(self) -> None:
        self.placement = StaticPlacement([self.machine])
        self.pending = PendingStarts(self.disk)  # type: ignore[arg-type] # what it uses of a store
        self.places = Places(self.placement)
        self.limits = ConcurrencyLimits(self.pending, self.places)
        self._run(self._opened())

    async def _opened(self) -> None:
        self.tasks = asyncio.TaskGroup()
        await self.tasks.__aenter__()
        self.pending.begin(self.tasks)
        for process in self.alive.values():
            self.limits.enter(process)
        for command in await self.limits.open():
            self.limits.rejoin(self.queued[command.process_id], command)
        self.limits.begin(self.starter)

    async def _close(self) -> None:
        self.limits.close()
        await self.tasks.__aexit__(None, None, None)

    def _record(self, needs: Needs | None, group: str | None) -> ProcessRecord:
        self.count += 1
        return ProcessRecord(
            process_id=new_process_id(self.count * 10**9, bytes(RANDOM_BYTES)),
            command="true",
            shell=None,
            cwd="/",
            state=State.STARTING,
            owner=Owner(principal="me"),
            created_at=datetime.fromtimestamp(self.count, UTC),
            needs=needs,
            group=group,
        )

    @rule(needs=_NEEDS, group=_GROUPS, pauses=st.booleans(), is_full=_FULL)
    def start(self, needs: Needs | None, group: str | None, *, pauses: bool, is_full: bool) -> None:
        """A command comes (see `Starts._start`)."""
        record = self._record(needs, group)
        is_queued = group is not None and self.limits.lines.is_full(("me", group))
        if not is_queued and record.needs is not None:
            is_queued = not self.places.ask(record)
        process = Process(
            replace(record, state=State.QUEUED if is_queued else State.STARTING), "/none", output_limit=None
        )
        if not is_queued:
            self.starter.started.append(process.process_id)
            self.alive[process.process_id] = process
            self.limits.enter(process)
            return
        if pauses and self.alive:  # it is asked for notices, and something ends meanwhile
            self._end(next(iter(self.alive)))
        self.queued[process.process_id] = process
        self.disk.is_full = is_full
        self._run(self._wait(process))

    async def _wait(self, process: Process) -> None:
        try:
            await self.limits.wait_in_line(process, WaitingCommand(process.process_id, b"", b"", {}))
        except LimitExceeded:
            assert self.disk.is_full
            del self.queued[process.process_id]

    def _end(self, name: str) -> None:
        process = self.alive.pop(name)
        process.end_as(StoredProcess(record=replace(process.record, state=State.EXITED), complete=None))
        self._run(self._ended(process))

    async def _ended(self, process: Process) -> None:
        self.limits.ended(process)

    @precondition(lambda self: self.alive)
    @rule(pick=_PICKS)
    def end(self, pick: int) -> None:
        """One that runs ends."""
        self._end(list(self.alive)[pick % len(self.alive)])

    def _cancel(self, name: str) -> None:
        self._run(self._withdraw(self.queued.pop(name)))

    async def _withdraw(self, process: Process) -> None:
        assert self.limits.step_out(process)
        self.pending.forget(process)
        self.disk.remove(process.process_id)
        record = replace(process.record, state=State.FAILED_TO_START)
        process.end_as(StoredProcess(record=record, complete=None))
        self.limits.ended(process)

    @precondition(lambda self: self.queued)
    @rule(pick=_PICKS)
    def cancel(self, pick: int) -> None:
        """One that waits is cancelled."""
        self._cancel(list(self.queued)[pick % len(self.queued)])

    @precondition(lambda self: self.queued)
    @rule(pick=_PICKS, places=st.sampled_from([-3, -1, 1, 2]), is_full=_FULL)
    def move(self, pick: int, places: int, *, is_full: bool) -> None:
        """One that waits is moved."""
        self.disk.is_full = is_full
        self._run(self._moved(list(self.queued.values())[pick % len(self.queued)], places))

    async def _moved(self, process: Process, places: int) -> None:
        before = self.limits.lines.order()
        try:
            await self.limits.move(process, places)
        except LimitExceeded:
            assert self.disk.is_full
            assert self.limits.lines.order() == before

    @rule(limit=st.none() | st.integers(1, 4), is_full=_FULL)
    def limit(self, limit: int | None, *, is_full: bool) -> None:
        """The limit of a group is changed."""
        self.disk.is_full = is_full
        self._run(self._limited(("me", "g"), limit))

    async def _limited(self, key: GroupKey, limit: int | None) -> None:
        try:
            await self.limits.set_limit(key, limit)
        except LimitExceeded:
            assert self.disk.is_full

    @precondition(lambda self: self.alive)
    @rule(pick=_PICKS, group=_GROUPS)
    def relabel(self, pick: int, group: str | None) -> None:
        """One that runs gets another group, or the same one."""
        process = list(self.alive.values())[pick % len(self.alive)]
        is_same, waiting = process.group == group, list(self.queued)
        self._run(self._relabeled(process, ChangedLabels(tags={}, group=group, name=None)))
        assert not is_same or list(self.queued) == waiting, "a tag has given somebody a turn"

    async def _relabeled(self, process: Process, labels: ChangedLabels) -> None:
        with self.limits.changing_group(process):
            process.relabel(labels)

    @rule()
    def open_or_close(self) -> None:
        """The machine goes away, or comes back."""
        self.machine = replace(self.machine, is_open=not self.machine.is_open)
        self._run(self._changed())

    async def _changed(self) -> None:
        self.places.nodes.changed(self.machine)

    @rule()
    def restart(self) -> None:
        """The server ends, and the next one finds what there is."""
        self._run(self._close())
        self._open()

    @invariant()
    def turns_and_places_agree(self) -> None:
        """Check that each that has its turn waits for a place alone, and that no other one has or wants
        one.
        """
        if not hasattr(self, "loop"):
            return
        lines = self.limits.lines
        assert sorted(one.process_id for one in lines) == sorted(self.queued)
        turns = {one.process_id for key in lines.keys for one in lines.turns(key)}
        assert set(self.placement.waiting()) == turns, "these want a place, and no others"
        assert set(self.places.waiting("me")[0]) == turns
        assert not any(self.places.node_of(one) for one in self.queued.values()), "held by one that waits"
        assert len(self.starter.started) == len(set(self.starter.started)), "started twice"
        taken = sum((one.needs.amounts for one in self.alive.values() if one.needs), Amounts())
        assert self.machine.capacity - self.placement.rooms()[0].free == taken

    @invariant()
    def no_group_has_more_turns_than_its_limit(self) -> None:
        """Check that as many have their turn as the limit has left, counted here."""
        if not hasattr(self, "loop"):
            return
        for key, limit in self.limits.lines.limits.items():
            running = sum(one.group == key[1] for one in self.alive.values())
            waiting = sum(one.group == key[1] for one in self.queued.values())
            assert len(self.limits.lines.turns(key)) == min(waiting, max(0, limit - running))


TestTurns = Turns.TestCase
TestTurns.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
