"""How a storm judges the order of its commands: what was accepted later and came first is found."""

from tests.faults.turns import Look, Turn, look_faults, most_passed


def _turn(number: int, *, placed: int, begun: int | None = None, asked: int | None = None) -> Turn:
    """Return a command that was asked for at ten times its number, and answered five later."""
    at = number * 10
    return Turn(
        process_id=f"p{number}",
        asked_ns=at if asked is None else asked,
        answered_ns=at + 5,
        placed_ns=placed,
        begun_ns=placed + 1 if begun is None else begun,
    )


def test_a_queue_in_which_an_earlier_command_stands_behind_is_found() -> None:
    turns = {one.process_id: one for one in (_turn(number, placed=0) for number in range(4))}
    good = Look(after="a kill", waiting=("p0", "p1", "unknown", "p3"))
    bad = Look(after="a kill", waiting=("p1", "p2", "p0"))
    assert look_faults([good], turns) == []
    assert look_faults([good, bad], turns) == [
        "look 1, after a kill: p2 waits before p0, which came earlier",
        "look 1, after a kill: p1 waits before p0, which came earlier",
    ]


def test_commands_that_were_asked_for_at_the_same_time_have_no_order() -> None:
    turns = {one.process_id: one for one in (_turn(0, placed=0), _turn(1, placed=0, asked=3))}
    assert look_faults([Look(after="a kill", waiting=("p1", "p0"))], turns) == []
    assert most_passed([_turn(0, placed=200), _turn(1, placed=100, asked=3)]) == (0, "")


def test_what_later_commands_have_passed_is_counted() -> None:
    assert most_passed([_turn(number, placed=number * 100) for number in range(5)]) == (0, "")
    late = _turn(0, placed=1000)
    others = [_turn(number, placed=number * 100) for number in range(1, 5)]
    assert most_passed([late, *others]) == (4, "p0")
    begun_late = _turn(
        5, placed=150, begun=2000
    )  # given its place earlier, and begun later: its machine was away
    assert most_passed([late, *others, begun_late]) == (4, "p0")
