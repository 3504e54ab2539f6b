"""`Nodes`: the other servers on which commands run, added, invited, drained and removed while this one
serves.

What was declared is on disk before it counts. Nodes that settings name are there as well, and can be drained;
what is followed on a node that is removed stays known, and unreachable.

A change is several steps: on disk, in memory, a connection. A caller that hangs up in between, by Ctrl-C of
`outlive node add`, would leave a node that is declared and not reached, or one that is reached and not
declared, until the server is started again. So `NodeChanges` carries each out to its end, whatever becomes of
its caller. `FoundNodes` are those that a placement finds, used as if an operator had added them.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, assert_never

import msgspec

from outlive.backends.contract import NodeState
from outlive.config.options import is_private
from outlive.core.errors import (
    AccessDenied,
    BackendUnavailable,
    ConfigInvalid,
    InvalidRequest,
    InvalidState,
    OutliveError,
)
from outlive.core.location import ANY, DOCKER, LOCAL
from outlive.core.needs import Amounts
from outlive.core.process import Owner
from outlive.core.values import replace
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.places import Places
from outlive.extensions.fleet.adoption import Adoption
from outlive.extensions.fleet.joined.gateways import JoinedGateways
from outlive.extensions.fleet.node_files import NodeEntry, NodeFiles
from outlive.extensions.fleet.node_keys import DeclaredNodes, NodeKeys
from outlive.extensions.fleet.operations import (
    NODE_NAME,
    NOTHING,
    OPERATIONS,
    AmountView,
    ChangeOutcome,
    Invitation,
    NodeAdd,
    NodeAdopt,
    NodeAnswer,
    NodeChange,
    NodeDrain,
    NodeInvite,
    NodeJoin,
    NodeLeave,
    NodeList,
    NodeRemoval,
    NodeRequest,
    NodeResume,
    NodesRequest,
    RoomView,
)
from outlive.extensions.fleet.routes import FleetRoutes
from outlive.placement.contract import FoundNode, NodeRoom, Placement

_logger = logging.getLogger(__name__)

_Outcome = TypeVar("_Outcome")


class NodeChanges:
    """Carries changes out in tasks of its own while it is open (`async with`). On the engine's loop only."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        """Carry changes out from now on."""
        self._group = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what is being done, and do nothing any more: the next server finds what is on disk."""
        group, self._group = self._group, None
        for task in self._tasks:
            task.cancel()
        if group is not None:
            await group.__aexit__(kind, error, trace)

    async def carry_out(self, change: Callable[[], Awaitable[_Outcome]]) -> _Outcome:
        """Return or raise what comes of a change; it goes on when the caller is cancelled.

        Raises:
            BackendUnavailable: The engine is being closed.
            OutliveError: What the change raises.
        """
        if self._group is None:
            raise BackendUnavailable("keeper_unavailable", "The server is being stopped.")
        task = self._group.create_task(_outcome_of(change))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        outcome, error = await asyncio.shield(task)
        if error is not None:
            raise error
        if outcome is None:
            raise AssertionError("a change has an outcome or an error")
        return outcome


async def _outcome_of(change: Callable[[], Awaitable[_Outcome]]) -> tuple[_Outcome | None, Exception | None]:
    """Return what comes of a change: an error is its caller's, and must not end other changes.

    Outermost of its task.
    """
    try:
        return await change(), None
    except OutliveError as error:
        return None, error
    except Exception as error:  # the caller may have gone
        _logger.exception("a change of nodes has failed")
        return None, error


# What the audit log calls each of them.
_WORDS = {one.request: one.name for one in OPERATIONS}


class Nodes:
    """Adds, invites, drains, removes and shows nodes. On the engine's loop only.

    Attributes:
        declared: What is declared of them.
        routes: What reaches them.
        keys: What machines show that connect as nodes by themselves.
        changes: Carries changes out while it is open.
    """

    def __init__(
        self,
        files: NodeFiles,
        routes: FleetRoutes,
        places: Places,
        *,
        gateways: JoinedGateways,
        adoption: Adoption,
        events: EventPublisher,
    ) -> None:
        self.routes = routes
        self._adoption = adoption
        self._places = places
        self._events = events
        self.declared = DeclaredNodes(files, places)
        self._entries = self.declared.entries
        self._changing = self.declared.changing
        self._keep = self.declared.keep
        self.keys = NodeKeys(self.declared)
        self._gateways = gateways
        self.changes = NodeChanges()

    async def answer(self, asked: NodeRequest, by: Owner) -> NodeList:
        """Do what a caller asks and return all nodes, and what of the caller's waits for a place.

        A change is carried out to its end, whatever becomes of its caller; the audit log has every one that
        was asked for.

        Raises:
            AccessDenied: `scope_missing`: what was started here wants to change where commands run.
            OutliveError: What each of them raises.
        """
        outcome = NOTHING
        if not isinstance(asked, NodesRequest):
            outcome = await self.changes.carry_out(partial(self._change_audited, asked, by))
        waiting, unfit = self._places.waiting(by.principal)
        rooms = {room.node.name: room for room in self._places.rooms()}
        return NodeList(
            nodes=[
                self._view(name, state, rooms.get(name))
                for name, state in sorted(self.routes.states().items())
            ],
            local=_room(rooms[LOCAL], self._entries.get(LOCAL)),
            waiting=waiting,
            unfit=unfit,
            gateways=self._gateways.views(),
            invitation=outcome.invitation,
            adopted=outcome.adopted,
        )

    async def _change_audited(self, asked: NodeChange, by: Owner) -> ChangeOutcome:
        with self._events.audited(_WORDS[type(asked)], by, details=_details(asked)):
            # Commands with all their variables go where a node's address says: what was started here must not
            # choose that.
            if by.inside is not None:
                raise AccessDenied(
                    "scope_missing",
                    "What was started here cannot change the machines that commands run on.",
                    hint="Use a terminal that outlive did not open.",
                    details={"inside": by.inside},
                )
            return await self._change(asked, by)

    async def _change(self, asked: NodeChange, by: Owner) -> ChangeOutcome:
        match asked:
            case NodeInvite():
                return ChangeOutcome(invitation=await self.invite(asked))
            case NodeAdopt():
                self._check_known(asked.name)
                if asked.name == LOCAL:
                    raise InvalidRequest(
                        "invalid_params", "name: what runs on this machine is known already."
                    )
                return ChangeOutcome(adopted=await self._adoption.adopt(asked.name, ended=asked.ended, by=by))
            case NodeJoin():
                await self._gateways.join(asked)
            case NodeLeave():
                await self._gateways.leave(asked)
            case NodeAdd():
                await self.add(asked)
            case NodeDrain():
                await self.drain(asked.name, is_draining=True)
            case NodeResume():
                await self.drain(asked.name, is_draining=False)
            case NodeRemoval():
                await self.remove(asked)
            case _:
                assert_never(asked)
        return NOTHING

    async def add(self, asked: NodeAdd) -> None:
        """Run commands on a server from now on, or reach one of that name otherwise.

        It is kept when this returns.

        Raises:
            InvalidRequest: The name stands for something else, or the address is none.
            LimitExceeded: `disk_full`.
        """
        _check_name(asked.name)
        async with self._changing:
            old = self._entries.get(asked.name)
            if old is not None and old.dials_in:
                raise _other_way(asked.name, "dials in by itself")
            entry = NodeEntry(
                name=asked.name,
                url=asked.url,
                token=asked.token or ("" if old is None else old.token),
                ca=asked.ca,
                labels=asked.labels,
                cpu=asked.cpu,
                memory=asked.memory,
                gpu=asked.gpu,
                is_draining=old is not None and old.is_draining,
            )
            try:
                entry = self.routes.check(entry)
            except ConfigInvalid as error:
                raise InvalidRequest("invalid_params", error.message, hint=error.hint) from error
            await self._keep(entry)
            await self.routes.put(asked.name, entry)

    async def invite(self, asked: NodeInvite) -> Invitation:
        """Let one machine join under a name, within ten minutes.

        One that has it already is the node until then.

        Raises:
            InvalidRequest: The name stands for something else, or for a node that is reached by its address.
            LimitExceeded: `disk_full`.
        """
        _check_name(asked.name)
        async with self._changing:
            old = self._entries.get(asked.name, NodeEntry(name=asked.name))
            if old.url or asked.name in self.routes.declared:
                raise _other_way(asked.name, "is reached by its address")
            code, kept = self.keys.invitation()
            labels = asked.labels or old.labels
            entry = replace(old, dials_in=True, labels=labels, invitation=kept)
            await self._keep(entry)
            if not old.dials_in:
                await self.routes.put(asked.name, entry)
        return Invitation(name=asked.name, code=code, expires_at=datetime.fromtimestamp(kept.expires_s, UTC))

    async def drain(self, name: str, *, is_draining: bool) -> None:
        """Place no more commands on a node, or on this machine, or some again; what runs there goes on.

        Raises:
            InvalidRequest: There is none of that name.
            LimitExceeded: `disk_full`.
        """
        async with self._changing:
            self._check_known(name)
            entry = replace(self._entries.get(name, NodeEntry(name=name)), is_draining=is_draining)
            await self._keep(entry)

    async def remove(self, asked: NodeRemoval) -> None:
        """Forget a node that was added; commands that still run there go on, and are not reached from here.

        Raises:
            InvalidRequest: There is none of that name, or a setting names it.
            InvalidState: `node_busy`: processes run there, and `force` is not set.
        """
        async with self._changing:
            self._check_known(asked.name)
            if asked.name == LOCAL:
                raise InvalidRequest("invalid_params", "name: this machine cannot be removed, only drained.")
            if asked.name in self.routes.declared:
                hint = "Take it out of --node (OUTLIVE_NODE) and start the server again, or drain it."
                raise InvalidRequest("invalid_params", f"A setting names {asked.name!r}.", hint=hint)
            count = self.routes.states()[asked.name].processes
            if count and not asked.force:
                text = f"{count} processes run on {asked.name!r}: drain it and wait for them, or use force."
                raise InvalidState("node_busy", text, details={"processes": count})
            await self.declared.drop(asked.name)
            await self.routes.put(asked.name, None)

    def _check_known(self, name: str) -> None:
        known = {LOCAL, *self.routes.states()}
        if name not in known:
            hint = f"There are: {', '.join(sorted(known))}."
            raise InvalidRequest("invalid_params", f"name: there is no node {name!r}.", hint=hint)

    def _view(self, name: str, state: NodeState, room: NodeRoom | None) -> NodeAnswer:
        entry = self._entries.get(name)
        return NodeAnswer(
            name=name,
            address=state.address,
            state="away" if state.is_away else "connected",
            since=state.since,
            reason=state.reason,
            hint=state.hint,
            processes=state.processes,
            room=None if room is None else _room(room, entry, is_away=state.is_away),
            added=entry is not None and entry.is_reached and not entry.is_found,
        )


def _check_name(name: str) -> None:
    if name in {LOCAL, DOCKER, ANY}:
        raise InvalidRequest("invalid_params", f"name: {name!r} has a meaning of its own.")


def _other_way(name: str, how: str) -> InvalidRequest:
    hint = f"Take another name, or `outlive node rm {name}` first."
    return InvalidRequest("invalid_params", f"name: the node {name!r} {how}.", hint=hint)


def _room(room: NodeRoom, entry: NodeEntry | None, *, is_away: bool = False) -> RoomView:
    # A node that is away takes nothing either, and that is not what its operator wants of it.
    is_draining = (entry is not None and entry.is_draining) or not (room.node.is_open or is_away)
    return RoomView(
        capacity=_amounts(room.node.capacity),
        free=_amounts(room.free),
        labels=dict(sorted(room.node.labels)),
        draining=is_draining,
        placed=room.processes,
    )


def _amounts(amounts: Amounts) -> AmountView:
    return msgspec.convert(amounts.view(), AmountView)


def _details(asked: NodeChange) -> dict[str, str | int | bool]:
    """Return what the audit log says of a change: never a token."""
    match asked:
        case NodeAdd():
            return {"node": asked.name, "url": asked.url}
        case NodeRemoval():
            return {"node": asked.name, "force": asked.force}
        case NodeJoin():
            return {"url": asked.url}
        case NodeLeave():
            return {"gateway": asked.gateway}
        case _:
            return {"node": asked.name}


_NAME = re.compile(NODE_NAME.removesuffix("$"))  # matched as a whole: "$" would let a line's end pass


class FoundNodes:
    """Keeps and reaches what is found. On the engine's loop only."""

    def __init__(self, nodes: Nodes) -> None:
        self._declared = nodes.declared
        self._routes = nodes.routes

    async def take(self, placement: Placement) -> None:
        """Use each node that is found; what an operator has declared stays as it is."""
        while (found := await placement.found()) is not None:
            try:
                await self._use(found)
            except OutliveError as error:
                _logger.warning("a node that was found is not used: %r: %s", found.name, error.message)
            except Exception:  # whatever a cluster says of its nodes, it must not end the engine
                _logger.exception("a node that was found is not used: %r", found.name)

    async def _use(self, found: FoundNode) -> None:
        if _NAME.fullmatch(found.name) is None:  # it is the name of a folder, too
            raise ConfigInvalid("config_invalid", "Its name cannot be that of a node.")
        async with self._declared.changing:
            old = self._declared.entries.get(found.name, NodeEntry(name=found.name))
            is_taken = found.name in {LOCAL, DOCKER, ANY, *self._routes.declared}
            if is_taken or (old.is_reached and not old.is_found):
                return
            entry = self._routes.check(replace(old, url=found.url, token=found.token, is_found=True))
            if not is_private(entry.url):  # its token, and all commands, go where no operator has chosen
                raise ConfigInvalid("config_invalid", f"{entry.url!r} leads over a network without TLS.")
            if entry != old:
                # On disk first: a server that starts while nothing finds nodes reaches what runs there.
                await self._declared.keep(entry)
                await self._routes.put(entry.name, entry)
