"""Whose terminals are given back to whom: never to somebody else, and in doubt to nobody."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.extensions.bridge.connection import BridgeConnection, TransportClosed
from outlive.extensions.bridge.options import BridgeOptions
from outlive.extensions.bridge.terminal_owners import OwnedTerminals, StateFile, TerminalOwners
from outlive.policy.access import Access, Scope

_ENGINES_ID = "01k9zq3v8d4t6r2m5x7b1n0c9f"


class _NoLine:
    """A socket that is closed already."""

    async def send(self, _message: bytes, _written: object) -> None:
        raise TransportClosed

    async def receive(self) -> None:
        return None

    async def close(self, _code: int, _reason: str) -> None:
        return None


def _extension(principal: str = "me") -> BridgeConnection:
    return BridgeConnection(_NoLine(), Access(principal=principal, scope=Scope.RUN), BridgeOptions())


class _World:
    """A clock and processes that can be ended."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.dead: set[str] = set()
        self.seats = self.anew()

    def anew(self) -> TerminalOwners:
        return TerminalOwners(trusted_s=60.0, lives=lambda key: key not in self.dead, clock=lambda: self.now)

    def claim(self, key: str, *, is_process: bool = True, principal: str = "me") -> OwnedTerminals:
        return self.seats.claim(_extension(principal), key, is_process=is_process)

    def leave(self, seat: OwnedTerminals) -> None:
        assert seat.extension is not None
        self.seats.leave(seat, seat.extension)


@pytest.fixture
def world() -> _World:
    return _World()


@pytest.mark.promise("S3.4.again")
def test_a_process_gets_its_own_terminals_back_as_long_as_it_lives(world: _World) -> None:
    first, second = world.claim("p1"), world.claim("p2")
    for seat in (first, second):
        world.seats.add(seat, f"t of {seat.key}", "n", "me")
        world.leave(seat)
    world.now += 1e6
    assert world.claim("p2") is second
    assert world.claim("p1") is first
    world.leave(first)
    world.dead.add("p1")
    assert [one.terminal_id for one in world.seats.of("me")] == ["t of p2"]
    assert world.claim("p1") is not first


@pytest.mark.promise("S3.4.again")
def test_who_cannot_be_told_gets_them_back_within_a_minute(world: _World) -> None:
    seat = world.claim("token:x 10.0.0.7", is_process=False)
    world.seats.add(seat, "t", "n", "me")
    world.leave(seat)
    world.now += 59
    assert world.claim("token:x 10.0.0.7", is_process=False) is seat
    world.leave(seat)
    world.now += 61
    assert world.claim("token:x 10.0.0.7", is_process=False) is not seat
    assert world.seats.find("t", "me") is None


@pytest.mark.promise("S3.4.again", "S3.8")
def test_another_principal_or_one_of_two_alike_gets_nothing(world: _World) -> None:
    first, second = world.claim("p"), world.claim("p")
    world.seats.add(first, "one", "n", "me")
    world.seats.add(second, "two", "n", "me")
    world.leave(first)
    assert world.claim("p", principal="you") is not first
    world.leave(second)
    third = world.claim("p")
    assert third is not first
    assert third is not second
    assert third.terminals == {}


def test_a_seat_without_terminals_is_not_kept(world: _World) -> None:
    seat = world.claim("p")
    world.leave(seat)
    assert len(world.seats) == 0


@pytest.mark.promise("S3.5")
def test_names_that_are_taken_or_look_like_the_engines_are_changed(world: _World) -> None:
    first, second = world.claim("p1"), world.claim("p2")
    one, two = world.seats.add(first, "t", "n", "me"), world.seats.add(second, "t", "n", "me")
    engines = world.seats.add(first, _ENGINES_ID, "n", "me")
    assert one is not None
    assert two is not None
    assert engines is not None
    assert (one.terminal_id, two.terminal_id, engines.terminal_id) == ("t", "t~2", f"{_ENGINES_ID}~2")
    assert engines.own_id == _ENGINES_ID
    assert world.seats.find("t~2", "me") == (second, two)
    assert world.seats.find("t~2", "you") is None


@pytest.mark.promise("S3.8")
def test_a_terminal_does_not_pass_to_another_principal_by_its_name(world: _World) -> None:
    seat = world.claim("p")
    mine = world.seats.add(seat, "t", "n", "me")
    assert world.seats.add(seat, "t", "n", "you") is None
    assert world.seats.find("t", "me") == (seat, mine)
    again = world.seats.add(seat, "t", "m", "me")
    assert world.seats.of("me") == [again]


def test_of_too_many_that_are_away_the_oldest_go(world: _World) -> None:
    for number in range(300):
        seat = world.claim(f"p{number}")
        world.seats.add(seat, f"t{number}", "n", "me")
        world.leave(seat)
    assert len(world.seats) == 256
    assert world.seats.find("t43", "me") is None
    assert world.seats.find("t44", "me") is not None


@pytest.mark.promise("S3.4.again")
@given(
    known=st.lists(
        st.tuples(
            st.text(max_size=5),
            st.booleans(),
            st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=4),
        ),
        max_size=4,
    )
)
def test_what_is_kept_is_known_again(known: list[tuple[str, bool, list[str]]]) -> None:
    world = _World()
    for key, is_process, names in known:
        seat = world.claim(key, is_process=is_process)
        for name in names:
            world.seats.add(seat, name, f"named {name}", "me")
    again = world.anew()
    again.restore(world.seats.document())
    assert again.of("me") == world.seats.of("me")
    assert again.document() == world.seats.document()


@pytest.mark.promise("S3.4.again")
@given(document=st.binary(max_size=60) | st.sampled_from([b"{}", b"[{}]", b"[1]", b'[{"key":1}]']))
def test_another_document_is_refused(document: bytes) -> None:
    seats = _World().anew()
    if document.strip() != b"[]":
        with pytest.raises(ValueError, match=r"."):
            seats.restore(document)
    assert len(seats) == 0


@pytest.mark.anyio
async def test_many_changes_at_once_are_few_writes(tmp_path: Path) -> None:
    made: list[int] = []

    def document() -> bytes:
        made.append(len(made))
        return b"%d" % len(made)

    memory = StateFile(str(tmp_path / "file"), document)
    assert await memory.read() == b""
    await asyncio.gather(*(memory.keep() for _ in range(50)))
    assert len(made) <= 2
    assert await memory.read() == b"%d" % len(made)


@pytest.mark.anyio
async def test_a_file_that_cannot_be_written_is_told_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = StateFile(str(tmp_path / "no" / "folder"), lambda: b"x")
    await memory.keep()
    assert "cannot be kept" in caplog.text
