"""The table of what is live, by id and by connection."""

from outlive.core.process import Owner
from outlive.engine.announcer import Announcer
from outlive.engine.intake import Intake
from outlive.engine.process import Process
from tests.store.rows import a_row


def _intake() -> Intake:
    return Intake(changed=lambda *_: None, announcer=Announcer())


def _process(number: int, connection_id: str | None) -> Process:
    owner = Owner(principal="me", connection_id=connection_id)
    return Process.from_stored(a_row(number, owner=owner), "/nowhere")


async def test_a_connection_has_what_it_started_as_long_as_it_is_live() -> None:
    intake = _intake()
    first, second, other, nobodys = (_process(n, name) for n, name in enumerate(("a", "a", "b", None)))
    for process in (first, second, other, nobodys):
        intake.enter(process)
    assert {*intake.of_connection("a")} == {first, second}
    assert intake.leave(first)
    assert not intake.leave(first)
    assert (intake.of_connection("a"), intake.of_connection("b")) == ([second], [other])
    for process in (second, other, nobodys):
        assert intake.leave(process)
    assert (intake.live, intake.of_connection("a"), intake.of_connection("b")) == ({}, [], [])


async def test_another_object_of_the_same_id_takes_the_place_of_the_first() -> None:
    """A start that was repeated over another connection."""
    intake = _intake()
    first, again = _process(1, "a"), _process(1, "b")
    intake.enter(first)
    intake.enter(again)
    assert (intake.of_connection("a"), intake.of_connection("b")) == ([], [again])
    assert intake.leave(first)
    assert (intake.live, intake.of_connection("b")) == ({}, [])
