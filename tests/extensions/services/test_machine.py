"""The life of a project's services: what starts when, what is started again, and that nothing runs twice."""

import itertools

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlive.extensions.services.declaration import Backoff, ReadyWhen, ServiceRequest
from outlive.extensions.services.machine import (
    LIVING,
    AskToEnd,
    Effect,
    KillProcess,
    ServiceEnd,
    ServicePhase,
    ServiceState,
    Stack,
    StartService,
    WatchReadiness,
)

_PORT = ReadyWhen(port=8000)
_JOB = ReadyWhen(exit=True)


def _stack(**declared: ServiceRequest) -> tuple[Stack, list[Effect]]:
    numbers = itertools.count(1)
    stack = Stack({}, ids=lambda: f"id{next(numbers)}")
    return stack, stack.up(declared, (), 0.0)


def _service(**members: object) -> ServiceRequest:
    return msgspec.convert({"command": "true", **members}, ServiceRequest)


def test_a_service_starts_when_those_before_it_are_ready() -> None:
    stack, effects = _stack(web=_service(after=["db"]), db=ServiceRequest(command="db", ready=_PORT))
    assert effects == [StartService("db", "id1")]
    assert stack.started("db", "id1", 1.0) == [WatchReadiness("db", "id1")]
    assert stack.ready("db", "id1", 2.0) == [StartService("web", "id2")]
    assert stack.started("web", "id2", 3.0) == []
    assert stack.services["web"].phase is ServicePhase.READY


def test_a_job_is_ready_when_it_has_ended_with_0() -> None:
    stack, _ = _stack(move=ServiceRequest(command="m", ready=_JOB), web=_service(after=["move"]))
    assert stack.started("move", "id1", 1.0) == []
    assert stack.ended("move", "id1", ServiceEnd(exit_code=0), 2.0) == [StartService("web", "id2")]


def test_what_waits_for_a_failed_service_is_known_to_be_blocked() -> None:
    stack, _ = _stack(
        move=ServiceRequest(command="m", ready=_JOB),
        web=_service(after=["move"]),
        top=_service(after=["web"]),
    )
    stack.started("move", "id1", 1.0)
    assert not stack.is_blocked("top")
    assert stack.ended("move", "id1", ServiceEnd(exit_code=3), 2.0) == []
    assert stack.services["move"].phase is ServicePhase.FAILED
    assert stack.is_blocked("web")
    assert stack.is_blocked("top")


def test_rests_double_up_to_the_longest_and_begin_anew_after_a_long_run() -> None:
    stack, _ = _stack(web=_service(restart="always", backoff={"first": 1, "most": 4}))
    rests = []
    now = 0.0
    for ran_s in (0, 0, 0, 0, 5, 0):
        one = stack.services["web"]
        assert one.process_id is not None
        stack.started("web", one.process_id, now)
        now += ran_s
        stack.ended("web", one.process_id, ServiceEnd(exit_code=0, ran_s=ran_s), now)
        assert one.until is not None
        rests.append(one.until - now)
        assert stack.tick(one.until - 0.01) == []
        now = one.until
        assert len(stack.tick(now)) == 1
    assert rests == [1, 2, 4, 4, 1, 2]
    assert stack.services["web"].restarts == 6


def test_a_clock_that_was_set_back_makes_no_rest_longer_than_the_longest() -> None:
    stack, _ = _stack(web=_service(restart="always", backoff={"first": 1, "most": 4}))
    stack.started("web", "id1", 1e9)
    stack.ended("web", "id1", ServiceEnd(exit_code=1), 1e9)
    assert stack.tick(1000.0) == []
    assert stack.wakes_at == 1004.0
    assert stack.tick(1004.0) == [StartService("web", "id2")]


def test_so_many_restarts_in_a_row_are_a_failure() -> None:
    stack, _ = _stack(web=_service(restart="on-failure", max_restarts=2, backoff={"first": 0}))
    for number in (1, 2, 3):
        stack.started("web", f"id{number}", 0.0)
        stack.ended("web", f"id{number}", ServiceEnd(exit_code=1), 0.0)
        stack.tick(0.0)
    assert stack.services["web"].phase is ServicePhase.FAILED
    assert stack.services["web"].restarts == 2


def test_a_start_that_fails_counts_as_a_failure_of_the_service() -> None:
    stack, _ = _stack(web=_service(restart="on-failure"))
    stack.ended("web", "id1", ServiceEnd(error="not found"), 0.0)
    assert (stack.services["web"].phase, stack.services["web"].error) == (
        ServicePhase.BACKING_OFF,
        "not found",
    )


def test_up_again_leaves_what_is_unchanged_alone_and_restarts_what_changed() -> None:
    db, web = _service(), _service()
    stack, _ = _stack(db=db, web=web, old=_service())
    for number, name in enumerate(("db", "web", "old"), start=1):
        stack.started(name, f"id{number}", 0.0)
    effects = stack.up({"db": db, "web": _service(environment={"A": "1"})}, (), 1.0)
    assert effects == [AskToEnd("web", "id2", "TERM", 10.0), AskToEnd("old", "id3", "TERM", 10.0)]
    assert stack.ended("web", "id2", ServiceEnd(exit_signal=15), 2.0) == [StartService("web", "id4")]
    assert stack.ended("old", "id3", ServiceEnd(exit_signal=15), 2.0) == []
    assert list(stack.services) == ["db", "web"]


