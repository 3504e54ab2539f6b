"""Connections that ask nothing must not keep others out."""

from collections.abc import Callable

from outlive.server.limiters import SWEEP_S, ConnectionLimiter, ConnectionPhase


class _Guest:
    """A connection that remembers what became of it."""

    def __init__(self) -> None:
        self.phase = ConnectionPhase.HEAD
        self.since = 0.0
        self.is_answered = True
        self.fate: int | str = "in"

    def turn_away(self, status: int) -> None:
        self.fate = status

    def drop(self) -> None:
        self.fate = "dropped"


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_to(self, now: float, turnstile: ConnectionLimiter) -> None:
        """Let time pass as on a loop that is never late."""
        while self.now < now:
            self.now = min(now, self.now + SWEEP_S)
            turnstile.sweep()


class _Loop:
    """What is to be called in the next turn."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []

    def __call__(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def turn(self) -> bool:
        """Take a turn; tell whether there was something to do."""
        called, self._soon = self._soon, []
        for callback in called:
            callback()
        return bool(called)


def _full(
    *phases: ConnectionPhase, loop: _Loop | None = None
) -> tuple[ConnectionLimiter, list[_Guest], _Clock]:
    clock = _Clock()
    turnstile = ConnectionLimiter(len(phases), clock, loop or _Loop())
    guests = [_Guest() for _ in phases]
    for guest, phase in zip(guests, phases, strict=True):
        turnstile.enter(guest)
        turnstile.begin(guest, phase)
    return turnstile, guests, clock


def test_whoever_has_been_idle_the_longest_makes_room() -> None:
    turnstile, guests, clock = _full(ConnectionPhase.ANSWER, ConnectionPhase.HEAD, ConnectionPhase.REST)
    clock.pass_to(5.0, turnstile)
    newcomer = _Guest()
    turnstile.enter(newcomer)
    assert [one.fate for one in (*guests, newcomer)] == ["in", "dropped", "in", "in"]
    assert len(turnstile) == 3


def test_a_connection_that_was_answered_just_now_is_not_the_longest_idle_one() -> None:
    turnstile, guests, _ = _full(ConnectionPhase.REST, ConnectionPhase.REST)
    turnstile.begin(guests[0], ConnectionPhase.HEAD)
    turnstile.begin(guests[0], ConnectionPhase.REST)
    turnstile.enter(_Guest())
    assert [one.fate for one in guests] == ["in", "dropped"]


def test_nobody_who_is_being_served_makes_room() -> None:
    turnstile, guests, _ = _full(ConnectionPhase.ANSWER, ConnectionPhase.BODY, ConnectionPhase.HEAD)
    guests[2].is_answered = False  # a second request on a connection whose first is being answered
    newcomer = _Guest()
    turnstile.enter(newcomer)
    assert [one.fate for one in (*guests, newcomer)] == ["in", "in", "in", "dropped"]
    assert len(turnstile) == 3


def test_who_has_just_come_makes_no_room_and_as_many_again_are_let_in_beside() -> None:
    """A thousand and one clients at once: each has sent its request, and none of them was read yet."""
    turnstile, guests, clock = _full(ConnectionPhase.HEAD, ConnectionPhase.HEAD)
    more = [_Guest() for _ in range(2)]
    for one in more:
        turnstile.enter(one)
    assert [one.fate for one in (*guests, *more)] == ["in", "in", "in", "in"]
    clock.pass_to(5.0, turnstile)
    turnstile.enter(last := _Guest())
    assert [one.fate for one in (*guests, *more, last)] == ["dropped", "in", "in", "in", "in"]


def test_time_in_which_the_loop_did_not_turn_is_nobodys_idleness() -> None:
    """What was sent meanwhile lies unread in the kernel."""
    turnstile, guests, clock = _full(ConnectionPhase.HEAD, ConnectionPhase.HEAD)
    for _ in range(5):
        clock.now += 60.0
        turnstile.sweep()
    assert [one.fate for one in guests] == ["in", "in"]
    clock.pass_to(clock.now + 9.0, turnstile)
    assert [one.fate for one in guests] == [408, 408]


def test_a_head_has_ten_seconds_a_body_two_minutes_an_answer_any_time() -> None:
    turnstile, guests, clock = _full(
        ConnectionPhase.HEAD, ConnectionPhase.BODY, ConnectionPhase.ANSWER, ConnectionPhase.REST
    )
    clock.pass_to(9.9, turnstile)
    assert [one.fate for one in guests] == ["in"] * 4
    assert turnstile.sweep()
    clock.pass_to(10.1, turnstile)
    assert [one.fate for one in guests] == [408, "in", "in", "in"]
    clock.pass_to(120.1, turnstile)
    assert [one.fate for one in guests] == [408, 408, "in", "in"]
    assert len(turnstile) == 2
    assert not turnstile.sweep(), "nothing that is left can take too long"
    turnstile.leave(guests[0])  # its connection ends later


def test_in_a_flood_of_newcomers_who_had_turns_enough_to_be_read_makes_room_for_the_next() -> None:
    """Ten thousand that say nothing keep nobody out, however quickly they come.

    Who came in the same turn was not read yet.
    """
    loop = _Loop()
    turnstile, guests, _ = _full(ConnectionPhase.HEAD, ConnectionPhase.HEAD, loop=loop)
    more = [_Guest() for _ in range(5)]
    for one in more:
        turnstile.enter(one)
    assert {one.fate for one in (*guests, *more)} == {"in"}
    while loop.turn():
        pass
    turnstile.begin(guests[0], ConnectionPhase.ANSWER)
    turnstile.enter(newcomer := _Guest())
    assert [one.fate for one in (*guests, *more, newcomer)] == ["in", "dropped", *["in"] * 6]
    assert loop.turn(), "turns are counted again"
    turns = sum(1 for _ in iter(loop.turn, False))
    assert turns < 20, "and not for ever"
