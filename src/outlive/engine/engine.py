"""`Engine`: the parts of which the server's core is made, wired together, and their life (open, recover,
close).

What can be asked of it is in its parts: `starts`, `controls`, `queries`, `queue`, `approvals`, `records` and
so on. It knows no frontend and no protocol: frontends call it, are woken through `Process.subscribers` and
read the log.
"""

import asyncio
import contextlib
from typing import Self

from outlive.backends.contract import Backend
from outlive.core.events import KeeperDisconnected
from outlive.core.layout import Layout
from outlive.core.location import LOCAL
from outlive.core.needs import Amounts
from outlive.core.process import Owner
from outlive.engine.commands.policy_check import Policing
from outlive.engine.commands.resolver import clean_environment
from outlive.engine.commands.sandbox import Sandboxes
from outlive.engine.controls import AuditedControls, BulkControls, Controls, Records
from outlive.engine.disk_usage import DiskUsage
from outlive.engine.files import OpenFiles
from outlive.engine.health import DiskWatch, Health
from outlive.engine.lookup import Lookup
from outlive.engine.output_search import OutputIndex, OutputSearch
from outlive.engine.processes.event_publisher import EventPublisher, Unread
from outlive.engine.processes.output_redaction import Redaction, Secrets
from outlive.engine.processes.places import Places
from outlive.engine.processes.process_table import (
    ChangeHandler,
    LiveTable,
    ProcessTable,
    RegistryFeed,
    StartOutcomes,
)
from outlive.engine.processes.question_watch import QuestionWatch
from outlive.engine.processes.session_ends import SessionEnds
from outlive.engine.queries import ConnectionProcesses, Queries
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.engine.recovery.recovery import Recovery
from outlive.engine.recovery.upkeep import Upkeep
from outlive.engine.reports import Reports
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.approvals import StartApprovals
from outlive.engine.starts.names import CommandIds, NameHolders, StartNames
from outlive.engine.starts.preparation import Preparation
from outlive.engine.starts.standing_approvals import StandingApprovals
from outlive.engine.starts.start_queue import StartQueue
from outlive.engine.starts.starter import Starter
from outlive.engine.starts.starts import Grants, Starts
from outlive.engine.starts.typed_lines import TypedLines
from outlive.kernel.disk import Reserve, probe
from outlive.placement.contract import Placement
from outlive.placement.fleet import FleetNode
from outlive.placement.waiting_line import StaticPlacement
from outlive.store.queue_store import QueueStore
from outlive.store.registry import Registry


