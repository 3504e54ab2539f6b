"""The life of a project's services: `Stack`, what each of them does now, and what is to be done next. Pure.

Whatever happens (a request, a start, an end, the time) goes in with the moment `now`; what has to be done
comes out as effects, which `stack_runner` carries out. The stack is all that a later server
needs to go on: moments are Unix seconds, so that a rest that began before a crash ends when it would have
ended, and the id of a process is chosen, and kept, before the process is started: repeating that start starts
nothing twice.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

import msgspec

from outlive.extensions.services.declaration import ServiceRequest, with_needed


class ServicePhase(StrEnum):
    """Where a service is in its life."""

    WAITING = "waiting"  # for the services that it starts after
    STARTING = "starting"  # its process is asked for
    RUNNING = "running"  # and not ready yet
    READY = "ready"
    BACKING_OFF = "backing_off"  # it has ended, and is started again at `until`
    STOPPING = "stopping"
    STOPPED = "stopped"  # nothing wants it to run
    FAILED = "failed"  # it has ended, and is not started again
    DONE = "done"  # it has ended with 0, as it should


LIVING = frozenset({ServicePhase.STARTING, ServicePhase.RUNNING, ServicePhase.READY, ServicePhase.STOPPING})
_RUNS = LIVING - {ServicePhase.STOPPING}
_OVER = frozenset({ServicePhase.STOPPED, ServicePhase.FAILED, ServicePhase.DONE})


class ServiceState(msgspec.Struct, kw_only=True):
    """What is known of one service.

    Attributes:
        declared: What the project wants.
        phase: Where it is in its life.
        is_wanted: Whether it is to run.
        is_removed: The project declares it no more: it is forgotten once it is stopped.
        process_id: Its newest process.
        restarts: How many starts by the policy followed its first one.
        tries: How many of these in a row, without a run as long as the longest rest.
        since: When the phase began, in Unix seconds.
        until: When it is started again, or killed.
        exit_code: How its last process has ended, or
        exit_signal: by which signal.
        error: Why that was not its own end, or why it could not be started.
        grace_s: How long its stop may take, where a caller has said so.
    """

    declared: ServiceRequest
    phase: ServicePhase = ServicePhase.WAITING
    is_wanted: bool = True
    is_removed: bool = False
    process_id: str | None = None
    restarts: int = 0
    tries: int = 0
    since: float = 0.0
    until: float | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    error: str | None = None
    grace_s: float | None = None


class StartService(msgspec.Struct, frozen=True):
    """Start the process of this id, unless it was started before."""

    name: str
    process_id: str


class AskToEnd(msgspec.Struct, frozen=True):
    """Send the signal that asks a process to end."""

    name: str
    process_id: str
    signal: str
    grace_s: float | None


class KillProcess(msgspec.Struct, frozen=True):
    """End a whole tree without waiting any longer."""

    name: str
    process_id: str


class WatchReadiness(msgspec.Struct, frozen=True):
    """Report when a process is ready."""

    name: str
    process_id: str


Effect = StartService | AskToEnd | KillProcess | WatchReadiness


class ServiceEnd(msgspec.Struct, kw_only=True, frozen=True):
    """How a process has ended; `ran_s` is how long it ran.

    Both codes None: nothing knows, or it was never started.

    `is_cancelled`: a caller has ended it by itself, and not by way of its service.
    """

    exit_code: int | None = None
    exit_signal: int | None = None
    error: str | None = None
    ran_s: float = 0.0
    is_cancelled: bool = False


# Between the signal and KILL, where neither the service nor the server says how long.
_GRACE_S = 10.0


class Stack:
    """The services of one project.

    Attributes:
        services: By name, in the order of the project's file.
    """

    def __init__(
        self, services: Mapping[str, ServiceState], *, ids: Callable[[], str], grace_s: float = _GRACE_S
    ) -> None:
        """Take what is known; `ids` makes the id of a new process.

        `grace_s` is for services that name none.
        """
        self.services = dict(services)
        self._ids = ids
        self._grace_s = grace_s
        self._effects: list[Effect] = []

    @property
    def needs_server(self) -> bool:
        """Whether anything is still to be done, or an end to be answered."""
        return any(one.phase not in _OVER for one in self.services.values())

    @property
    def wakes_at(self) -> float | None:
        """When `tick` has something to do; None: never."""
        return min((one.until for one in self.services.values() if one.until is not None), default=None)

    def is_blocked(self, name: str) -> bool:
        """Whether a service waits for one that will not be ready without a request."""
        one = self.services[name]
        return one.phase is ServicePhase.WAITING and any(
            (self.services[other].phase in _OVER and not _is_satisfied(self.services[other]))
            or self.is_blocked(other)
            for other in one.declared.after
            if other in self.services
        )

    # -- what is asked for

    def up(self, declared: Mapping[str, ServiceRequest], names: Iterable[str], now: float) -> list[Effect]:
        """Make what runs what is declared: start what is new or has ended, restart what has changed, stop
        what is gone.

        Args:
            declared: All services of the project.
            names: Only these, with what they wait for; none: all.
            now: Unix seconds.
        """
        wanted = with_needed(names, declared) if (names := [*names]) else set(declared)
        for name, one in declared.items():
            known = self.services.get(name)
            if known is None:
                phase = ServicePhase.WAITING if name in wanted else ServicePhase.STOPPED
                self.services[name] = ServiceState(
                    declared=one, phase=phase, is_wanted=name in wanted, since=now
                )
            elif name in wanted:
                was = known.declared
                if _want(known, one, now):
                    self._ask_to_end(name, known, was, now)
            elif known.phase not in LIVING:
                known.declared = one
                known.is_removed = False
        if not names:
            for name in self.services.keys() - declared.keys():
                self.services[name].is_removed = True
                self.services[name].is_wanted = False
        order = [*declared, *(self.services.keys() - declared.keys())]
        self.services = {name: self.services[name] for name in order}
        return self._go_on(now)

    def down(self, names: Iterable[str], now: float, *, grace_s: float | None = None) -> list[Effect]:
        """Stop services, those that wait for others first; none named: all.

        `grace_s` takes the place of each one's own.

        A shorter grace also counts for what is being stopped already.
        """
        for name in [*names] or [*self.services]:
            one = self.services[name]
            one.is_wanted = False
            one.grace_s = grace_s
            if grace_s is not None and one.phase is ServicePhase.STOPPING:
                one.until = min(one.until or now, now + grace_s)
        return self._go_on(now) + self.tick(now)

    def restart(self, names: Iterable[str], now: float) -> list[Effect]:
        """End services that run, and start them again; one that does not run is just started."""
        for name in names:
            one = self.services[name]
            one.is_wanted = True
            one.restarts = one.tries = 0
            if one.phase in _RUNS:
                self._ask_to_end(name, one, one.declared, now)
            elif one.phase is not ServicePhase.STOPPING:
                _enter(one, ServicePhase.WAITING, now)
        return self._go_on(now)

    # -- what happens

    def started(self, name: str, process_id: str, now: float) -> list[Effect]:
        """Take over that a process runs."""
        one = self._of(name, process_id)
        if one is None or one.phase is not ServicePhase.STARTING:
            return []
        one.error = None
        _enter(one, ServicePhase.RUNNING if one.declared.ready is not None else ServicePhase.READY, now)
        return self._go_on(now) + _watched(name, one)

    def found(self, name: str, process_id: str, now: float) -> list[Effect]:
        """Take over that a process of an earlier server's time lives, and go on with it where that server has
        ended.
        """
        one = self._of(name, process_id)
        if one is None:
            return []
        if one.phase is ServicePhase.STARTING:
            return self.started(name, process_id, now)
        if one.phase is not ServicePhase.STOPPING:
            return _watched(name, one)
        if one.until is None:
            return [KillProcess(name, process_id)]
        # Whether the signal was sent is not known; a second one does no harm.
        return [AskToEnd(name, process_id, one.declared.stop_signal, max(0.0, one.until - now))]

    def ready(self, name: str, process_id: str, now: float) -> list[Effect]:
        """Take over that a process is ready."""
        one = self._of(name, process_id)
        if one is not None and one.phase is ServicePhase.RUNNING:
            _enter(one, ServicePhase.READY, now)
        return self._go_on(now)

    def ended(self, name: str, process_id: str, end: ServiceEnd, now: float) -> list[Effect]:
        """Take over that a process has ended, or could not be started, and decide what follows."""
        one = self._of(name, process_id)
        if one is None or one.phase not in LIVING:
            return []
        one.exit_code, one.exit_signal, one.error = end.exit_code, end.exit_signal, end.error
        if one.phase is ServicePhase.STOPPING:
            _enter(one, ServicePhase.WAITING if one.is_wanted else ServicePhase.STOPPED, now)
        elif not one.is_wanted or end.is_cancelled:
            one.is_wanted = False  # what a person has stopped stays stopped
            _enter(one, ServicePhase.STOPPED, now)
        else:
            _follow_policy(one, end, now)
        return self._go_on(now)

    def tick(self, now: float) -> list[Effect]:
        """Do what is due."""
        for name, one in self.services.items():
            if one.until is None:
                continue
            if one.phase is ServicePhase.BACKING_OFF:
                # A clock that was set back must not make the rest longer than the longest one.
                one.until = min(one.until, now + one.declared.backoff.most)
                if one.until <= now:
                    one.restarts += 1
                    _enter(one, ServicePhase.WAITING, now)
            elif one.until <= now:
                one.until = None
                if one.process_id is not None:
                    self._effects.append(KillProcess(name, one.process_id))
        return self._go_on(now)

    # -- what follows

    def _of(self, name: str, process_id: str) -> ServiceState | None:
        """Return a service whose newest process this is; news of an older one come too late."""
        one = self.services.get(name)
        return one if one is not None and one.process_id == process_id else None

    def _go_on(self, now: float) -> list[Effect]:
        """Start and stop what can be now; return all that is to be done."""
        is_moving = True
        while is_moving:
            is_moving = any(self._move(name, one, now) for name, one in [*self.services.items()])
        effects, self._effects = self._effects, []
        return effects

    def _move(self, name: str, one: ServiceState, now: float) -> bool:
        """Take one step with a service; return whether it took one."""
        if not one.is_wanted:
            return self._move_down(name, one, now)
        if one.phase is not ServicePhase.WAITING or not all(
            _is_satisfied(self.services.get(other)) for other in one.declared.after
        ):
            return False
        one.process_id, one.grace_s = self._ids(), None
        _enter(one, ServicePhase.STARTING, now)
        self._effects.append(StartService(name, one.process_id))
        return True

    def _move_down(self, name: str, one: ServiceState, now: float) -> bool:
        if one.phase in _RUNS:
            # What is to stop, too, and starts after this one, stops before it.
            others = [other for other in self.services.values() if name in other.declared.after]
            if any(not other.is_wanted and other.phase in LIVING for other in others):
                return False
            self._ask_to_end(name, one, one.declared, now)
            return True
        if one.phase in {ServicePhase.WAITING, ServicePhase.BACKING_OFF}:
            _enter(one, ServicePhase.STOPPED, now)
            return True
        if one.is_removed and one.phase in _OVER:
            del self.services[name]
            return True
        return False

    def _ask_to_end(self, name: str, one: ServiceState, declared: ServiceRequest, now: float) -> None:
        assert one.process_id is not None
        grace_s = next(said for said in (one.grace_s, declared.grace, self._grace_s) if said is not None)
        _enter(one, ServicePhase.STOPPING, now, until=now + grace_s)
        self._effects.append(AskToEnd(name, one.process_id, declared.stop_signal, grace_s))


def _want(known: ServiceState, declared: ServiceRequest, now: float) -> bool:
    """Take over what is declared of a service now; return whether its process has to end for that."""
    is_changed = known.declared != declared
    known.declared, known.is_wanted, known.is_removed = declared, True, False
    if known.phase in _OVER or (is_changed and known.phase not in LIVING):
        known.restarts = known.tries = 0
        _enter(known, ServicePhase.WAITING, now)
    return is_changed and known.phase in _RUNS


def _follow_policy(one: ServiceState, end: ServiceEnd, now: float) -> None:
    declared = one.declared
    is_success = end.exit_code == 0
    if end.ran_s >= declared.backoff.most:
        one.tries = 0
    is_again = declared.restart == "always" or (declared.restart == "on-failure" and not is_success)
    if not is_again:
        _enter(one, ServicePhase.DONE if is_success else ServicePhase.FAILED, now)
    elif declared.max_restarts is not None and one.tries >= declared.max_restarts:
        _enter(one, ServicePhase.FAILED, now)
    else:
        _enter(one, ServicePhase.BACKING_OFF, now, until=now + declared.backoff.after(one.tries))
        one.tries += 1


def _watched(name: str, one: ServiceState) -> list[Effect]:
    is_watched = one.phase is ServicePhase.RUNNING and not one.declared.is_job
    return [WatchReadiness(name, one.process_id)] if is_watched and one.process_id is not None else []


def _is_satisfied(one: ServiceState | None) -> bool:
    """Whether what starts after a service may start; nothing waits for one that is gone."""
    if one is None or one.phase is ServicePhase.READY:
        return True
    ready = one.declared.ready
    return one.phase is ServicePhase.DONE and (ready is None or ready.exit)


def _enter(one: ServiceState, phase: ServicePhase, now: float, *, until: float | None = None) -> None:
    one.phase, one.since, one.until = phase, now, until