def test_down_stops_what_waits_for_others_first() -> None:
    stack, _ = _stack(db=_service(), web=_service(after=["db"]))
    stack.started("db", "id1", 0.0)
    stack.started("web", "id2", 0.0)
    assert stack.down((), 1.0) == [AskToEnd("web", "id2", "TERM", 10.0)]
    assert stack.ended("web", "id2", ServiceEnd(exit_code=0), 2.0) == [AskToEnd("db", "id1", "TERM", 10.0)]
    stack.ended("db", "id1", ServiceEnd(exit_signal=15), 3.0)
    assert not stack.needs_server


def test_a_second_down_without_grace_kills() -> None:
    stack, _ = _stack(web=_service(grace=60, stop_signal="INT"))
    stack.started("web", "id1", 0.0)
    assert stack.down((), 1.0) == [AskToEnd("web", "id1", "INT", 60.0)]
    assert stack.down((), 2.0, grace_s=0.0) == [KillProcess("web", "id1")]
    # That grace was for this stop: the next process has its own.
    stack.restart(["web"], 3.0)
    assert stack.ended("web", "id1", ServiceEnd(exit_signal=9), 4.0) == [StartService("web", "id2")]
    stack.started("web", "id2", 5.0)
    assert stack.restart(["web"], 6.0) == [AskToEnd("web", "id2", "INT", 60.0)]


def test_what_a_person_has_stopped_stays_stopped_and_news_of_an_earlier_process_change_nothing() -> None:
    stack, _ = _stack(web=_service(restart="always"))
    stack.started("web", "id1", 0.0)
    stack.restart(["web"], 1.0)
    stack.ended("web", "id1", ServiceEnd(exit_signal=15), 2.0)
    stack.started("web", "id2", 3.0)
    phases = []
    for process_id, is_cancelled in (("id1", False), ("id2", True)):
        end = ServiceEnd(exit_signal=15, is_cancelled=is_cancelled)
        assert stack.ended("web", process_id, end, 4.0) == []
        phases.append(stack.services["web"].phase)
    assert phases == [ServicePhase.READY, ServicePhase.STOPPED]


def test_what_does_not_heed_its_signal_is_killed_after_the_grace() -> None:
    stack, _ = _stack(web=_service(grace=5))
    stack.started("web", "id1", 0.0)
    stack.down((), 1.0)
    assert stack.tick(5.9) == []
    assert stack.tick(6.0) == [KillProcess("web", "id1")]
    assert stack.tick(7.0) == []


def test_a_restart_ends_what_runs_and_starts_it_once_it_has_ended() -> None:
    stack, _ = _stack(web=_service())
    stack.started("web", "id1", 0.0)
    assert stack.restart(["web"], 1.0) == [AskToEnd("web", "id1", "TERM", 10.0)]
    assert stack.restart(["web"], 1.5) == []
    assert stack.ended("web", "id1", ServiceEnd(exit_signal=15), 2.0) == [StartService("web", "id2")]


def test_only_the_named_services_and_what_they_wait_for_are_started() -> None:
    stack = Stack({}, ids=lambda: "id")
    declared = {"db": _service(), "web": _service(after=["db"]), "other": _service()}
    assert stack.up(declared, ["web"], 0.0) == [StartService("db", "id")]
    assert stack.services["other"].phase is ServicePhase.STOPPED


_NAMES = ("a", "b", "c", "d")
_READY = st.sampled_from([None, _PORT, _JOB])


@st.composite
def _declared(draw: st.DrawFn) -> dict[str, ServiceRequest]:
    """Some services; each starts after earlier ones only, so there is no ring."""
    names = draw(st.lists(st.sampled_from(_NAMES), unique=True, min_size=1))
    found = {}
    for place, name in enumerate(names):
        ready = draw(_READY)
        is_job = ready is not None and ready.exit
        found[name] = ServiceRequest(
            command=draw(st.sampled_from(["x", "y"])),
            ready=ready,
            after=tuple(draw(st.lists(st.sampled_from(names[:place]), unique=True))) if place else (),
            restart=draw(st.sampled_from(["no", "on-failure"] if is_job else ["no", "on-failure", "always"])),
            backoff=Backoff(first=1.0, most=4.0),
            max_restarts=draw(st.sampled_from([None, 1, 3])),
            grace=2.0,
        )
    return found