class Engine:
    """Starts, controls, finds and remembers processes.

    `async with Engine(...)` opens the registry, connects to the keeper (starting it when none listens) and
    recovers what earlier servers started; leaving it stops nothing: the commands go on. Used from one event
    loop.

    Attributes:
        settings: Defaults of commands and bounds of what is kept.
        starts: Starts commands.
        controls: Pauses, signals, writes to and ends processes, on the server's own behalf; `as_` on a
            caller's.
        bulk: Controls many processes at once.
        queries: Finds, lists and reads processes, and waits for them.
        search: Finds lines in the output of all processes.
        lookup: Finds the process that a caller's word means.
        connections: Which processes a connection has started.
        records: Changes what is kept of processes, and removes it.
        queue: Commands that wait for their group's turn, and the groups' limits.
        approvals: Commands that wait for a person.
        typed_lines: Judges lines that are typed into a shell that runs already.
        events: Publishes what happens.
        notices: Which processes a notice is owed for.
        session_ends: Which MCP sessions their clients have ended.
        names: Which names and numbers of processes are taken.
        places: Which processes have a place on a machine, and which machines there are.
        files: Files of this machine and of nodes, for copies.
        placement: Gives commands that say what they need a place on a machine.
        questions: Notices which of the watched processes wait for input.
        health: Whether commands can be started just now.
        disk_usage: What takes the state folder's disk, and what retention will remove.
        reports: What happened in a span of time, and what the audit log says.
        disk: Why the state folder cannot be written, if it cannot.
        grants: The tokens that commands get.
        sandboxes: The bounds that commands get.
        redaction: What is hidden in output and texts.
        reconciliation: What is not known yet after a start of the server.
    """

    def __init__(
        self,
        settings: EngineSettings,
        *,
        backend: Backend,
        placement: Placement | None = None,
    ) -> None:
        """Take the settings, where commands run and what gives places out (none by default).

        Nothing is opened yet.

        The parts are made from the lowest up: each takes those that it calls.
        """
        self.settings = settings
        self._backend = backend
        self._layout = Layout(settings.state_dir)
        self._stack = contextlib.AsyncExitStack()
        root = self._layout.root
        self._registry = Registry(self._layout.registry, takes_writes=lambda: probe(root) is None)
        self._ids = CommandIds(self._registry)
        self.disk = DiskWatch(root, self._registry)
        self.events = EventPublisher()
        self.questions = QuestionWatch(backend, events=self.events)
        self.redaction = Redaction(
            settings.redactor, Secrets(), hides_values=settings.options.redact != "off"
        )
        self.sandboxes = Sandboxes(
            settings.options,
            state_dir=root,
            environment=settings.environment,
            own_files=settings.own_files,
            ask=backend.offers,
        )
        self._make_table(placement)
        self._make_queries()
        self._make_starts()
        questions = self.questions
        self.controls = Controls(backend, settings, queue=self.queue, questions=questions, events=self.events)
        self.files = OpenFiles(
            settings, backend, lookup=self.lookup, lines=self.typed_lines, events=self.events
        )
        self.bulk = BulkControls(self.controls, self._processes, reconciliation=self.reconciliation)
        self.records = Records(
            registry=self._registry,
            upkeep=self._upkeep,
            feed=self._feed,
            queue=self.queue,
            controls=self.controls,
            holders=self._holders,
            disk=self.disk,
            events=self.events,
        )

    def _make_table(self, placement: Placement | None) -> None:
        """Make what holds all that lives, counts it, and follows from a change of it."""
        backend, settings, reserve = self._backend, self.settings, Reserve(self._layout.root)
        self._processes = LiveTable()
        self._feed = RegistryFeed(self._registry, self._processes)
        self._registry.on_committed = self._feed.committed
        self._unread = Unread(
            backend, grace_s=settings.reader_grace_s, output_limit=settings.options.output_limit_bytes
        )
        self._waiting = QueueStore(self._layout, fit=reserve.fit)
        self.placement: Placement = placement or StaticPlacement([FleetNode(name=LOCAL, capacity=Amounts())])
        self.places = Places(self.placement, gpus=settings.gpus)
        self._changes = ChangeHandler(
            feed=self._feed,
            places=self.places,
            unread=self._unread,
            redaction=self.redaction,
            questions=self.questions,
            events=self.events,
        )
        self.session_ends = SessionEnds(self._layout.mcp_ended, self._processes, events=self.events)
        self._table = ProcessTable(self._processes, changes=self._changes, events=self.events)

    def _make_queries(self) -> None:
        """Make what finds processes of earlier servers, and what answers questions about processes."""
        registry, table, redaction, settings = self._registry, self._table, self.redaction, self.settings
        self._recovery = Recovery(self._layout, registry, table, changes=self._changes, redaction=redaction)
        self._upkeep = Upkeep(
            self._layout,
            registry,
            table,
            secrets=redaction.secrets,
            events=self.events,
            removed=self._waiting.removed,
            notices=settings.notices,
            has_finished=self._feed.has_finished,
        )
        self.reconciliation = Reconciliation(registry, table, self._recovery, self._upkeep)
        self.queries = Queries(
            self._layout,
            self._backend,
            table=table,
            registry=registry,
            recovery=self._recovery,
            reconciliation=self.reconciliation,
            redaction=redaction,
            questions=self.questions,
        )
        self._index = OutputIndex(self._layout, table, redactor=redaction.redactor, events=self.events)
        self.search = OutputSearch(self._layout, self.queries, redaction, table=table, registry=registry)
        self.lookup = Lookup(self.queries)
        self.connections = ConnectionProcesses(table, self._recovery)
        self.grants = Grants(self._processes, settings)
        self.disk_usage = DiskUsage(self._layout, self._upkeep, rule=settings.retention, queries=self.queries)
        self.health = Health(self._backend, registry, disk=self.disk, reconciliation=self.reconciliation)

    def _make_starts(self) -> None:
        """Make what starts commands, or lets them wait until they may start."""
        settings, table, events, registry = self.settings, self._table, self.events, self._registry
        policing = Policing(settings.policy, environment=self.environment)
        self._preparation = Preparation(
            settings, self.sandboxes, queries=self.queries, backend=self._backend, places=self.places
        )
        self.typed_lines = TypedLines(settings, policing, preparation=self._preparation, events=events)
        outcomes = StartOutcomes(
            table=table,
            registry=self._registry,
            feed=self._feed,
            changes=self._changes,
            redaction=self.redaction,
            events=events,
        )
        standing = StandingApprovals(settings.standing_file, umask=settings.umask)
        starter = Starter(
            settings=settings,
            backend=self._backend,
            places=self.places,
            preparation=self._preparation,
            standing=standing,
            outcomes=outcomes,
        )
        self.queue = self._changes.groups = StartQueue(
            layout=self._layout,
            store=self._waiting,
            places=self.places,
            starter=starter,
            table=table,
            changes=self._changes,
            outcomes=outcomes,
            redaction=self.redaction,
            events=events,
        )
        self.approvals = StartApprovals(
            queue=self.queue,
            policing=policing,
            standing=standing,
            redaction=self.redaction,
            timeout_s=settings.options.approval_timeout_s,
        )
        self.reports = Reports(self._layout, self._registry, queries=self.queries, queue=self.queue)
        self._holders = NameHolders(self.queries, self.as_)
        self.names = StartNames.of(registry, self.queries, command_ids=self._ids, holders=self._holders)
        self.starts = Starts(
            settings=settings,
            layout=self._layout,
            backend=self._backend,
            preparation=self._preparation,
            reconciliation=self.reconciliation,
            names=self.names,
            queue=self.queue,
            approvals=self.approvals,
            table=table,
            outcomes=outcomes,
            grants=self.grants,
            redaction=self.redaction,
            disk=self.disk,
            events=events,
        )

    @property
    def environment(self) -> dict[str, str]:
        """What commands start with, before their own additions."""
        return clean_environment(self.settings.environment)

    def as_(self, by: Owner) -> AuditedControls:
        """Return the controls on behalf of a caller: what the caller may not do is refused, and what is done
        is audited.
        """
        return AuditedControls(
            by, controls=self.controls, records=self.records, queries=self.queries, events=self.events
        )

    async def __aenter__(self) -> Self:
        """Open everything.

        What lives becomes known from then on: `queries.find`, `queries.list` and the controls wait for it,
        `queries.live` does not.

        Raises:
            BackendUnavailable: The keeper could not be started.
            StoreCorrupt: The registry could not even be made anew.
        """
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Disconnect and commit what is pending; commands go on."""
        await self._stack.aclose()

    async def _open(self) -> None:
        stack = self._stack
        await stack.enter_async_context(self._registry)
        stack.push_async_callback(self._feed.close)
        stack.push_async_callback(self.redaction.close)
        await self.disk.open()
        stack.callback(self.disk.close)
        # A keeper whose folder was moved goes on there, and hangs up here.
        hung_up = self.events.subscribe(lambda _: self.disk.look_soon(), kinds={KeeperDisconnected})
        stack.callback(hung_up)
        await self._ids.open()
        await self.session_ends.open()
        await self._preparation.open()
        stack.push_async_callback(self._backend.close)
        await self.reconciliation.open()
        await self.queue.open()
        await self._backend.open(self._table)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        self.queue.accept(tasks)
        self.questions.begin(tasks)
        for task in (
            tasks.create_task(self._recovery.run(), name="engine recovery"),
            tasks.create_task(self._unread.run(), name="engine unread"),
            tasks.create_task(self._find_and_keep(), name="engine upkeep"),
            tasks.create_task(self.disk.run(), name="engine disk"),
            tasks.create_task(self._index.run(), name="engine index"),
            tasks.create_task(self.placement.run(), name="engine placement"),
        ):
            stack.callback(task.cancel)
        stack.callback(self.queue.close)
        stack.push_async_callback(self.files.close)
        stack.callback(self.questions.close)

    async def _find_and_keep(self) -> None:
        """Find what lives again, let what waits begin, then look after the past, for ever."""
        await self.reconciliation.run()
        # Only now is known how many of each group run.
        await self.queue.begin(self._upkeep.clock())
        await self._upkeep.run(self.settings.retention, interval_s=self.settings.retention_interval_s)
