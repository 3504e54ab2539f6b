"""`OutputFeed` and its places, on a real engine: silence, stopping, and what a place looks like."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.command import Command
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidRequest
from outlive.engine import Engine
from outlive.frontends.rest.follow import FeedPlace, OutputFeed
from tests.engine.engines import ME, an_engine, run
from tests.keeper.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with House(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
async def engine(house: House) -> AsyncIterator[Engine]:
    async with an_engine(house.state_dir) as opened:
        yield opened


async def test_silence_is_told_and_a_stop_ends_the_stream_but_not_the_command(engine: Engine) -> None:
    process = await engine.starts.start(Command(line="sleep 60"), owner=ME)
    stopping = asyncio.Event()
    said = []
    async with asyncio.timeout(10):
        async for events in OutputFeed(process, process.log, FeedPlace(BEGINNING)).events(
            quiet_s=0.01, stopping=stopping
        ):
            said.append(events)
            if len(said) == 3:
                stopping.set()
    assert said == [[], [], []]
    assert not process.status.is_ended
    await engine.records.remove(process, force=True)


async def test_a_stop_wakes_a_silent_stream(engine: Engine) -> None:
    process = await engine.starts.start(Command(line="sleep 60"), owner=ME)
    stopping = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, stopping.set)
    async with asyncio.timeout(10):
        assert [
            one
            async for one in OutputFeed(process, process.log, FeedPlace(BEGINNING)).events(
                quiet_s=60, stopping=stopping
            )
        ] == []
    await engine.records.remove(process, force=True)


async def test_output_comes_as_bytes_where_no_encoding_is_asked_for(engine: Engine) -> None:
    process = await run(engine, r"printf '\377\303'")
    async with asyncio.timeout(10):
        following = OutputFeed(process, process.log, FeedPlace(BEGINNING), encoding=None)
        found = [
            event
            async for events in following.events(quiet_s=60, stopping=asyncio.Event())
            for event in events
        ]
    assert [event.name for event in found] == ["output", "completed", "closed"]
    assert (found[0].raw, found[0].body) == (b"\xff\xc3", {"type": "stdout", "end": 2})


@given(
    st.builds(Cursor, st.integers(0, 10**18 - 1), st.integers(0, 10**18 - 1)),
    st.sampled_from([None, "completed", "closed"]),
)
def test_a_place_is_read_back_as_it_was_written(cursor: Cursor, told: str | None) -> None:
    place = FeedPlace(cursor, told)  # type: ignore[arg-type] # sampled words
    assert FeedPlace.parse(str(place)) == place


@given(st.text(alphabet="0123456789.;completsd", max_size=20))
def test_whatever_is_read_as_a_place_is_written_the_same_way(text: str) -> None:
    """Anything else is refused, and never in another way."""
    with contextlib.suppress(InvalidRequest):
        place = FeedPlace.parse(text)
        assert FeedPlace.parse(str(place)) == place


@pytest.mark.parametrize("text", ["", "x", "1.0;", "1.0;done", "1.0;closed;closed", "-1.0"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        FeedPlace.parse(text)