class Services(RuleBasedStateMachine):
    """A machine beside a world in which processes start, become ready and end as they like."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.numbers = itertools.count(1)
        self.stack = Stack({}, ids=lambda: f"id{next(self.numbers)}")
        self.asked: dict[str, str] = {}  # process id -> service: its start is on its way
        self.alive: dict[str, str] = {}
        self.killed: set[str] = set()
        self.rests: dict[str, float] = {}

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, StartService):
                name = effect.name
                assert name not in self.asked.values(), f"{name} is started twice"
                assert name not in self.alive.values(), f"{name} runs already"
                assert effect.process_id not in {*self.asked, *self.alive}
                assert self.now >= self.rests.pop(name, 0.0), f"{name} did not rest"
                for other in self.stack.services[name].declared.after:
                    phase = self.stack.services[other].phase
                    assert phase in {ServicePhase.READY, ServicePhase.DONE}, (name, other, phase)
                self.asked[effect.process_id] = name
            elif isinstance(effect, KillProcess):
                self.killed.add(effect.process_id)

    @initialize(declared=_declared())
    def begin(self, declared: dict[str, ServiceRequest]) -> None:
        self.take(self.stack.up(declared, (), self.now))

    @rule(declared=_declared(), some=st.booleans(), data=st.data())
    def up(self, declared: dict[str, ServiceRequest], some: bool, data: st.DataObject) -> None:
        if some:
            # Names do not go with another file here: but what is not declared any more may still be waited
            # for by what runs, and a file that names it is refused before.
            known = {name: one.declared for name, one in self.stack.services.items()}
            if all(set(one.after) <= known.keys() for one in known.values()):
                declared = known or declared
            names = data.draw(st.lists(st.sampled_from([*declared]), unique=True))
        else:
            names = []
        self.rests.clear()  # a request is heeded at once
        self.take(self.stack.up(declared, names, self.now))

    @rule(grace_s=st.sampled_from([None, 0.0, 1.0]))
    def down(self, grace_s: float | None) -> None:
        self.rests.clear()
        self.take(self.stack.down((), self.now, grace_s=grace_s))

    @precondition(lambda self: self.stack.services)
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([*self.stack.services]))
        self.rests.clear()
        self.take(self.stack.restart([name], self.now))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), fails=st.booleans())
    def start(self, data: st.DataObject, fails: bool) -> None:
        process_id = data.draw(st.sampled_from([*self.asked]))
        name = self.asked.pop(process_id)
        if fails:
            self.end(name, process_id, ServiceEnd(error="no"))
        else:
            self.alive[process_id] = name
            self.take(self.stack.started(name, process_id, self.now))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def become_ready(self, data: st.DataObject) -> None:
        process_id = data.draw(st.sampled_from([*self.alive]))
        self.take(self.stack.ready(self.alive[process_id], process_id, self.now))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), code=st.sampled_from([0, 1]), ran_s=st.sampled_from([0.0, 10.0]))
    def finish(self, data: st.DataObject, code: int, ran_s: float) -> None:
        process_id = data.draw(st.sampled_from([*self.alive]))
        self.end(self.alive.pop(process_id), process_id, ServiceEnd(exit_code=code, ran_s=ran_s))

    def end(self, name: str, process_id: str, end: ServiceEnd) -> None:
        was = self.stack.services[name].phase
        effects = self.stack.ended(name, process_id, end, self.now)
        one = self.stack.services.get(name)
        if one is not None and one.phase is ServicePhase.BACKING_OFF:
            assert was is not ServicePhase.STOPPING
            assert one.until is not None
            self.rests[name] = one.until
        self.take(effects)

    @rule(passed_s=st.sampled_from([0.1, 1.0, 5.0]))
    def wait(self, passed_s: float) -> None:
        self.now += passed_s
        self.take(self.stack.tick(self.now))
        assert self.stack.wakes_at is None or self.stack.wakes_at > self.now

    @rule()
    def lose_the_server(self) -> None:
        """What is kept is all that the next server needs."""
        kept = msgspec.json.encode(self.stack.services)
        services = msgspec.json.decode(kept, type=dict[str, ServiceState])
        assert services == self.stack.services
        self.stack = Stack(services, ids=lambda: f"id{next(self.numbers)}")
        for process_id, name in [*self.alive.items()]:
            self.take(self.stack.found(name, process_id, self.now))

    @invariant()
    def what_runs_is_known(self) -> None:
        for process_id, name in {**self.asked, **self.alive}.items():
            one = self.stack.services[name]
            assert one.process_id == process_id
            assert one.phase in LIVING
        for name, one in self.stack.services.items():
            if one.phase in LIVING:
                assert name in {*self.asked.values(), *self.alive.values()}

    def teardown(self) -> None:
        """Whatever has happened, a stop ends everything."""
        self.take(self.stack.down((), self.now))
        for _ in range(100):
            self.now += 10
            self.take(self.stack.tick(self.now))
            for process_id in [one for one in {**self.asked, **self.alive} if one in self.killed]:
                name = self.asked.pop(process_id, None) or self.alive.pop(process_id)
                self.take(self.stack.ended(name, process_id, ServiceEnd(exit_signal=9), self.now))
        assert not self.asked
        assert not self.alive
        assert not self.stack.needs_server


TestServices = Services.TestCase
TestServices.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
